"""The client class `Tidewheel`.

Each method checks its arguments, calls one or two functions of this package, and returns their result as a public
value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from tidewheel import clock as _clock
from tidewheel.aws.tries import bounded_but
from tidewheel.client import changes, dev_service, finding, receiving, recurring, tracing, waiting
from tidewheel.client.changes import Rescheduled
from tidewheel.client.connection import Connection
from tidewheel.client.core import Core
from tidewheel.client.finding import ChangedMessages, MatchedMessage, Selected
from tidewheel.client.history import History, SentHour, sent_by_hour
from tidewheel.client.history import history as sent_history
from tidewheel.client.operations import administration, damaged, dead_letters
from tidewheel.client.operations.administration import check_both
from tidewheel.client.operations.damaged import Damaged
from tidewheel.client.operations.dead_letters import DeadLetter, RedriveResult
from tidewheel.client.operations.health import Finding, Health
from tidewheel.client.operations.service_redrive import RefusedMessage, redrive_service_queues, refused_messages
from tidewheel.client.operations.stats import LedgerInfo, TopicStats, topic_ledgers, topic_stats
from tidewheel.client.recurring import RecurringMessage
from tidewheel.client.sender import Sender
from tidewheel.client.waiting import MessageStatus, WaitingMessage
from tidewheel.client.worker.inbox import Inbox
from tidewheel.clock import Clock
from tidewheel.errors import InvalidValue, SendFailed, UnknownMessage
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration.purge import PurgeResult, purge
from tidewheel.flows.administration.replay import ReplayResult, replay
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.flows.delivery.cancel import CancelResult
from tidewheel.model.duration import at_ms, delay_ms
from tidewheel.model.message import Message, MessageId, Receipt
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.recurrence import parse_rule
from tidewheel.model.setting import check_names
from tidewheel.model.settings import (
    ChangeableSettings,
    FilterDocument,
    NewSubscriptionSettings,
    NewTopicSettings,
    ServiceSettings,
    SubscriptionSettings,
    TopicSettings,
    stored_settings,
)
from tidewheel.model.topic import Subscription, Topic, check_name
from tidewheel.model.untrusted import check_whole
from tidewheel.model.validation import MAX_PAYLOAD_BYTES
from tidewheel.storage.storage import Storage

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_sqs import SQSClient

    from tidewheel.client.estimate import Estimate


@bounded_but("send_many", "receive", "find", "cancel_where", "reschedule_where")
class Tidewheel:
    """A deployed Tidewheel service. One client serves any number of threads.

    A call ends at most 30 s after AWS last did what it was asked, and raises TemporaryFailure if AWS cannot be reached.
    docs/sdk.md tells more.

    Example:
        >>> tw = Tidewheel()
        >>> tw.send("orders", {"id": 17}, delay="3d")
    """

    def __init__(
        self,
        stack_name: str | None = None,
        *,
        session: boto3.Session | None = None,
        settings: ServiceSettings | None = None,
        clock: Clock | None = None,
        endpoint_url: str | None = None,
        storage: Storage | None = None,
        sqs: SQSClient | None = None,
    ) -> None:
        """Creates a client. The first method call is the first call of AWS.

        Args:
            stack_name: the stack whose SSM parameter holds the settings; default: "tidewheel".
            session: boto3's session for region and credentials; default: boto3's own.
            settings: the service's settings, instead of the SSM parameter's.
            clock: the source of time; default: the local stack's, for a session of one, or the machine's.
            endpoint_url: the URL of AWS, for the local runtime.
            storage: the ports of stored state, for tests (`tidewheel.memory.MemoryService`); default: the stack's
                DynamoDB table and S3 bucket.
            sqs: the SQS client, for tests; default: the session's.

        With `TIDEWHEEL_DEV=1` in the environment, the defaults are those of the running `tidewheel dev`.

        Raises:
            InvalidValue: a value is not usable.
            NotConfigured: TIDEWHEEL_DEV=1 is set, and no `tidewheel dev` answers.
        """
        dev = dev_service.service_for(endpoint_url) if session is None and storage is None else None
        if dev is not None:
            stack_name, session, endpoint_url = stack_name or dev.stack, dev.session(), dev.endpoint
        clock = clock or _clock.of(session)
        stack = check_name("stack_name", "tidewheel" if stack_name is None else stack_name)
        connection = Connection(
            stack, session=session, settings=settings, endpoint_url=endpoint_url, storage=storage, sqs=sqs, clock=clock
        )
        self.core = Core(connection=connection, clock=clock)

    # ---- messages

    def send(
        self,
        topic: str,
        body: Any,
        *,
        delay: float | timedelta | str | None = None,
        deliver_at: datetime | float | None = None,
        delay_level: int | None = None,
        attributes: Mapping[str, str] | None = None,
        key: str | None = None,
        replace: bool = False,
        expires_in: float | timedelta | str | None = None,
        group: str | None = None,
        window: float | timedelta | str | None = None,
        max_wait: float | timedelta | str | None = None,
    ) -> Receipt:
        """Sends one message. When this returns, SQS has stored the message durably.

        Args:
            topic: the topic.
            body: text, bytes, or anything that json.dumps takes. A body that is too large for SQS is kept in S3.
            delay: seconds, a timedelta, or text such as "3d 4h"; at most ten years.
            deliver_at: an aware datetime or Unix seconds, instead of delay; a past time means now.
            delay_level: a number of the topic's table of delay levels, instead of delay; by default RocketMQ's 18.
            attributes: up to nine names with text values, delivered as SQS message attributes.
            key: the key for cancelling, replacing and deduplication; up to 256 characters.
            replace: whether the message replaces an earlier message with its key that can still be stopped. If False,
                the message is dropped while another message with its key waits.
            expires_in: how long after the due time the message may still be handed out.
            group: the MessageGroupId in the subscriptions' queues, 1 to 128 characters. SQS's fair queues share out
                consumers among groups.
            window: how long after the given time the message may be due, 1 s to 7 days, to spread a peak. The receipt
                has the due time: random without a key, the same for each message with the same key. `expires_in`
                counts from there.
            max_wait: with replace, how long after this call newer messages with the key may put off the delivery; more
                than the delay. The receipt has the latest due time.

        Raises:
            InvalidValue: a value is not usable; nothing was sent.
            UnknownTopic: the topic does not exist; nothing was sent.
            LimitExceeded: the topic's limit is reached; nothing was sent.
            TemporaryFailure: AWS was not reached, or does not take the message for now.
            QueueUnavailable: SQS refuses the message.
        """
        message = Message(
            body=body,
            delay=delay,
            deliver_at=deliver_at,
            delay_level=delay_level,
            attributes=attributes or {},
            key=key,
            replace=replace,
            expires_in=expires_in,
            group=group,
            window=window,
            max_wait=max_wait,
        )
        try:
            return self.send_many(topic, [message])[0]
        except SendFailed as error:
            failure = error.failures[0]
            raise failure from failure.__cause__

    def send_many(self, topic: str, messages: Iterable[Message]) -> list[Receipt]:
        """Sends many messages, packed into few SQS messages. The iterable is streamed.

        Returns:
            One receipt a message, in order.

        Raises:
            UnknownTopic: the topic does not exist; nothing was sent.
            SendFailed: some messages were not accepted, each named by its index; all others were sent.
        """
        state = self.core.cache.state(topic)
        with tracing.sending(topic) as span:
            receipts = Sender(self.core, state, trace_context=tracing.context_of(span)).send(messages)
            tracing.sent(span, receipts)
        return receipts

    def cancel(self, topic: str, id: str | None = None, *, key: str | None = None) -> CancelResult:
        """Cancels a message by its id, or all messages with a key. Repeating is harmless.

        Cancelling works until a consumer has the message, or until its slot is sealed, as the topic's setting `claims`
        says: see docs/keys.md.
        Messages that are still in an ingest queue can be cancelled too.

        Args:
            topic: the topic.
            id: the message id; an earlier id of a rescheduled message cancels the message at its new time.
            key: the key, instead of an id; cancels all messages that were sent with this key before.

        Returns:
            Cancelled (true): no reader gets the message. TooLate (false): its `reason` says who has it or may get it.

        Raises:
            InvalidValue: neither or both of id and key are given, or the id or key is not valid.
            UnknownTopic: the topic does not exist.
            ConcurrentModification: others changed the topic at every attempt; try again.
        """
        return changes.cancel_one(self.core, topic, id, key)

    def cancel_many(self, topic: str, ids: Iterable[str]) -> list[CancelResult]:
        """Cancels many messages by their ids, in few requests. Returns one result for each id, in order.

        Raises:
            InvalidValue: an id is not valid; nothing was cancelled.
            UnknownTopic: the topic does not exist.
        """
        return changes.cancel_all(self.core, self.core.cache.state(topic), ids)

    def reschedule(
        self,
        topic: str,
        id: str | None = None,
        *,
        key: str | None = None,
        delay: float | timedelta | str | None = None,
        deliver_at: datetime | float | None = None,
        delay_level: int | None = None,
    ) -> Rescheduled | CancelResult:
        """Moves a waiting message to another time, with a new id.

        The message is read from its ledger, which needs pyarrow (`pip install 'tidewheel[read]'`). The expiry moves by
        the same time. A window of the message does not count again.

        Args:
            topic: the topic.
            id: the message id, or any earlier id of the message.
            key: the key, instead of an id.
            delay: the delay from now.
            deliver_at, delay_level: instead of delay, as in `send`.

        Returns:
            Rescheduled (true, with the new receipt), TooLate (false: the message comes at its old time to those that
            `reason` names, or came), or Cancelled.

        Raises:
            InvalidValue: a value is not usable; nothing was changed.
            UnknownTopic: the topic does not exist.
            UnknownMessage: no ledger holds the message: it is not ingested yet (up to five minutes), or was purged.
        """
        changes.check_one_of(id, key)
        state, now_ms = self.core.cache.state(topic), self.core.clock.now_ms()
        due_ms = changes.new_due_ms(state, now_ms, delay=delay, deliver_at=deliver_at, delay_level=delay_level)
        return changes.reschedule(Sender(self.core, state), due_ms, id, key)

    def deliver_now(self, topic: str, id: str | None = None, *, key: str | None = None) -> Rescheduled | CancelResult:
        """Moves a waiting message to the present, as `reschedule` does. So it comes once, now or at its time.

        Args:
            topic: the topic.
            id: the message id, or any earlier id of the message.
            key: the key, instead of an id.

        Returns:
            Rescheduled (true, with the new receipt), TooLate (false: the message comes at its time, or came), or
            Cancelled.

        Raises:
            InvalidValue, UnknownTopic, UnknownMessage: as `reschedule`.
        """
        return self.reschedule(topic, id, key=key, delay=0)

    def find(self, topic: str, **selected: Unpack[Selected]) -> Iterator[MatchedMessage]:
        """Finds waiting messages, as they are read. Nothing is changed.

        With a prefix, the keys' entries are read: sixteen queries a page, a BatchGetItem for a hundred messages, and
        no GET. Otherwise ledgers are read, which needs pyarrow (`pip install 'tidewheel[read]'`).

        Args:
            topic: the topic.
            **selected: `key_prefix`; or `group`; `first` and `end`: due at `first` or later, by default now, and before
                `end`; `everything=True` if nothing else selects; `after`, to go on behind a found message.

        Raises:
            InvalidValue: a value is not usable, or nothing selects.
            UnknownTopic: the topic does not exist.
            PeekIncomplete: some ledgers cannot be read.
        """
        return finding.find(self.core, topic, **selected)

    def estimate(self, topic: str, **selected: Unpack[Selected]) -> Estimate:
        """Estimates the cost of `find` or a dry run, and of a cancel or a move of each found message.

        Reads the topic state and the metadata of the ledgers, as each page of `find` does.

        Args:
            topic: the topic.
            **selected: as for `find`. `after` changes nothing: the estimate is that of the whole.

        Raises:
            InvalidValue, UnknownTopic: as of `find`.
        """
        from tidewheel.client.estimate import estimate

        return estimate(self.core, topic, **selected)

    def cancel_where(
        self,
        topic: str,
        *,
        dry_run: bool = False,
        progress: Callable[[ChangedMessages], object] = lambda _: None,
        **selected: Unpack[Selected],
    ) -> ChangedMessages:
        """Cancels all messages that `find` finds, ninety in a transaction.

        To go on after an error, give the last progress's `after`.

        Args:
            topic: the topic.
            dry_run: whether to count only.
            progress: gets the counts after each transaction.
            **selected: as for `find`.

        Raises:
            InvalidValue, UnknownTopic, PeekIncomplete: as of `find`.
            ConcurrentModification: others changed the topic at every attempt; go on.
        """
        return finding.cancel_where(self.core, topic, self.find(topic, **selected), dry_run=dry_run, progress=progress)

    def reschedule_where(
        self,
        topic: str,
        *,
        delay: float | timedelta | str | None = None,
        deliver_at: datetime | float | None = None,
        by: float | timedelta | str | None = None,
        dry_run: bool = False,
        progress: Callable[[ChangedMessages], object] = lambda _: None,
        **selected: Unpack[Selected],
    ) -> ChangedMessages:
        """Moves all messages that `find` finds, one by one.

        Args:
            topic: the topic.
            delay, deliver_at: the new time of all, as of `reschedule`.
            by: instead, how much later each comes than before.
            dry_run, progress: as for `cancel_where`.
            **selected: as for `find`.

        Raises:
            InvalidValue, UnknownTopic, PeekIncomplete: as of `find`.
        """
        state, now_ms = self.core.cache.state(topic), self.core.clock.now_ms()
        if by is not None and (delay is not None or deliver_at is not None):
            raise InvalidValue("by", by, "give by, or delay or deliver_at")
        later_ms = None if by is None else delay_ms(by, "by")
        fixed_ms = 0
        if later_ms is None:
            fixed_ms = changes.new_due_ms(state, now_ms, delay=delay, deliver_at=deliver_at, delay_level=None)

        def due_ms(each: MatchedMessage) -> int:
            return fixed_ms if later_ms is None else at_ms("deliver_at", each.deliver_at) + later_ms

        found, after = self.find(topic, **selected), selected.get("after")
        return finding.reschedule_where(
            self.core, topic, found, due_ms, after=after, dry_run=dry_run, progress=progress
        )

    # ---- recurring messages

    def send_recurring(
        self,
        topic: str,
        key: str,
        body: Any,
        *,
        cron: str | None = None,
        every: float | timedelta | str | None = None,
        timezone: str = "UTC",
        start: datetime | float | None = None,
        attributes: Mapping[str, str] | None = None,
        expires_in: float | timedelta | str | None = None,
        replace: bool = False,
        group: str | None = None,
        window: float | timedelta | str | None = None,
    ) -> RecurringMessage:
        """Creates a recurring message, which comes until cancelled. An equal existing message is kept.

        A message that was cancelled goes on where it ended, if it is created again before its next time with the same
        key, rule and window.

        Args:
            topic: the topic.
            key: the message's name, for replacing and cancelling.
            body: as in `send`; up to 256 KiB with its attributes.
            cron: five fields (minute, hour, day of month, month, day of week), such as "0 9 * * MON-FRI".
            every: a fixed rate instead, of a minute or more, counted from `start`.
            timezone: IANA name of the time zone for cron's fields. If daylight saving skips a fixed time, the message
                comes when the clocks have gone forward; if it repeats a fixed time, the message comes once. See
                docs/recurring.md.
            start: the earliest due time, an aware datetime or Unix seconds; default: now, or the start of an existing
                message with this key and rule.
            attributes, expires_in, group: as in `send`.
            replace: whether to replace an existing message with this key and another rule or body.
            window: shifts all times by a constant below it, made from topic and key. 1 s to 7 days.

        Raises:
            InvalidValue: a value is not usable; nothing was created.
            UnknownTopic: the topic does not exist.
            AlreadyExists: a message with this key has another rule or body.
            ConcurrentModification: others changed the topic at every attempt; try again.
        """
        state, now_ms = self.core.cache.state(topic), self.core.clock.now_ms()
        start_ms = now_ms if start is None else at_ms("start", start)
        return recurring.make(
            self.core.connection.storage,
            Sender(self.core, state).send_checked,
            partial(self.core.cache.read, topic),
            now_ms,
            key,
            Message(body=body, attributes=attributes or {}, expires_in=expires_in, group=group, window=window),
            parse_rule(cron, every, timezone, start_ms=start_ms),
            starts_now=start is None,
            replaces=replace,
        )

    def recurring(self, topic: str) -> list[RecurringMessage]:
        """Lists a topic's recurring messages by key.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self.core.cache.state(topic)
        now_ms = self.core.clock.now_ms()
        return [recurring.described(each, now_ms) for each in self.core.connection.storage.recurring.all(topic, {})]

    def cancel_recurring(self, topic: str, key: str) -> None:
        """Ends a recurring message.

        Occurrences in slots that are sealed already may still come.

        Raises:
            InvalidValue: the key is not valid.
            UnknownTopic: the topic does not exist.
            UnknownRecurring: no recurring message has this key.
            ConcurrentModification: others changed the topic at every attempt; try again.
        """
        recurring.end(self.core.connection.storage, partial(self.core.cache.read, topic), key)

    # ---- consuming

    def receive(
        self, topic: str, subscription: str, *, max_messages: int = 10, wait_s: int = 0
    ) -> list[ReceivedMessage]:
        """Receives messages from a subscription's queue. `delete` acknowledges messages.

        Large bodies are read from S3.

        Args:
            topic: the topic.
            subscription: the subscription.
            max_messages: the most messages to return; above ten, SQS is called several times.
            wait_s: how long to wait for the first message, 0 to 20 seconds.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
            ClaimFailed: none of the messages could be claimed. They come again.
        """
        return Inbox(self.core, topic, subscription, drop_expired=False).receive(max_messages, wait_s)

    def delete(self, topic: str, subscription: str, messages: Iterable[ReceivedMessage]) -> None:
        """Acknowledges received messages, so they do not come again.

        Raises:
            UnknownTopic, UnknownSubscription: it does not exist.
            DeleteFailed: some messages could not be acknowledged; all others are.
        """
        queue_url = self.core.cache.subscription(topic, subscription).queue_url
        receiving.delete(self.core.connection.sqs, queue_url, messages)

    # ---- looking at messages

    def stats(self, topic: str) -> TopicStats:
        """Returns a topic's waiting messages and its subscriptions' progress, from metadata alone.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        state, connection = self.core.cache.read(topic), self.core.connection
        return topic_stats(connection.storage, connection.sqs, state, self.core.clock.now_ms())

    def get(self, topic: str, id: str | None = None, *, key: str | None = None) -> MessageStatus:
        """Returns a message's status, such as waiting, sealed, sent, cancelled, purged or expired.

        For each subscription, it says when its queue took the message, and when a consumer took it from there. The
        search covers ledgers only, so `unknown` has several meanings: the message was never sent; it is still in an
        ingest queue (up to five minutes, if it is due in over half an hour); it was due so soon that it was sent
        direct, and no consumer has claimed it; or its ledger is kept no more. A message that was moved or superseded in
        time is `cancelled`.

        Args:
            topic: the topic.
            id: the message's id.
            key: instead of the id, the newest message with this key. Keys are kept for 28 days after their message.

        Raises:
            InvalidValue: the topic's name, the id or the key is not usable, or both or neither are given.
            UnknownTopic: the topic does not exist.
            UnknownMessage: no message with this key was ingested, or it was cancelled by its key, or is too old.
            ExtraMissing: pyarrow is not installed; install the extra `read`.
        """
        check_name("topic", topic)
        changes.check_one_of(id, key)
        if key is not None:
            entry = self.core.connection.storage.keys.read(topic, key)
            if entry is None or entry.id is None:
                advice = "it is not ingested yet, was cancelled by its key or imported, or is old; try history(key=)"
                raise UnknownMessage(topic, key, advice)
            id = entry.id
        return waiting.get(self.core.connection, topic, MessageId(str(id)), self.core.clock.now_ms())

    def history(
        self,
        topic: str,
        subscription: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | str | None = None,
        key: str | None = None,
        group: str | None = None,
    ) -> History:
        """Finds messages that were sent, the newest due time first, with their bodies. Reads as they are asked for.

        Messages that went direct, without a ledger, are not found, nor those whose ledgers are kept no more. A look
        ends after 1,000 GETs of segments of ledgers, whatever it found. `looked_back_to` of the result says how far it
        looked. It also reads plans and records, by queries of a megabyte, and the claims of a hundred messages at once.

        Args:
            topic: the topic.
            subscription: only messages that were sent to this subscription. None: to any.
            since, until: due at `since` or later, and before `until`, as aware datetimes or Unix seconds. None: all
                that is kept, until now. With the id of a message as `until`, goes on behind it.
            key: only messages with this key. All segments of the time are read, as ledgers have no index of keys.
            group: only messages of this group.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic: the topic does not exist.
            ExtraMissing: pyarrow is not installed; install the extra `read`.
        """
        return sent_history(self.core, check_name("topic", topic), subscription, since, until, key, group)

    def sent_by_hour(self, topic: str, days: int = 7) -> list[SentHour]:
        """Counts the messages that the queues took in each hour, the oldest hour first.

        A queue takes a message up to 13 minutes before it is due. This reads the records of deliveries, 5,000 a
        megabyte, and no ledger. Messages that went direct are not counted, nor those that were parked first. Copies
        count, and a part counts twice if AWS's answer to its mark was lost. Replays and late deliveries count, unless
        all other messages of their time are older.

        Args:
            topic: the topic.
            days: how many, 1 to 90. The topic keeps records for `retention_days` and a day more.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic: the topic does not exist.
        """
        return sent_by_hour(self.core, check_name("topic", topic), days)

    def read_body(self, message: WaitingMessage, most: int = MAX_PAYLOAD_BYTES) -> bytes:
        """Returns the beginning of a message's body, as bytes. A large body is read from S3 by one range GET.

        Args:
            message: a message from `get`, `peek` or `find`.
            most: the most bytes to return.

        Raises:
            ObjectMissing: the body is collected.
        """
        if message.payload is None:
            return message.bytes()[:most]
        return self.core.connection.objects.get_range(message.payload, 0, most)

    def peek(self, topic: str, n: int = 10, *, after: str | datetime | None = None) -> list[WaitingMessage]:
        """Returns the next n unplanned messages by due time, and leaves them in the topic.

        Cancelled, purged and expired messages are left out, and so are messages that are still in an ingest queue.

        Args:
            topic: the topic.
            n: 1 to 1000.
            after: return only messages after this: the id of the last message seen, or due after a time with its zone.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic: the topic does not exist.
            PeekIncomplete: some ledgers cannot be read; the error has the messages of all others.
            ExtraMissing: pyarrow is not installed; install the extra `read`.
        """
        check_name("topic", topic)
        return waiting.peek(self.core.connection, topic, n, self.core.clock.now_ms(), after)

    def ledgers(self, topic: str, n: int = 20, *, after: str | None = None) -> list[LedgerInfo]:
        """Lists a topic's ledgers in the order of their first slots, from metadata, in two requests.

        Ledgers of which all messages are planned are left out, after an hour or two, and those whose item cannot be
        read, see `damaged`.

        Args:
            topic: the topic.
            n: how many at most, 1 to 1000.
            after: return only ledgers behind this: the `after` of the last ledger seen.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic: the topic does not exist.
        """
        return topic_ledgers(self.core.connection, check_name("topic", topic), n, after)

    # ---- topics

    def create_topic(
        self, name: str, *, settings: TopicSettings | None = None, **changes: Unpack[NewTopicSettings]
    ) -> Topic:
        """Creates a topic, or returns the existing topic if the given settings agree. The other settings stay.

        Args:
            name: 1 to 48 letters, digits, '-' or '_'.
            settings: all settings at once. Of these, slot_s, lookahead_s and values other than defaults are compared.
            **changes: single settings, named as TopicSettings' fields (slot_s=60); the service's defaults for the rest.

        Raises:
            InvalidValue: the name or a setting is not usable.
            AlreadyExists: the topic exists with other settings.
            TopicDeleting: an earlier topic of this name is still being deleted.
        """
        state = administration.create_topic(self.core, name, settings, changes)
        self.core.cache.remember(state)
        return Topic.of(state)

    def update_topic(self, name: str, **changes: Unpack[ChangeableSettings]) -> Topic:
        """Changes settings of a topic.

        The service uses the new settings from its next decision on. Other clients see them within a minute.

        Args:
            name: the topic.
            **changes: single settings, named as TopicSettings' fields; all can change but slot_s and lookahead_s.

        Raises:
            InvalidValue: the setting is unknown or fixed, or its value is not usable; nothing was changed.
            UnknownTopic: the topic does not exist.
        """
        check_name("topic", name)
        state = update_topic(self.core.connection.storage, self.core.clock, name, cast("dict[str, Any]", changes))
        self.core.cache.remember(state)
        return Topic.of(state)

    def delete_topic(self, name: str, *, delete_queues: bool = False) -> None:
        """Deletes a topic with all its waiting messages.

        The topic is gone at once. The sweep then deletes its data from S3, DynamoDB and the scheduler; the name is free
        again after about ten minutes. Messages that another client sends meanwhile end in an ingest queue's dead-letter
        queue. Bodies that were too large for SQS are deleted too, so messages with such a body that are still in a
        subscription's queue can no longer be read.

        Args:
            name: the topic.
            delete_queues: whether to delete its subscriptions' queues and dead-letter queues too, with their messages.
                Queues that Tidewheel did not create always stay.

        Raises:
            InvalidValue: the name is not a topic's name.
            UnknownTopic: the topic does not exist.
        """
        administration.delete_topic(self.core, name, delete_queues)
        self.core.cache.forget(name)

    def topics(self) -> list[Topic]:
        """Lists all topics by name, with a query and a read a hundred topics.

        A topic that cannot be read has a `problem`.
        """
        storage, unreadable = self.core.connection.storage, dict[str, Exception]()
        found = [Topic.of(each) for each in storage.topic_states.of(storage.topic_list.read(), unreadable)]
        found += [Topic.unreadable(*each) for each in unreadable.items()]
        return sorted(found, key=lambda topic: topic.name)

    def purge(
        self, topic: str, *, start: datetime | float | None = None, end: datetime | float | None = None
    ) -> PurgeResult:
        """Drops all messages sent to a topic before now, or only messages due from `start` until before `end`.

        Messages that are already in the subscriptions' queues (of slots that are sealed) stay
        there; purge these queues with SQS. What SQS took before this client's time of the purge is dropped, but in a
        ledger partly inside the range, the sender's clock counts. What SQS takes later is not dropped, unless its
        sender's clock is behind by more than five minutes.

        Args:
            topic: the topic.
            start, end: aware datetimes or Unix seconds; without them, all messages.

        Raises:
            InvalidValue: a time is not usable, or the range is empty.
            UnknownTopic: the topic does not exist.
            TooManyPurges: 20 purged ranges are in force.
        """
        check_name("topic", topic)
        first_ms, end_ms = _range_ms(start, end)
        purged = purge(self.core.connection.storage, self.core.clock, topic, first_ms=first_ms, end_ms=end_ms)
        # The state read anew tells the time of the purge, so this client never gives a message an earlier send time.
        self.core.cache.forget(topic)
        return purged

    # ---- subscriptions

    def create_subscription(self, topic: str, name: str, **settings: Unpack[NewSubscriptionSettings]) -> Subscription:
        """Creates a subscription with its own queue, or returns the existing subscription.

        The queue is named `<stack>-<topic>-<name>`. A message that is received ten times, and never acknowledged, goes
        to the queue `...-dead`. Both queues keep messages for 14 days.

        Args:
            topic: the topic.
            name: 1 to 48 letters, digits, '-' or '_'.
            **settings: single settings, named as SubscriptionSettings' fields. The filter policy may also be a dict.

        Raises:
            InvalidValue: a value is not usable; this includes FIFO queues and invalid filters.
            UnknownTopic: the topic does not exist.
            AlreadyExists: the subscription has another queue or another filter.
            QueueUnavailable: no queue has this URL.
            QueueDeletedRecently: SQS gives the queue's name again 60 s after the queue was deleted.
        """
        given = cast("dict[str, Any]", settings)
        check_names(SubscriptionSettings, given, "a subscription")
        wanted = SubscriptionSettings(**given)
        return Subscription.of(administration.create_subscription(self.core, topic, name, wanted))

    def subscriptions(self, topic: str) -> list[Subscription]:
        """Lists a topic's subscriptions by name.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self.core.cache.state(topic)
        return [Subscription.of(each) for each in self.core.connection.storage.subscriptions.all(topic, {})]

    def pause(self, topic: str, subscription: str) -> Subscription:
        """Stops deliveries to a subscription until `resume`. No message is lost.

        Messages that were handed out before (of slots that are sealed) still arrive. Ledgers
        with messages for a paused subscription are not collected. Pausing twice is harmless.

        Raises:
            InvalidValue: a name is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        check_both(topic, subscription)
        return Subscription.of(states.pause(self.core.connection.storage, topic, subscription))

    def resume(self, topic: str, subscription: str) -> Subscription:
        """Resumes deliveries to a subscription after a pause or the loss of the queue.

        Overdue messages come within seconds, in no particular order. If the caller may not send to the work queue, the
        next sweep resumes the deliveries within 300 s. Resuming an active subscription is harmless.

        Raises:
            InvalidValue: a name is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
            ConcurrentModification: other changes of the topic came first at every attempt.
        """
        check_both(topic, subscription)
        connection, clock = self.core.connection, self.core.clock
        return Subscription.of(states.resume(connection.storage, connection.queues, clock, topic, subscription))

    def set_filter(self, topic: str, subscription: str, filter_policy: FilterDocument | None) -> Subscription:
        """Changes which messages a subscription gets from now on.

        The old filter still applies to messages that were handed out before (of slots that are sealed).

        Args:
            topic: the topic.
            subscription: the subscription.
            filter_policy: as for `create_subscription`; None: all messages.

        Raises:
            InvalidValue: a name or the filter is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        check_both(topic, subscription)
        changes = {"filter_policy": stored_settings({"filter_policy": filter_policy})["filter_policy"]}
        return Subscription.of(states.update_subscription(self.core.connection.storage, topic, subscription, changes))

    def delete_subscription(self, topic: str, subscription: str, *, delete_queue: bool = False) -> Subscription:
        """Deletes a subscription and its waiting messages. Other subscriptions are not affected.

        Args:
            topic: the topic.
            subscription: the subscription.
            delete_queue: whether to delete its queue and its dead-letter queue too, with their messages. Queues that
                Tidewheel did not create always stay.

        Returns:
            The deleted subscription.

        Raises:
            InvalidValue: a name is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        deleted = administration.delete_subscription(self.core.connection, topic, subscription, delete_queue)
        self.core.cache.forget_subscription(topic, subscription)
        return Subscription.of(deleted)

    def replay(
        self,
        topic: str,
        subscription: str,
        *,
        start: datetime | float | None = None,
        end: datetime | float | None = None,
    ) -> ReplayResult:
        """Delivers past messages, due from `start` until before `end`, again to one subscription.

        Messages are kept for `retention_days`. Replayed messages keep
        their ids. Messages that were sent direct, without a ledger, do not come again; neither do cancelled, purged or
        expired messages. If the caller may not send to the work queue, the next sweep starts the replay.

        Args:
            topic: the topic.
            subscription: the subscription.
            start: an aware datetime or Unix seconds; default: the start of the kept messages.
            end: likewise; default: now.

        Returns:
            The replayed range; `first_ms` is later than `start` if a part of the range is not kept any more.

        Raises:
            InvalidValue: a time is not usable, the range is empty, or the subscription is paused.
            UnknownTopic, UnknownSubscription: it does not exist.
            RetentionExpired: nothing of the range is kept any more.
        """
        check_both(topic, subscription)
        first_ms, end_ms = _range_ms(start, end)
        connection, enqueue = self.core.connection, self.core.connection.queues.enqueue_parts
        return replay(
            connection.storage, self.core.clock, topic, subscription, first_ms=first_ms, end_ms=end_ms, enqueue=enqueue
        )

    def redrive(
        self, topic: str, subscription: str, *, ids: Collection[str] | None = None, cause: str | None = None
    ) -> RedriveResult:
        """Moves a subscription's dead letters back to its queue: all, those with some ids, or those of a cause.

        Each is the same message, with the same id and `original_id`. SQS moves all of them, also after the call, and
        those that SQS itself had buried keep their number of retries. Chosen ones are moved when the call returns, and
        all attempts begin anew. The call receives letters until it has found the chosen ones, sends each to the queue
        and then deletes it from the dead letters. If it stops, all others stay where they are, and at most one letter
        is in both queues: redriven again, it comes as one more copy with the same id.

        Args:
            topic: the topic.
            subscription: the subscription.
            ids: of dead letters. Unknown ids are passed over.
            cause: as `DeadLetter.cause`.

        Raises:
            InvalidValue: a value is not usable, or the queue has no dead-letter queue.
            UnknownTopic, UnknownSubscription: it does not exist.
            QueueUnavailable: SQS refuses, for instance because a move of all is already under way.
        """
        found = self.core.cache.subscription(topic, subscription)
        if ids is None and cause is None:
            return dead_letters.redrive_queue(self.core.connection.sqs, found.queue_url)
        return dead_letters.settle(self.core.connection, found, ids=ids, cause=cause, again=True)

    def delete_dead_letters(
        self, topic: str, subscription: str, *, ids: Collection[str] | None = None, cause: str | None = None
    ) -> int:
        """Deletes the dead letters with some ids or of a cause. Returns their number.

        Args, and errors: as for `redrive`. One of ids and cause is needed.
        """
        found = self.core.cache.subscription(topic, subscription)
        return dead_letters.settle(self.core.connection, found, ids=ids, cause=cause, again=False).messages

    def dead_letters(self, topic: str | None = None, subscription: str | None = None, n: int = 10) -> list[DeadLetter]:
        """Looks at up to n dead letters of each subscription, newest first, and leaves them where they are.

        A look receives the messages and makes them visible again, so SQS counts it as a receive. Of more than n, SQS
        chooses. Messages that Tidewheel did not deliver are skipped with a warning, as are queues that cannot be read
        if no subscription is named.

        Args:
            topic: the topic. None: all topics.
            subscription: the subscription. None: all of the topic.
            n: 1 to 100. Each ten cost two requests, and SQS may give fewer a request.

        Raises:
            InvalidValue: a value is not usable, or the named subscription's queue has no dead-letter queue.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        check_whole("n", n, 1, dead_letters.MOST_LETTERS)
        connection = self.core.connection
        if topic is not None and subscription is not None:
            return dead_letters.dead_letters(connection, self.core.cache.subscription(topic, subscription), n)
        if subscription is not None:
            raise InvalidValue("subscription", subscription, "name its topic too")
        if topic is None:
            names = [each.name for each in self.topics() if not each.problem]
        else:
            names = [self.core.cache.state(topic).topic]
        subscriptions = (it for name in names for it in connection.storage.subscriptions.all(name, {}))
        return dead_letters.dead_letters_of_all(connection, subscriptions, n)

    def damaged(self, topic: str) -> list[Damaged]:
        """Lists what cannot be read: messages, and items of the table.

        Raises:
            InvalidValue: the name is not usable.
            UnknownTopic: the topic does not exist.
        """
        return damaged.listed(self.core.connection, check_name("topic", topic))

    def retry_damaged(self, topic: str, id: str) -> None:
        """Lets the next sweep read damaged messages again.

        Messages that can be read then are sent, without those that were cancelled or purged.

        Raises:
            UnknownTopic, UnknownDamaged: it does not exist, or was sent since.
            ConcurrentModification: the service is trying at this moment; list again.
        """
        damaged.retry(self.core.connection, self.core.clock, check_name("topic", topic), id)

    def restore_damaged(self, topic: str, id: str) -> None:
        """Copies S3's last good versions of the objects back, and then retries.

        Raises:
            NothingToRestore: S3 keeps no good version of the named objects; all others are restored. Production keeps
                versions for 7 days, development none.
            UnknownTopic, UnknownDamaged, ConcurrentModification: as for `retry_damaged`.
        """
        damaged.restore(self.core.connection, self.core.clock, check_name("topic", topic), id)

    def give_up_damaged(self, topic: str, id: str, reason: str) -> None:
        """Gives damaged messages up, and puts a record with the reason into the queue of refused messages.

        Objects that nothing else names are deleted a day later.

        Raises:
            InvalidValue: the service still tries to read the messages often, or the reason is empty.
            UnknownTopic, UnknownDamaged: it does not exist, or was sent since.
        """
        damaged.give_up(self.core.connection, self.core.clock, check_name("topic", topic), id, reason)

    # ---- the service

    def health(self, topic: str | None = None) -> list[Finding]:
        """Finds problems, the worst first. An empty list: all is well.

        What cannot be read is a finding too, and hides no other. A topic takes the requests of `stats`, and two more if
        some of its messages cannot be read. All topics take these for each topic, and some requests for the service.

        Args:
            topic: the topic. None: all topics and the service's own queues and sweep.

        Raises:
            InvalidValue: the name is not usable.
            UnknownTopic: the topic does not exist.
        """
        found = Health(self.core.connection, self.core.clock.now_ms())
        if topic is None:
            found.find_in_all(lambda: [each.name for each in self.topics()])
        else:
            found.find_in(check_name("topic", topic))
        return found.findings

    def redrive_service(self) -> list[RedriveResult]:
        """Sends dead letters and refused messages of the service's ingest queues and work queue again.

        Call this after the cause is removed. A plain message keeps its id and due time. Messages that can still not be
        read stay, and so do messages that SQS refused for a subscription's queue.

        Raises:
            QueueUnavailable: SQS refuses; what was sent before is done.
            ObjectMissing: the object of a refused message was deleted; what was sent before is done.
        """
        return redrive_service_queues(self.core.connection, self.core.clock)

    def refused(self, limit: int = 100) -> list[RefusedMessage]:
        """Lists messages that the service or SQS refused, with the reason of each. They stay where they are.

        Args:
            limit: how many at most.

        Raises:
            InvalidValue: the limit is not a whole number of at least 1.
        """
        check_whole("limit", limit, 1)
        return refused_messages(self.core.connection, limit)


def _range_ms(start: datetime | float | None, end: datetime | float | None) -> tuple[int | None, int | None]:
    return None if start is None else at_ms("start", start), None if end is None else at_ms("end", end)
