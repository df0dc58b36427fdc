"""Keeps checkpoints in S3, to rebuild a topic's index when the table is lost, and tombstones that a rebuild needs.

Three checkpoints are kept per topic. Names sort by the time of writing, so the last in the list is the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidewheel.errors import CorruptMetadata, ObjectMissing, ObjectRefused
from tidewheel.flows.maintenance.consider_merge import nearest
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.checkpoint import Checkpoint, checkpoint_of, decode_checkpoint, encode_checkpoint
from tidewheel.model.message import id_floor, id_text
from tidewheel.model.object_names import CHECKPOINTS, checkpoint_name, topic_prefix
from tidewheel.model.plan import Trash
from tidewheel.model.subscription_state import Delivery, SubscriptionState
from tidewheel.model.tombstone import KEPT_S, Tombstone
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.keys import NotInLedgers
from tidewheel.storage.objects import Objects

KEPT = 3
MOST_KEYS = 100_000
"""Keys of a checkpoint: some megabytes."""
_READ_AGAIN_MS = 10
"""Pause between two readings of the keys, for each key that was examined. So keys cost at most 100 reads a second."""
_MARGIN_S = KEPT_S // 2
"""A tombstone is renewed so long before its end. The daily work may fail for as long."""
MOST_RENEWED = 2_000
"""Tombstones that one visit renews, those that end first: 20 s at most, one after the other."""

Told = Callable[[TopicState, Sequence[Bucket], Sequence[Trash], Sequence[Tombstone]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The checkpoints of a topic.

    Attributes:
        names: all of them, the newest last.
        newest: the newest readable checkpoint; None if none is readable.
        unreadable: newer checkpoints that are not readable.
    """

    names: tuple[str, ...]
    newest: Checkpoint | None
    unreadable: tuple[str, ...]


class Written(NamedTuple):
    """The result of a checkpoint.

    Attributes:
        changed: whether it was written. False: the last checkpoint is the same.
        tombstones: all of the topic's.
    """

    changed: bool
    tombstones: Sequence[Tombstone]


def find_checkpoints(objects: Objects, topic: str) -> Found:
    """Lists a topic's checkpoints and reads the newest."""
    listed = list(objects.list(topic_prefix(CHECKPOINTS, topic)))
    unreadable: list[str] = []
    newest: Checkpoint | None = None
    for stored in reversed(listed):
        try:
            found = decode_checkpoint(objects.get_range(stored.name, 0, stored.size_bytes))
            if found.topic != topic:
                raise CorruptMetadata(f"checkpoint {stored.name} is of topic {found.topic!r}")
            newest = found
            break
        except (CorruptMetadata, ObjectMissing):
            unreadable.append(stored.name)
    return Found(names=tuple(each.name for each in listed), newest=newest, unreadable=tuple(unreadable))


def write_checkpoint(
    ports: Ports,
    state: TopicState,
    subscriptions: Iterable[SubscriptionState],
    opened: Iterable[Delivery],
    written_at_ms: int,
    *,
    all_keys: bool = False,
) -> Written:
    """Writes a topic's checkpoint.

    If it stops after the object is put, there are more than three until the next checkpoint is written.

    Args:
        state: read before the subscriptions.
        subscriptions: read before the deliveries.
        opened: the open deliveries. A rebuild sends their plans again, but keeps quarantined deliveries.
        written_at_ms: when the reading began, so that older data never counts as newer.
        all_keys: read the keys, even if they were read lately.
    """
    # Before the tombstones: a message that is cancelled meanwhile has a tombstone, and the key names it.
    found = _find(ports.objects, state.topic)
    keyed = _with_keys(ports, state, None if all_keys else found.newest)
    tombstones = ports.tombstones.all(state.topic)
    sent_again = [each for each in opened if not each.quarantined]
    recurring = ports.recurring.all(state.topic) if state.recurring else ()
    checkpoint = checkpoint_of(state, subscriptions, sent_again, tombstones, written_at_ms, recurring)
    return Written(store_checkpoint(ports.objects, keyed(checkpoint), found), tombstones)


def _find(objects: Objects, topic: str) -> Found:
    try:
        return find_checkpoints(objects, topic)
    except ObjectRefused:  # another is written, so that the refusal holds no collection
        listed = objects.list(topic_prefix(CHECKPOINTS, topic))
        return Found(names=tuple(each.name for each in listed), newest=None, unreadable=())


