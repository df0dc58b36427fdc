"""Finds waiting messages, and cancels or moves the found messages.

By a prefix of the key, the keys' entries are read: sixteen queries a page, a read of tombstones for a hundred messages,
and no ledger. So answers come in the order of keys, without bodies. Messages that are not ingested yet (up to five
minutes), and imported ones, have no entry. Otherwise ledgers are read, nearest message first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice, repeat
from typing import TypedDict, cast

from tidewheel.aws.tries import classified
from tidewheel.client import changes, waiting
from tidewheel.client.core import Core
from tidewheel.client.sender import Sender
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue, PeekIncomplete, UnknownMessage
from tidewheel.flows.delivery.cancel import Cancelled, TooLate
from tidewheel.model.duration import at_ms
from tidewheel.model.message import MessageId
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import check_key
from tidewheel.storage.tombstones import MAX_CANCELS


class Selected(TypedDict, total=False):
    """Which messages, as keyword arguments.

    Attributes:
        key_prefix: those whose key begins so.
        group: those of a group. It needs ledgers, so it goes without a prefix.
        first, end: those due in [first, end), as aware datetimes or Unix seconds.
        everything: all of the topic. Needed if nothing else selects.
        after: those behind the message with this `MatchedMessage.after`, to go on.
    """

    key_prefix: str | None
    group: str | None
    first: datetime | float | None
    end: datetime | float | None
    everything: bool
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedMessage:
    """A waiting message.

    Attributes:
        after: goes on behind this message, as the argument `after`.
        message: the message with its body, if a ledger was read.
    """

    id: MessageId
    key: str | None
    deliver_at: datetime
    after: str
    message: waiting.WaitingMessage | None = None

    @property
    def original_id(self) -> MessageId | None:
        """The id of the first message, if this is a retry. Retries have no key, so none is found by a key's prefix."""
        return None if self.message is None else self.message.original_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedMessages:
    """The counts of messages that were changed together.

    Attributes:
        matched: found so far.
        sealed: of the matched, those that `cancel_where` found with a sealed slot. They are too late or cost more.
        done: cancelled, or moved.
        too_late: of these, it is or was delivered.
        gone: others that were cancelled or delivered meanwhile, before they were moved.
        after: goes on behind the last of them.
    """

    matched: int = 0
    sealed: int = 0
    done: int = 0
    too_late: int = 0
    gone: int = 0
    after: str | None = None


_BEGUN = "~"
"""In `after` of a run over ledgers: between the id and the time in ms at which the run began."""
_FIRST_CHECKED, _CHECKED = (1, 50), 100
"""Of how many messages it is seen together whether they were cancelled: of the first alone, and of the first page."""
Progress = Callable[[ChangedMessages], object]


def find(
    core: Core,
    topic: str,
    *,
    key_prefix: str | None = None,
    group: str | None = None,
    first: datetime | float | None = None,
    end: datetime | float | None = None,
    everything: bool = False,
    after: str | None = None,
) -> Iterator[MatchedMessage]:
    """Finds waiting messages. See `Tidewheel.find`."""
    if not (key_prefix or group or everything or first is not None or end is not None):
        how = "this selects all messages of the topic; if you want that, give everything=True"
        raise InvalidValue("key_prefix", key_prefix, how)
    if key_prefix and group is not None:
        raise InvalidValue("group", group, "a key's entry has no group; leave key_prefix out")
    if key_prefix:
        check_key(key_prefix)
    first_ms = core.clock.now_ms() if first is None else at_ms("first", first)
    end_ms = None if end is None else at_ms("end", end)
    if key_prefix is not None and group is None:
        state = core.cache.read(topic)  # with the newest purge
        return _classified(_by_key(core, state, key_prefix, first_ms, end_ms, after))
    core.cache.state(topic)
    return _classified(_in_ledgers(core, topic, group, first_ms, end_ms, after))


def _classified(found: Iterator[MatchedMessage]) -> Iterator[MatchedMessage]:
    with classified():
        yield from found


