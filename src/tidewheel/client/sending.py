"""Messages: sent, cancelled, moved, and made to come again and again."""

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
    """What senders do."""

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
        """Sends one message; when this returns, SQS keeps it durably.

        Args:
            topic: the topic.
            body: text, bytes, or anything that json.dumps takes. What is too large for SQS is kept in S3.
            delay: seconds, a timedelta, or text such as "3d 4h"; at most ten years.
            deliver_at: an aware datetime or Unix seconds, instead of delay; a past time means now.
            delay_level: a number of the topic's table of delay levels, instead of delay; by default RocketMQ's 18.
            attributes: up to nine names with text values, delivered as SQS message attributes.
            key: what the message can be cancelled, replaced or deduplicated by; up to 256 characters.
            replace: it takes the place of an earlier message with its key, unless that one's slot is sealed. Without
                it, the message is dropped while another one with its key waits.
            expires_in: how long after the due time it may still be handed out.

        Raises:
            InvalidValue: something cannot be delivered; nothing was sent.
            UnknownTopic: the topic does not exist; nothing was sent.
            LimitExceeded: the topic's limit is reached; nothing was sent.
            QueueUnavailable: SQS did not take it.
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
        """Sends many messages, packed into few SQS messages; the iterable is streamed.

        Returns:
            One receipt a message, in order.

        Raises:
            UnknownTopic: the topic does not exist; nothing was sent.
            SendFailed: some messages were not accepted, each named by its index; all others were sent.
        """
        return self._sender(self._state(topic)).send(messages)

    # ---- changing what waits

    def cancel(self, topic: str, id: str | None = None, *, key: str | None = None) -> CancelResult:
        """Cancels a message by its id, or what a key stands for; to repeat it is harmless.

        It works until the message's slot is sealed (8 to 13 minutes before it is due, by default), for what is still in
        an ingest queue too.

        Args:
            topic: the topic.
            id: the message id; that of a message that was rescheduled cancels it at its new time.
            key: the key, instead of an id: all messages that were sent with it before.

        Returns:
            Cancelled (true): it is never delivered. TooLate (false): it is delivered, or was.

        Raises:
            InvalidValue: neither or both are given, or it is not an id or a key.
            UnknownTopic: the topic does not exist.
            Contended: others changed the topic each time; try again.
        """
        state = self._state(topic)
        now_ms = state.sent_at_ms(self._clock.now_ms())
        return changes.cancel_one(self._connection.topics, state, self._ids, now_ms, id, key)

    def cancel_many(self, topic: str, ids: Iterable[str]) -> list[CancelResult]:
        """Cancels many messages by their ids, in few requests; returns one result an id, in order.

        Raises:
            InvalidValue: one is not an id; nothing was cancelled.
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
        """Moves a message that waits to another time; it has a new id then.

        The message is read from its ledger, which needs pyarrow (`pip install 'tidewheel[read]'`). Its expiry moves
        along.

        Args:
            topic: the topic.
            id: the message id, or that of any of its earlier times.
            key: the key, instead of an id.
            delay: from now on.
            deliver_at, delay_level: instead of delay, as in `send`.

        Returns:
            Rescheduled (true, with the new receipt), TooLate (false: it comes at its old time), or Cancelled.

        Raises:
            InvalidValue: a value is not usable; nothing was changed.
            UnknownTopic: the topic does not exist.
            UnknownMessage: it is in no ledger: not ingested yet (up to five minutes), or delivered and collected.
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
        """Makes a message that comes again and again, until it is cancelled; one that says the same already is fine.

        Args:
            topic: the topic.
            key: its name, by which it is replaced and cancelled.
            body: as in `send`; up to 256 KiB with its attributes.
            cron: five fields (minute, hour, day of month, month, day of week), such as "0 9 * * MON-FRI".
            every: a fixed rate instead, of a minute or more, counted from `start`.
            timezone: IANA name of the zone that cron's fields mean. A fixed time that daylight saving skips comes when
                the clocks have gone forward; one that it repeats comes once. See docs/recurring.md.
            start: nothing is due before; an aware datetime or Unix seconds. By default it is now, or where the one with
                this key and rule began.
            attributes, expires_in: as in `send`.
            replace: another rule or body takes the place of the one with this key.

        Raises:
            InvalidValue: a value is not usable; nothing was made.
            UnknownTopic: the topic does not exist.
            AlreadyExists: there is one with this key that says something else.
            Contended: others changed the topic each time; try again.
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
        """Ends a recurring message; what is due within the next 8 to 13 minutes, by default, may still come.

        Raises:
            InvalidValue: it is not a key.
            UnknownTopic: the topic does not exist.
            UnknownRecurring: there is no recurring message with this key.
            Contended: others changed the topic each time; try again.
        """
        recurring.end(self._connection.topics, lambda: self._read_topic_state(topic), key)