def _with_keys(ports: Ports, state: TopicState, last: Checkpoint | None) -> Callable[[Checkpoint], Checkpoint]:
    """Reads the keys that are not in ledgers, or takes those of the last checkpoint, if many were read lately.

    Returns a function that adds them to a checkpoint.
    """
    now_ms = ports.clock.now_ms()
    if last is not None and last.generation == state.generation:
        age_ms = now_ms - last.keys_read_ms
        if 0 <= age_ms < last.keys_examined * _READ_AGAIN_MS:
            kept = [each for each in last.keys if each.ttl_s * 1000 > now_ms]
            return lambda checkpoint: checkpoint.with_keys(kept, last.keys_read_ms, last.keys_examined)
    wanted = NotInLedgers(
        now_ms=now_ms,
        first_id=id_text(id_floor(now_ms)),
        end_id=id_text(id_floor(max(now_ms, state.sealed * state.slot_ms))),
        most=MOST_KEYS,
    )
    found = ports.keys.not_in_ledgers(state.topic, wanted)
    return lambda checkpoint: checkpoint.with_keys(found.entries, now_ms, found.examined)


def store_checkpoint(objects: Objects, checkpoint: Checkpoint, found: Found | None = None) -> bool:
    """Puts a checkpoint and deletes all but the last three. Returns False if nothing changed.

    If it stops, `write_checkpoint` describes the result.
    """
    found = found or _find(objects, checkpoint.topic)
    if not found.unreadable and found.newest is not None and checkpoint.says_the_same(found.newest):
        return False
    name = checkpoint_name(checkpoint.topic, checkpoint.written_at_ms, objects.new_attempt())
    objects.put(name, encode_checkpoint(checkpoint))
    readable = [each for each in found.names if each not in found.unreadable]
    kept = sorted([*readable, name])[-KEPT:]
    objects.delete(each for each in found.names if each not in kept)
    return True


def renew_tombstones(ports: Ports, state: TopicState) -> None:
    """Renews tombstones that end soon, of slots that are sealed and not collected.

    The table deletes a tombstone 28 days after its message is due. A rebuild needs it for longer if a subscription is
    paused for longer, or if ledgers are kept for replays: the message is still in a ledger.

    Sends no request unless such a slot is older than 14 days. A tombstone of a sealed slot does not change, so it may
    be put again. If it stops anywhere, the next day's call renews the rest.
    """
    now_s = ports.clock.now_ms() // 1000
    first, end = state.collected_until, state.sealed
    if first >= end or first * state.slot_ms // 1000 + KEPT_S - _MARGIN_S > now_s:
        return
    needed = (each for each in ports.tombstones.all(state.topic) if first <= each.slot < end)
    ending = sorted((each for each in needed if each.ttl_s < now_s + _MARGIN_S), key=lambda each: each.ttl_s)
    ending = ending[:MOST_RENEWED]
    renewed = [each._replace(ttl_s=now_s + KEPT_S) for each in ending]
    ports.parallel(lambda each: ports.tombstones.restore(state.topic, each), renewed)


def checkpoint_topic(ports: Ports, topic: str, *, ahead_ms: int = 0, tell: Told | None = None) -> bool:
    """Renews tombstones, and writes a topic's checkpoint. Returns False if no checkpoint was written.

    If it stops, `write_checkpoint` describes the result.

    Raises:
        CorruptMetadata: an item of the topic cannot be read.

    Args:
        ahead_ms: added to the checkpoint's time, for a rebuild: a checkpoint whose reading began before, by a clock
            that is ahead of ours, does not count as newer. Nor does the checkpoint of an earlier rebuild.
        tell: told what was read, after the checkpoint is written.
    """
    now_ms = ports.clock.now_ms() + ahead_ms
    newest = find_checkpoints(ports.objects, topic).newest if ahead_ms else None
    if newest is not None:
        now_ms = max(now_ms, newest.written_at_ms + 1)
    state = ports.topic_states.read(topic)
    if state is None:
        return False
    renew_tombstones(ports, state)  # first: an item that cannot be read must not keep them from it
    subscriptions = ports.subscriptions.all(topic)
    opened = ports.deliveries.all(topic)
    # With a newer checkpoint, a rebuild would not look for messages whose item cannot be read.
    buckets = list(nearest(ports, topic, state.planned))
    trash = ports.merges.trash(topic)
    written = write_checkpoint(ports, state, subscriptions, opened, now_ms, all_keys=ahead_ms > 0)
    if tell is not None:
        tell(state, buckets, trash, written.tombstones)
    return written.changed
