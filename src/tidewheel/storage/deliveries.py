"""Stores deliveries. `model/marks.py` says which item of a delivery has the marks of a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from tidewheel.errors import CorruptMetadata
from tidewheel.model import marks
from tidewheel.model.subscription_state import (
    NOTHING_SENT,
    Delivery,
    DeliveryKey,
    State,
    SubscriptionState,
    Tally,
    Unread,
)
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Check, Delete, Item, Put, Value, Write, as_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """A subscription's step over a plan, which moves the cursor to `to`.

    The write is refused if the cursor is not as read.

    Attributes:
        delivery: the delivery to open; None for a step over slots in which nothing is due.
    """

    subscription: SubscriptionState
    to: int
    delivery: Delivery | None


class Replay(Enum):
    """The outcome of a request to deliver a plan again."""

    OPENED = "opened"
    REFUSED = "refused"
    """The subscription is paused or gone."""
    COLLECTED = "collected"
    """The plan's ledgers are not kept any more, or the topic is gone."""


class Deliveries(StoredItems):
    """The open deliveries of each topic, and the hand-outs of plans."""

    def hand_out(self, step: HandOut) -> bool:
        """Hands out a plan to a subscription. Returns False if refused.

        `T{put DELIVERY and its marks; SUB: cursor = to IF cursor and generation as read}`.
        """
        return self._table.commit(hand_out_writes(step), action="hand_out", topic=step.subscription.topic)

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """Opens a delivery for a replay of a plan.

        `T{put DELIVERY and its marks; check SUB: not PAUSED, generation same; STATE: subscriptions_version + 1 IF
        collected_until <= the plan and generation as read}`.

        A collection that read the deliveries before this write is refused by subscriptions_version, so the plan's
        ledgers stay.
        """
        key = delivery.key
        active = as_seen({"generation": key.generation}, "#state <> :paused", paused=State.PAUSED.value)
        owner = Check(key=table_keys.subscription_key(key.topic, key.subscription), **active)
        kept = items.state_change(
            state, "collected_until <= :a", values={"a": key.plan}, adds={"subscriptions_version": 1}
        )
        writes: list[Write] = [kept, owner, *_puts(delivery)]
        failed = self._table.transact(writes, action="open_replay", topic=state.topic)
        if 0 in failed:
            return Replay.COLLECTED
        return Replay.REFUSED if failed else Replay.OPENED

    def read(self, key: DeliveryKey) -> Delivery | None:
        """Reads an open delivery, with the marks of all parts.

        Raises:
            CorruptMetadata: one of its items is not readable, or missing.
        """
        return self._table.read(table_keys.delivery_key(key), self.whole)

    def read_marks(self, key: DeliveryKey, part: int) -> Delivery | None:
        """Reads the item of an open delivery with the marks of a part."""
        return self._table.read(_marks_key(key, part), items.decode_delivery)

    def whole(self, item: Item) -> Delivery | None:
        """Returns the delivery of its first item, with the marks of all parts. None: it ended meanwhile.

        Raises:
            CorruptMetadata: one of its items is not readable, or missing.
        """
        first = items.decode_delivery(item)
        others = range(marks.TOGETHER, marks.TOGETHER * marks.item_count(first.parts), marks.TOGETHER)
        read = [first, *(self.read_marks(first.key, part) for part in others)]
        begun = first.edition, first.parts
        found = [each for each in read if each is not None and (each.edition, each.parts) == begun]
        if len(found) == len(read):
            return marks.merged(found)
        current = self._table.read(table_keys.delivery_key(first.key), items.decode_delivery)
        if current is not None and (current.edition, current.parts) == begun:
            raise CorruptMetadata(f"delivery {first.key} lacks marks; restore them, or rebuild the topic's index")
        return None if current is None else self.read(first.key)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Delivery]:
        """Reads all open deliveries of a topic, with the marks of all parts.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        partition = table_keys.topic_partition(topic)
        found = self._table.read_all(partition, table_keys.DELIVERIES, self.whole, unreadable)
        return [each for each in found if each is not None]

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        """Leases a part. Returns the delivery's item with its marks afterwards, or None if refused or gone.

        `lease[part] = now IF the delivery exists, the part is not done and its lease is absent or older than
        expired_before_ms`.

        A further item lacks the filter policy, so the first item is read afterwards. If the read fails, the part is
        released. If the process dies before, the lease expires.

        If the response is lost and boto3 sends the request again, the second try finds the lease of the first and
        returns None. The part then waits until the lease expires, as after a crash.
        """
        lease = f"leases.#{part}"
        change = Change(
            key=_marks_key(key, part),
            condition=f"attribute_exists(pk) AND NOT contains(done, :part) "
            f"AND (attribute_not_exists({lease}) OR {lease} < :expired)",
            values={"part": part, "expired": expired_before_ms},
            sets={lease: now_ms},
        )
        leased = self._table.change_and_read(change, items.decode_delivery, action="lease_part", topic=key.topic)
        if leased is not None and leased.filter_policy == marks.IN_THE_FIRST:
            try:
                first = self.read_marks(key, 0)
            except Exception:
                self.release_part(key, part)
                raise
            return None if first is None else replace(leased, filter_policy=first.filter_policy)
        return leased

    def release_part(self, key: DeliveryKey, part: int) -> None:
        """Deletes a part's lease after a failure. Does nothing if the lease is gone.

        A retry may then take the part at once.
        """
        change = Change(key=_marks_key(key, part), condition="attribute_exists(pk)", sets={f"leases.#{part}": None})
        self._table.change(change, action="release_part", topic=key.topic)

    def part_done(
        self, key: DeliveryKey, part: int, edition: int = 0, tally: Tally = NOTHING_SENT, now_ms: int = 0
    ) -> Delivery | None:
        """Marks a part done. Returns the delivery's item with its marks afterwards, or None if refused.

        `done + part, tally + the part's, done_ms = now, its lease and its unread pieces forgotten IF the delivery
        exists and edition as read`.
        """
        change = Change(
            key=_marks_key(key, part),
            sets={f"leases.#{part}": None, f"unread.#{part}": None, "done_ms": now_ms},
            adds={"done": frozenset((part,)), **_adds(tally)},
            **as_seen({"edition": edition or None}, "attribute_exists(pk)"),
        )
        return self._table.change_and_read(change, items.decode_delivery, action="part_done", topic=key.topic)

    def ended(self, after: Delivery, part: int) -> Delivery | None:
        """Returns the whole delivery if all its parts are done, else None. Reads the other marks only if it may be so.

        Args:
            after: the answer of `part_done`.
        """
        if not marks.is_full(after, part):
            return None
        whole = after if marks.item_count(after.parts) == 1 else self.read(after.key)
        return whole if whole is not None and whole.complete else None

    def note_unread(
        self,
        read: Delivery,
        unread: Mapping[int, Unread],
        reason: str,
        now_ms: int,
        done: Iterable[int] = (),
        tally: Tally = NOTHING_SENT,
    ) -> bool:
        """Notes the pieces of parts that could not be read, and which parts are done. Returns False if refused.

        `unread[part] = ..., done + ..., tally + ..., its lease forgotten IF the delivery exists and edition as read`.

        Args:
            unread: part -> its pieces. One item has the marks of all these parts.
        """
        sets: dict[str, Value | None] = {f"unread.#{part}": items.unread_text(each) for part, each in unread.items()}
        sets |= {f"leases.#{part}": None for part in unread}
        sets |= {"reason": reason, "unread_ms": now_ms if read.unread_ms is None else read.unread_ms}
        ready = frozenset(done)
        change = Change(
            key=_marks_key(read.key, min(unread)),
            sets=sets,
            adds=_adds(tally) | ({"done": ready} if ready else {}),
            **as_seen({"edition": read.edition or None}, "attribute_exists(pk)"),
        )
        return self._table.change(change, action="note_unread", topic=read.key.topic)

    def restart(self, read: Delivery, edition: int, parts: int) -> bool:
        """Begins a delivery anew with another edition of its plan. Returns False if refused.

        `T{put DELIVERY IF it exists and edition as read; put its marks, delete those of further items}`.
        """
        before = marks.item_count(read.parts)
        whole = read if before == 1 else self.read(read.key)
        if whole is None:
            return False
        fresh = replace(whole, edition=edition, parts=parts, done=frozenset(), leases=(), unread=(), tries=0)
        [first, *others] = _puts(fresh)
        seen = as_seen({"edition": read.edition or None}, "attribute_exists(pk)")
        gone = _deletes(read.key, range(marks.item_count(parts), before))
        writes: list[Write] = [replace(first, **seen), *others, *gone]
        return self._table.commit(writes, action="restart_delivery", topic=read.key.topic)

    def set_next_check(
        self, key: DeliveryKey, seen_next_check_ms: int, next_check_ms: int, tries: int | None = None
    ) -> bool:
        """Sets a delivery's next check, and how often it was tried. Returns False if refused.

        `next_check_ms, tries = ... IF next_check_ms as seen`.
        """
        change = items.next_check_change(table_keys.delivery_key(key), seen_next_check_ms, next_check_ms)
        if tries is not None:
            change = replace(change, sets={**change.sets, "tries": tries})
        return self._table.change(change, action="stamp_delivery", topic=key.topic)

    def finish(self, delivery: Delivery, ttl_s: int) -> None:
        """Puts the record of a delivery that is done, then deletes the delivery.

        If it stops in between, the sweep finishes the complete delivery.
        """
        put = Put(item=items.encode_sent(delivery, ttl_s))
        self._table.put(put, action="record_delivery", topic=delivery.key.topic)
        self._remove(delivery.key, delivery.parts)

    def sent(self, topic: str, first_slot: int, end_slot: int) -> Iterator[Delivery]:
        """Yields deliveries that are done, by their records, of plans that begin in a range, the last plan first.

        Reads page by page, as far as it is asked. Leaves out records that cannot be read.
        """
        found = self._table.query_slots(
            table_keys.topic_partition(topic), table_keys.SENT, first_slot, end_slot, first_page=100, backwards=True
        )
        return items.each_readable(found, items.decode_sent, table_keys.SENT, {})

    def delete_sent(self, topic: str) -> None:
        """Deletes the records of all deliveries that are done."""
        partition = table_keys.topic_partition(topic)
        for item in self._table.query_prefix(partition, table_keys.SENT, projection="pk, sk"):
            self._table.delete(items.key_of(item), action="delete_sent", topic=topic)

    def delete(self, keys: Iterable[DeliveryKey]) -> None:
        """Deletes deliveries that nobody is owed, readable or not. Ignores missing deliveries.

        A batch costs the same, and would need another permission.
        """
        for key in keys:
            item = self._table.get(table_keys.delivery_key(key))
            if item is not None:
                parts = item.get("parts", {}).get("N", "")
                self._remove(key, int(parts) if parts.isdecimal() else None)

    def _remove(self, key: DeliveryKey, parts: int | None) -> None:
        """Deletes a delivery of so many parts. None: nobody knows how many.

        `T{delete DELIVERY IF parts as read; delete its marks}`. One that began anew meanwhile stays.
        """
        first = table_keys.delivery_key(key)
        count = marks.MOST_ITEMS if parts is None else marks.item_count(parts)
        if count == 1:
            self._table.delete(first, action="delete_deliveries", topic=key.topic)
            return
        seen = {"condition": None} if parts is None else as_seen({"parts": parts})
        writes = [Delete(key=first, **seen), *_deletes(key, range(1, count))]
        self._table.commit(writes, action="delete_deliveries", topic=key.topic)


def _marks_key(key: DeliveryKey, part: int) -> table_keys.Key:
    return table_keys.marks_key(key, marks.item_of(part))


def _puts(delivery: Delivery) -> list[Put]:
    return [Put(item=items.encode_delivery(each, item)) for item, each in enumerate(marks.divided(delivery))]


def _deletes(key: DeliveryKey, numbers: Iterable[int]) -> list[Delete]:
    return [Delete(key=table_keys.marks_key(key, item), condition=None) for item in numbers]


def _adds(tally: Tally) -> dict[str, Value]:
    return {f"#{name}": count for name, count in items.tally_fields(tally).items()}


def hand_out_writes(step: HandOut) -> list[Write]:
    """Returns the writes that hand out a plan."""
    seen = step.subscription
    condition = as_seen({"#cursor": seen.cursor, "generation": seen.generation})
    key = table_keys.subscription_key(seen.topic, seen.name)
    writes: list[Write] = [Change(key=key, sets={"#cursor": step.to}, **condition)]
    if step.delivery is not None:
        writes += _puts(step.delivery)
    return writes
