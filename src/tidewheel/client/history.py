"""Finds messages that were sent, the newest first. See `Tidewheel.history`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from tidewheel.aws.tries import classified
from tidewheel.client.core import Core
from tidewheel.client.outcome import Known, Owner, Place, SubscriptionProgress
from tidewheel.client.waiting import WaitingMessage, waiting_message
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue, needs_extra
from tidewheel.model.duration import at_ms
from tidewheel.model.message import MessageId, id_bytes, id_floor, id_text
from tidewheel.model.subscription_state import State
from tidewheel.model.tombstone import Claim
from tidewheel.model.topic_state import TopicState
from tidewheel.model.untrusted import check_whole
from tidewheel.model.validation import check_group, check_key

if TYPE_CHECKING:
    from tidewheel.flows.waiting.passed import Passed, PassedMessage

HOUR_MS = 3_600_000
MAX_DAYS = 90
_TOGETHER = 100
"""Messages whose claims are read with one BatchGetItem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message that was sent, or perhaps sent.

    Attributes:
        message: the message with its body and key. A retry has the `original_id` of its chain, and its `attempt`.
        subscriptions: those whose deliveries are done. Others may still get the message.
        cancelled: whether it was cancelled while it was in the queues. Consumers that claim messages then drop it.
    """

    message: WaitingMessage
    subscriptions: tuple[SubscriptionProgress, ...]
    cancelled: bool = False

    @property
    def id(self) -> MessageId:
        """The message's id. `until=id` goes on behind this message."""
        return self.message.id


class History(Iterator[SentMessage]):
    """The messages that `Tidewheel.history` finds, read as they are asked for. Also an asynchronous iterator."""

    def __init__(self, look: Passed, found: Iterator[SentMessage], kept_from_ms: int) -> None:
        self._look, self._found, self._kept_from_ms = look, found, kept_from_ms
        self._last: SentMessage | None = None

    def __next__(self) -> SentMessage:
        """Returns the next message, which is due before the last one."""
        with classified():
            self._last = next(self._found, None)
        if self._last is None:
            raise StopIteration
        return self._last

    async def __aiter__(self) -> AsyncIterator[SentMessage]:
        """Yields the messages in an event loop, read in a thread."""
        while (found := await asyncio.to_thread(next, self, None)) is not None:
            yield found

    @property
    def complete(self) -> bool:
        """Whether it has come to its end, as far back as asked or kept, and not to its number of reads."""
        ended = self._look.complete or self._look.looked_back_ms <= self._kept_from_ms
        return ended and self._last is None

    @property
    def looked_back_to(self) -> datetime:
        """The time down to which it has returned all messages. To go on there, give this as `until`.

        While there are more, the id of the last message is better: this time returns it again.
        """
        if self._last is not None:
            return self._last.message.deliver_at + timedelta(milliseconds=1)
        return utc(max(self._look.looked_back_ms, self._kept_from_ms))

    @property
    def reads(self) -> int:
        """How many segments of ledgers it has read."""
        return self._look.reads

    @property
    def unreadable(self) -> Mapping[str, Exception]:
        """The error of each ledger or plan that could not be read, by its name. Its messages are missing."""
        return self._look.unreadable


def history(
    core: Core,
    topic: str,
    subscription: str | None = None,
    since: datetime | float | None = None,
    until: datetime | float | str | None = None,
    key: str | None = None,
    group: str | None = None,
) -> History:
    """Finds messages that were sent, the newest first. See `Tidewheel.history`."""
    if key is not None:
        check_key(key)
    if group is not None:
        check_group(group)
    storage, now_ms = core.connection.storage, core.clock.now_ms()
    if isinstance(until, str):
        end_id = id_bytes(until)
    else:
        end_id = id_floor(now_ms + 1 if until is None else min(now_ms + 1, at_ms("until", until)))
    with needs_extra("what reads ledgers (history)", "read"):
        from tidewheel.flows.waiting.passed import Passed
    state = storage.topic_states.existing(topic)
    collected_ms = state.collected_until * state.slot_ms
    first_ms = collected_ms if since is None else at_ms("since", since)
    if id_floor(first_ms) >= end_id:
        raise InvalidValue("since", since, "give a time before `until`, and before now")
    wanted: Any = {"first_ms": first_ms, "end_id": end_id, "subscription": subscription, "key": key, "group": group}
    look = Passed(storage=storage, state=state, **wanted)
    # A paused subscription may keep ledgers for longer than the records of others are kept.
    kept_from_ms = max(collected_ms, now_ms - state.settings.retention_ms)
    return History(look, _told(core, state, look, now_ms), kept_from_ms)


def _told(core: Core, state: TopicState, look: Passed, read_ms: int) -> Iterator[SentMessage]:
    """Yields the found messages that were sent, or perhaps sent, with their subscriptions."""
    storage, topic = core.connection.storage, state.topic
    states: dict[Owner, State] | None = None
    parked: set[Owner] | None = None
    for batch in _batches(look):
        if states is None:
            states = {(topic, each.name, each.generation): each.state for each in storage.subscriptions.all(topic, {})}
        records = [record for each in batch for record in each.records]
        if parked is None and any(each.tally.parked for each in records):
            parked = {each.key.owner for each in storage.parks.all(topic, {})}
        ids = [id_text(each.found.checked.id) for each in batch]
        claims = storage.claims.among(topic, [id for id in ids if state.claims(id)])
        late = any(each.key.plan < each.created_slot for each in records)
        cancelled = storage.tombstones.among(topic, state.slot_ms, ids) if late else ()
        known = Known(state=state, read_ms=read_ms, states=states, parked=parked or ())
        for id, each in zip(ids, batch, strict=True):
            claim = claims.get(id, Claim())
            told = tuple(known.told(each.found, each.records, claim, cancelled=id in cancelled))
            if any(to.place in (Place.SENT, Place.UNCERTAIN) for to in told):
                message = waiting_message(each.found)
                yield SentMessage(message=message, subscriptions=told, cancelled=claim.cancelled)


def _batches(look: Passed) -> Iterator[list[PassedMessage]]:
    """Yields the found messages, few at first."""
    found, size = look.messages(), 1
    while batch := list(islice(found, size)):
        yield batch
        size = min(_TOGETHER, 10 * size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentHour:
    """The messages that queues took in an hour, from ledgers.

    Attributes:
        start: when the hour begins.
        messages: of all subscriptions together: a message counts once for each.
        by_subscription: the same, by subscription. Subscriptions without messages are left out.
    """

    start: datetime
    messages: int
    by_subscription: Mapping[str, int]


def sent_by_hour(core: Core, topic: str, days: int) -> list[SentHour]:
    """Counts sent messages. See `Tidewheel.sent_by_hour`."""
    check_whole("days", days, 1, MAX_DAYS)
    storage, now_ms = core.connection.storage, core.clock.now_ms()
    slot_ms = core.cache.state(topic).slot_ms
    first, end = now_ms // HOUR_MS - 24 * days + 1, now_ms // HOUR_MS + 1
    counts: dict[int, Counter[str]] = {hour: Counter() for hour in range(first, end)}
    for record in storage.deliveries.sent(topic, 0, now_ms // slot_ms + 1):
        hour = record.opened_ms // HOUR_MS
        if record.tally.sent and hour in counts:
            counts[hour][record.key.subscription] += record.tally.sent
        if hour < first and record.key.replay is None:  # plans are handed out in their order
            break
    return [
        SentHour(start=utc(hour * HOUR_MS), messages=each.total(), by_subscription=each)
        for hour, each in counts.items()
    ]
