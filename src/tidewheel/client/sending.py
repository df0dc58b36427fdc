"""Sends, cancels and reschedules messages, and manages recurring messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tidewheel.client import changes, recurring
from tidewheel.client.changes import Rescheduled
from tidewheel.client.known import Known
from tidewheel.client.recurring import RecurringMessage
from tidewheel.errors import InvalidValue, SendFailed
from tidewheel.flows.administration.cancel import CancelResult
from tidewheel.model.duration import at_ms
from tidewheel.model.message import Message, Receipt
from tidewheel.model.recurrence import parse_rule
from tidewheel.model.validation import due_at_ms


class Sending(Known):
    """Methods of the client for senders."""

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
            replace: whether the message replaces an earlier message with its key, unless the earlier message's slot is
                sealed. If False, the message is dropped while another message with its key waits.
            expires_in: how long after the due time the message may still be handed out.

        Raises:
            InvalidValue: a value is not usable; nothing was sent.
            UnknownTopic: the topic does not exist; nothing was sent.
            LimitExceeded: the topic's limit is reached; nothing was sent.
            QueueUnavailable: SQS did not accept the message.
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
        )
        try:
            return self.send_many(topic, [message])[0]
        except SendFailed as error:
            raise error.failures[0] from None

    def send_many(self, topic: str, messages: Iterable[Message]) -> list[Receipt]:
        """Sends many messages, packed into few SQS messages. The iterable is streamed.

        Returns:
            One receipt a message, in order.

        Raises:
            UnknownTopic: the topic does not exist; nothing was sent.
            SendFailed: some messages were not accepted, each named by its index; all others were sent.
        """
        return self._sender(self._state(topic)).send(messages)

    # ---- changing waiting messages

    def cancel(self, topic: str, id: str | None = None, *, key: str | None = None) -> CancelResult:
        """Cancels a message by its id, or all messages with a key. Repeating is harmless.

        Cancelling works until the message's slot is sealed (8 to 13 minutes before the message is due, by default).
        Messages that are still in an ingest queue can be cancelled too.

        Args:
            topic: the topic.
            id: the message id; an earlier id of a rescheduled message cancels the message at its new time.
            key: the key, instead of an id; cancels all messages that were sent with this key before.

        Returns:
            Cancelled (true): the message is never delivered. TooLate (false): it is or was delivered.

        Raises:
            InvalidValue: neither or both of id and key are given, or the id or key is not valid.
            UnknownTopic: the topic does not exist.
            ConcurrentModification: others changed the topic at every attempt; try again.
        """
        state = self._state(topic)
        now_ms = state.sent_at_ms(self._clock.now_ms())
        return changes.cancel_one(self._connection.topics, state, self._ids, now_ms, id, key)

    def cancel_many(self, topic: str, ids: Iterable[str]) -> list[CancelResult]:
        """Cancels many messages by their ids, in few requests. Returns one result for each id, in order.

        Raises:
            InvalidValue: an id is not valid; nothing was cancelled.
            UnknownTopic: the topic does not exist.
        """
        return changes.cancel_all(self._connection.topics, self._state(topic), self._clock.now_ms(), ids)

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
        the same time.

        Args:
            topic: the topic.
            id: the message id, or any earlier id of the message.
            key: the key, instead of an id.
            delay: the delay from now.
            deliver_at, delay_level: instead of delay, as in `send`.

        Returns:
            Rescheduled (true, with the new receipt), TooLate (false: the message comes at its old time), or Cancelled.

        Raises:
            InvalidValue: a value is not usable; nothing was changed.
            UnknownTopic: the topic does not exist.
            UnknownMessage: no ledger holds the message: it is not ingested yet (up to five minutes), or was delivered
                and collected.
        """
        changes.check_one_of(id, key)
        state = self._state(topic)
        if delay is None and deliver_at is None and delay_level is None:
            raise InvalidValue("delay", None, "say when: give delay, deliver_at or delay_level")
        now_ms = self._clock.now_ms()
        due_ms = due_at_ms(
            now_ms, delay=delay, deliver_at=deliver_at, delay_level=delay_level, levels=state.settings.delay_levels
        )
        current = self._connection.topics.state(topic) or state
        return changes.reschedule(self._connection, self._sender(state), current, self._ids, now_ms, due_ms, id, key)

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
    ) -> RecurringMessage:
        """Creates a recurring message, which comes until cancelled. An equal existing message is kept.

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
            attributes, expires_in: as in `send`.
            replace: whether to replace an existing message with this key and another rule or body.

        Raises:
            InvalidValue: a value is not usable; nothing was created.
            UnknownTopic: the topic does not exist.
            AlreadyExists: a message with this key has another rule or body.
            ConcurrentModification: others changed the topic at every attempt; try again.
        """
        state = self._state(topic)
        now_ms = self._clock.now_ms()
        start_ms = now_ms if start is None else at_ms("start", start)
        message = Message(body=body, attributes=attributes or {}, expires_in=expires_in)
        return recurring.make(
            self._connection.topics,
            self._sender(state).send_checked,
            lambda: self._read_topic_state(topic),
            now_ms,
            key,
            message,
            parse_rule(cron, every, timezone, start_ms=start_ms),
            starts_now=start is None,
            replaces=replace,
        )

    def recurring(self, topic: str) -> list[RecurringMessage]:
        """Lists a topic's recurring messages by key.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self._state(topic)
        now_ms = self._clock.now_ms()
        return [recurring.described(each, now_ms) for each in self._connection.topics.all_recurring(topic)]

    def cancel_recurring(self, topic: str, key: str) -> None:
        """Ends a recurring message.

        Occurrences due within the next 8 to 13 minutes, by default, may still come.

        Raises:
            InvalidValue: the key is not valid.
            UnknownTopic: the topic does not exist.
            UnknownRecurring: no recurring message has this key.
            ConcurrentModification: others changed the topic at every attempt; try again.
        """
        recurring.end(self._connection.topics, lambda: self._read_topic_state(topic), key)