def _by_key(
    core: Core, state: TopicState, prefix: str, first_ms: int, end_ms: int | None, after: str | None
) -> Iterator[MatchedMessage]:
    storage = core.connection.storage
    last_ms = math.inf if end_ms is None else end_ms
    matching = (
        MatchedMessage(id=each.id, key=each.key, deliver_at=utc(each.deliver_at_ms), after=each.key)
        for each in storage.keys.with_prefix(state.topic, prefix, after)
        if each.id is not None and not each.cancelled and first_ms <= each.deliver_at_ms < last_ms
        if not state.purged(each.deliver_at_ms, each.sent_ms)
    )
    for size in chain(_FIRST_CHECKED, repeat(_CHECKED)):
        batch = list(islice(matching, size))
        # A cancel by id leaves the key's entry as it is.
        cancelled = storage.tombstones.among(state.topic, state.slot_ms, [each.id for each in batch])
        yield from (each for each in batch if each.id not in cancelled)
        if len(batch) < size:
            return


def _in_ledgers(
    core: Core, topic: str, group: str | None, first_ms: int, end_ms: int | None, after: str | None
) -> Iterator[MatchedMessage]:
    # Those behind a time are due later, and those at `first` count.
    behind: str | datetime | None = utc(max(first_ms, 1) - 1) if after is None else after.partition(_BEGUN)[0]
    while True:
        missing: PeekIncomplete | None = None
        try:
            page = waiting.peek(core.connection, topic, waiting.MAX_PEEK, core.clock.now_ms(), behind)
        except PeekIncomplete as error:
            page, missing = cast("list[waiting.WaitingMessage]", error.messages), error
        for each in page:
            if end_ms is not None and each.deliver_at >= utc(end_ms):
                return
            if group is None or each.group == group:
                yield MatchedMessage(id=each.id, key=each.key, deliver_at=each.deliver_at, after=each.id, message=each)
        if missing is not None:
            raise missing
        if not page:
            return
        behind = page[-1].id


def cancel_where(
    core: Core, topic: str, found: Iterator[MatchedMessage], *, dry_run: bool, progress: Progress
) -> ChangedMessages:
    """Cancels the found messages, ninety in a transaction. See `Tidewheel.cancel_where`."""
    done = ChangedMessages()
    while batch := list(islice(found, MAX_CANCELS)):
        state = core.cache.state(topic)
        ids = [] if dry_run else [each.id for each in batch]
        results = changes.cancel_all(core, state, ids) if ids else []
        cancelled = sum(map(bool, results))
        done = replace(
            done,
            matched=done.matched + len(batch),
            sealed=done.sealed + sum(at_ms("", each.deliver_at) // state.slot_ms < state.sealed for each in batch),
            done=done.done + cancelled,
            too_late=done.too_late + len(results) - cancelled,
            after=batch[-1].after,
        )
        progress(done)
    return done


def reschedule_where(
    core: Core,
    topic: str,
    found: Iterator[MatchedMessage],
    due_ms: Callable[[MatchedMessage], int],
    *,
    after: str | None,
    dry_run: bool,
    progress: Progress,
) -> ChangedMessages:
    """Moves the found messages one by one. See `Tidewheel.reschedule_where`.

    Ledgers are read by due time, so a run may find what it has moved. `after` has the beginning of the run.
    """
    state, done, begun_ms = core.cache.state(topic), ChangedMessages(), core.clock.now_ms()
    if after is not None and (told := after.rpartition(_BEGUN)[2]).isdecimal():
        begun_ms = int(told)
    for each in found:
        if each.message is not None and each.message.sent_at >= utc(begun_ms):
            continue  # moved by this run, and found once more
        outcome = None if dry_run else _moved(core, state, each, due_ms(each))
        done = replace(
            done,
            matched=done.matched + 1,
            done=done.done + isinstance(outcome, changes.Rescheduled),
            too_late=done.too_late + isinstance(outcome, TooLate),
            gone=done.gone + isinstance(outcome, Cancelled | UnknownMessage),
            after=each.after if each.message is None else f"{each.after}{_BEGUN}{begun_ms}",
        )
        progress(done)
    return done


def _moved(core: Core, state: TopicState, each: MatchedMessage, due_ms: int) -> object:
    try:
        return changes.reschedule(Sender(core, state), due_ms, each.id)
    except UnknownMessage as error:
        return error
