"""Stores tombstones and claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidewheel.errors import CorruptMetadata
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.tombstone import KEPT_S, Claim, Holder, Tombstone
from tidewheel.model.topic_state import ALL_SEALED, TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import LAYOUT_READ, Change, Check, Put, Write, number

MAX_CANCELS = 90
"""Tombstones of one `cancel_batch`: a transaction takes 100 items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entombed:
    """The outcome of a cancel.

    Attributes:
        done: the tombstone was put, in time.
        found: the tombstone that was there already. If not `done` and None: the slot was sealed.
    """

    done: bool
    found: Tombstone | None = None


_ABSENT = f"attribute_not_exists({table_keys.PARTITION_KEY})"
_ABSENT_OR_UNCERTAIN = f"{_ABSENT} OR attribute_exists(uncertain)"
_UNCLAIMED = "attribute_not_exists(claimed)"


class Tombstones(StoredItems):
    """The tombstones of each topic."""

    def cancel(self, topic: str, tombstone: Tombstone) -> Entombed:
        """Puts a tombstone if the message's slot is not sealed.

        `T{STATE check sealed <= slot; put TOMB IF absent}`.

        An uncertain tombstone is overwritten, unless `tombstone` names another message.
        """
        condition = _ABSENT if tombstone.to is not None else _ABSENT_OR_UNCERTAIN
        put = Put(item=items.encode_tombstone(topic, tombstone), condition=condition)
        failed = self._table.transact([slot_open(topic, tombstone.slot), put], action="cancel", topic=topic)
        if not failed:
            return Entombed(done=True)
        found = self.read(topic, tombstone.slot, tombstone.id) if 1 in failed else None
        return Entombed(done=False, found=found)

    def cancel_batch(self, topic: str, tombstones: Sequence[Tombstone]) -> bool:
        """Puts at most 90 tombstones of different ids. Returns False if nothing was written.

        `T{STATE check sealed <= each slot; put each TOMB IF absent}`.
        """
        puts = [Put(item=items.encode_tombstone(topic, each), if_absent=True) for each in tombstones]
        least = min(each.slot for each in tombstones)
        return self._table.commit([slot_open(topic, least), *puts], action="cancel_batch", topic=topic)

    def put(self, topic: str, tombstone: Tombstone) -> Tombstone | None:
        """Puts a tombstone, in time or not. Returns None, or the existing tombstone.

        `put TOMB IF absent`.
        """
        put = Put(item=items.encode_tombstone(topic, tombstone), if_absent=True)
        item = self._table.put_or_get(put, action="put_tombstone", topic=topic)
        return None if item is None else items.decode_tombstone(item)

    def put_late(self, topic: str, tombstone: Tombstone) -> bool:
        """Puts a tombstone equal to a message's claim, for readers of tombstones. Returns False if refused.

        `T{STATE check that it is there; put TOMB IF absent or uncertain}`.
        """
        return self._table.commit(late_tombstone(topic, tombstone), action="put_late", topic=topic)

    def read(self, topic: str, slot: int, message_id: MessageId) -> Tombstone | None:
        """Reads a tombstone."""
        return self._table.read(table_keys.tombstone_key(topic, slot, message_id), items.decode_tombstone)

    def ids(self, topic: str, first_slot: int, end_slot: int) -> frozenset[MessageId]:
        """Reads the ids cancelled in slots [first_slot, end_slot)."""
        return frozenset(self.in_order(topic, first_slot, end_slot))

    def in_order(self, topic: str, first_slot: int, end_slot: int) -> Iterator[MessageId]:
        """Yields the ids cancelled in slots [first_slot, end_slot), in their order, and reads page by page."""
        partition = table_keys.tombstone_partition(topic)
        if end_slot <= max(0, first_slot):
            return
        found = self._table.query_slots(partition, "", first_slot, end_slot, projection="sk")
        named = (_named((partition, item["sk"]["S"])) for item in found)
        yield from (each for each in named if each is not None)

    def among(self, topic: str, slot_ms: int, ids: Iterable[MessageId]) -> frozenset[MessageId]:
        """Returns the cancelled ones of these messages, with a BatchGetItem for 100 messages."""
        slots = ((id_deliver_at_ms(id_bytes(id)) // slot_ms, id) for id in ids)
        found = self._table.get_many(table_keys.tombstone_key(topic, slot, id) for slot, id in slots)
        return frozenset(table_keys.parse_tombstone_key(key)[1] for key in map(items.key_of, found))

    def all(self, topic: str) -> list[Tombstone]:
        """Reads all tombstones of a topic, by slot and id."""
        found = self._table.query("pk = :pk", {"pk": table_keys.tombstone_partition(topic)})
        # A caller who may cancel can put any item there. Such an item must not block messages of other senders.
        named = (item for item in found if _named(items.key_of(item)) is not None)
        return list(items.each_readable(named, items.decode_tombstone, "", {}))

    def allow_move(self, topic: str, mover: MessageId, moved: MessageId, ttl_s: int) -> None:
        """Allows a message, before the send, to take another message's place.

        Only callers who may cancel can write this, so a pack alone moves nothing.
        """
        put = Put(item=items.encode_move(topic, mover, moved, ttl_s))
        self._table.put(put, action="allow_move", topic=topic)

    def may_move(self, topic: str, mover: MessageId, moved: MessageId) -> bool:
        """Returns whether a message may take another message's place."""
        item = self._table.get(table_keys.move_key(topic, mover))
        try:
            return item is not None and items.decode_move(item) == moved
        except CorruptMetadata:
            return False

    def restore(self, topic: str, tombstone: Tombstone) -> None:
        """Puts a tombstone for a rebuild and overwrites an existing tombstone."""
        put = Put(item=items.encode_tombstone(topic, tombstone))
        self._table.put(put, action="restore_tombstone", topic=topic)


def late_tombstone(topic: str, tombstone: Tombstone, state: TopicState | None = None) -> list[Write]:
    """Returns the writes of `put_late`.

    Args:
        state: whose subscriptions must be as read, if given.
    """
    there = slot_open(topic, ALL_SEALED - 1)  # the last slot is open as long as the topic is there
    if state is not None:
        same = f"{there.condition} AND subscriptions_version = :version"
        there = replace(there, condition=same, values={**there.values, "version": state.subscriptions_version})
    return [there, Put(item=items.encode_tombstone(topic, tombstone), condition=_ABSENT_OR_UNCERTAIN)]


def _named(key: table_keys.Key) -> MessageId | None:
    """Returns the message that a tombstone's key names. None: the tombstone cancels nothing."""
    try:
        _, message_id = table_keys.parse_tombstone_key(key)
        id_bytes(message_id)
    except ValueError:
        return None
    return message_id


def slot_open(topic: str, slot: int) -> Check:
    """Returns the check of an unsealed slot."""
    return Check(
        key=table_keys.topic_state_key(topic), condition=f"sealed <= :slot AND {LAYOUT_READ}", values={"slot": slot}
    )


class Claims(StoredItems):
    """The claims of messages, and of subscriptions: the latter say that a consumer of the SDK has received.

    One item a message decides. Its first two writers are a consumer's claim and a cancel, and each is refused after the
    other. So a message is handed out, or cancelled, and never both, whatever dies in between.
    """

    def claim(self, topic: str, name: str, holder: Holder, ttl_s: int) -> int | None:
        """Claims a message for a subscription. Returns how often it has done so, or None if the message is cancelled.

        `ADD claimed 1, <holder> 1; SET <holder>#at IF no cancelled`.

        A consumer that died after its claim gets the message again.
        """
        change = Change(
            key=table_keys.claim_key(topic, name),
            condition="attribute_not_exists(cancelled)",
            sets={"#ttl": ttl_s, "#at": ttl_s - KEPT_S},  # a message is claimed once it is due
            adds={"claimed": 1, "#holder": 1},
            names={"holder": str(holder), "at": f"{holder}{items.CLAIMED_AT}"},
        )
        done, item = self._table.change_and_get(change, action="claim", topic=topic)
        return number(item[str(holder)]) if done and item is not None else None

    def cancel(self, topic: str, message_id: MessageId, ttl_s: int, to: MessageId | None = None) -> Claim:
        """Cancels a message that no consumer has. Returns the claim that is there afterwards.

        `SET cancelled, to IF no claimed AND (no cancelled OR to is mine)`. So of two messages that take its place, the
        first stays, and each finds its own write.

        Args:
            to: the message that takes its place.
        """
        mine = "attribute_not_exists(moved_to)" if to is None else "moved_to = :to"
        change = Change(
            key=table_keys.claim_key(topic, message_id),
            condition=f"{_UNCLAIMED} AND (attribute_not_exists(cancelled) OR {mine})",
            sets={"cancelled": 1, "#ttl": ttl_s} | ({} if to is None else {"moved_to": to}),
            values={} if to is None else {"to": to},
        )
        _, item = self._table.change_and_get(change, action="cancel_late", topic=topic)
        return Claim() if item is None else items.decode_claim(item)

    def show(self, topic: str, holder: Holder, ttl_s: int) -> None:
        """Says that a consumer that claims messages reads a subscription, by the write that claims a message."""
        self.claim(topic, str(holder), holder, ttl_s)

    def shown(self, topic: str, holder: Holder) -> bool:
        """Returns whether a consumer that claims messages has read a subscription."""
        return self._table.get(table_keys.claim_key(topic, str(holder))) is not None

    def read(self, topic: str, message_id: MessageId) -> Claim:
        """Reads a claim. A message without an item has neither holders nor a cancel."""
        item = self._table.get(table_keys.claim_key(topic, message_id))
        return Claim() if item is None else items.decode_claim(item)

    def among(self, topic: str, ids: Iterable[MessageId]) -> dict[MessageId, Claim]:
        """Reads the claims of messages, with a BatchGetItem for 100 messages. Leaves out messages without an item."""
        wanted = {table_keys.claim_key(topic, id)[0]: id for id in ids}
        found = self._table.get_many(table_keys.claim_key(topic, id) for id in wanted.values())
        return {wanted[items.key_of(item)[0]]: items.decode_claim(item) for item in found}


def superseding(topic: str, message_id: MessageId, ttl_s: int, *, from_all: bool) -> Change:
    """Returns the write that cancels a message for a newer one, as a part of a transaction.

    Args:
        from_all: False: the message is also cancelled if consumers have it, for all other subscriptions.
    """
    return Change(
        key=table_keys.claim_key(topic, message_id),
        condition="attribute_not_exists(cancelled)" + (f" AND {_UNCLAIMED}" if from_all else ""),
        sets={"cancelled": 1, "#ttl": ttl_s},
    )
