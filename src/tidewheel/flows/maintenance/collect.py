"""Deletes data that all subscriptions have passed, metadata first, then objects."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tidewheel.errors import CorruptMetadata
from tidewheel.flows.administration.purge import purges_in_force
from tidewheel.flows.delivery.recur import delete_plan
from tidewheel.flows.maintenance.checkpoint import renew_tombstones, write_checkpoint
from tidewheel.flows.maintenance.consider_merge import NO_REWRITE, Rewrite, nearest, rewrite_of
from tidewheel.flows.maintenance.live_view import LAG_MS
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.needed import needed
from tidewheel.model.plan import Trash
from tidewheel.model.subscription_state import Delivery, DeliveryKey, unread_objects
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.topic_states import check_again_at

_ATTEMPTS = 5
_PASSED_TOGETHER_MS = 3_600_000
_MOST_PASSED = 1000
"""Names of an item, which take 100 KB."""


@dataclass(slots=True, kw_only=True)
class Collected:
    """The result of a collection.

    Attributes:
        idle_leftovers: trash can be deleted only after the topic is dispatched once more.
        next_slot: the first mark at which more can be deleted; None if no plan, ledger or trash waits for deletion.
        held: why nothing was collected: an item of the topic cannot be read.
        rewrite: whether the topic has too many dead bytes. If so, the sweep is asked to start a merge.
    """

    idle_leftovers: bool = False
    next_slot: int | None = None
    held: Exception | None = None
    rewrite: Rewrite = NO_REWRITE

    def left(self, from_slot: int) -> None:
        """Notes that more can be deleted once everything below a slot may be deleted."""
        self.next_slot = from_slot if self.next_slot is None else min(from_slot, self.next_slot)


def collect(ports: Ports, topic: str) -> Collected | None:
    """Deletes all data of a topic below the least cursor. Returns None if the topic is absent.

    First a checkpoint is written, if anything changed since the last checkpoint. Then `collected_until` is raised,
    under a condition. Everything is deleted by the stored mark, so that leftovers of an earlier run are deleted too.

    Nothing is collected while an item that may need data cannot be read.

    If it stops
        after the checkpoint: nothing was deleted; the next run continues.
        between an item and its object: nothing refers to the object, and the orphan sweep deletes it.
        elsewhere: the next run continues.

    If the topic has too many dead bytes, the sweep is asked to start a merge, and the collection comes again, until
    there are few enough and no trash is left.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return None
    now_ms = ports.clock.now_ms()
    renew_tombstones(ports, state)  # first: an item that cannot be read must not keep them from it
    try:
        # Cursors before deliveries: a delivery that was handed out meanwhile is then seen.
        subscriptions = ports.subscriptions.all(topic)
        opened = ports.deliveries.all(topic)
        # Before the checkpoint: a rebuild from it would not look for the rows of a ledger whose item cannot be read.
        # Buckets before trash: what a swap takes from the buckets is then seen in one of them.
        buckets = list(nearest(ports, topic, state.planned))
        quarantined = [each for each in opened if each.quarantined and _names_its_parts(ports, each)]
        others = [each for each in opened if each not in quarantined]
        first = needed(state.slot_ms, subscriptions=subscriptions, opened=others).ledgers
        until, plans = _until(ports, state, first, now_ms)
        trash = ports.merges.trash(topic, end_slot=max(until, state.collected_until) + 1)
        # Before any deletion: a rebuild from an older checkpoint would look for messages delivered since.
        tombstones = write_checkpoint(ports, state, subscriptions, opened, now_ms).tombstones
    except CorruptMetadata as error:
        # Nobody knows what the item still needs.
        _put_off(ports, state)
        return Collected(held=error)
    alive = {(s.name, s.generation) for s in subscriptions}
    if until > state.collected_until:
        ports.topic_states.raise_collected_until(state, until)
    state = ports.topic_states.read(topic)
    if state is None:
        return None
    done = Collected()
    _delete(ports, state, buckets, plans, trash, quarantined, done)
    purges = purges_in_force(ports, state, now_ms)
    if purges != state.purges:
        ports.topic_states.set_purges(state, state.purge_ms, purges)
    orphans: list[DeliveryKey] = [d.key for d in opened if (d.key.subscription, d.key.generation) not in alive]
    ports.deliveries.delete(orphans)
    kept = [each for each in buckets if each.last_slot >= state.collected_until]
    done.rewrite = rewrite_of(ports, state, kept, tombstones)
    _set_next(ports, state, done)
    return done


def _names_its_parts(ports: Ports, delivery: Delivery) -> bool:
    """Whether a delivery's parts are those of its plan. A plan that was made again has others."""
    plan = ports.plans.read(delivery.key.topic, delivery.key.plan, whole=False)
    return plan is not None and plan.edition == delivery.edition


def _until(ports: Ports, state: TopicState, first: int | None, now_ms: int) -> tuple[int, list[tuple[int, int]]]:
    """Returns the slot below which no subscription, no replay and no move needs data, and the plans that begin below.

    Also returns the plan behind them. No others are read, however many are kept.
    """
    until = state.planned if first is None else min(state.planned, first)
    if _keeps_passed(state):
        until = min(until, (now_ms - _kept_ms(state)) // state.slot_ms)
    below = max(until, state.collected_until)
    plans = ports.plans.ranges(state.topic, end_slot=below)
    # Never inside a plan: a subscription that begins there would skip it, and a replay could not read all of it.
    inside = [a for a, b in plans if until < b and a < until] if _keeps_passed(state) else []
    return min([until, *inside]), plans + ports.plans.ranges(state.topic, first_slot=below, limit=1)


def _keeps_passed(state: TopicState) -> bool:
    """Returns whether ledgers outlive the hand-out. Until its time, a message that consumers claim can be moved."""
    return bool(_kept_ms(state) or state.settings.claims != "none")


def _kept_ms(state: TopicState) -> int:
    """Returns how long ledgers are kept after the hand-out, for history and for queries of an older live view."""
    return max(state.settings.retention_ms, LAG_MS if state.settings.live_view else 0)


def _delete(
    ports: Ports,
    state: TopicState,
    buckets: Sequence[Bucket],
    plans: Sequence[tuple[int, int]],
    all_trash: Sequence[Trash],
    quarantined: Sequence[Delivery],
    done: Collected,
) -> None:
    """Deletes all below the mark, except plans and objects of quarantined deliveries.

    Once these are sent or given up, the next collection deletes the plans, and the orphan sweep the objects. Other
    ledgers that are planned to their end move to the trash, in which no dispatch, merge or peek reads them.
    """
    topic, until = state.topic, state.collected_until
    kept = unread_objects(quarantined)
    kept_plans = {each.key.plan for each in quarantined}
    delete = ports.objects.erase if state.settings.strict_erasure else ports.objects.delete
    replaced_before_ms = ports.clock.now_ms() - (LAG_MS if state.settings.live_view else 0)
    # First: a name that is in the trash already, as a collection stopped, must not be left in a bucket.
    for bucket in buckets:
        if bucket.last_slot < until:
            ports.buckets.delete(topic, bucket.id)
            delete({bucket.object_name}.difference(kept))
    _pass(ports, state, [each for each in buckets if until <= each.last_slot < state.planned])
    for trash in all_trash:
        if trash.dead_from <= until and trash.put_ms <= replaced_before_ms:
            delete(name for name in trash.objects if name not in kept)
            ports.merges.delete_trash(topic, trash)
        else:
            done.left(trash.dead_from)
    for a, b in plans:
        # The end of a plan that cannot be read is not known. What begins at `planned` was planned since.
        if a not in kept_plans and a < state.planned and min(b, state.planned) <= until:
            delete_plan(ports, topic, a, kept)
        else:
            done.left(b)
    last = ports.merges.last_trash(topic)
    if last is not None:
        done.left(last)
        done.idle_leftovers = last > state.planned


def _pass(ports: Ports, state: TopicState, passed: Sequence[Bucket]) -> None:
    """Moves ledgers of which nothing waits to the trash, those that end together with one write.

    If it stops after a write, the next collection writes it again: a name may be in the trash twice.
    """
    by_end = sorted(passed, key=lambda each: each.last_slot)
    for _, ending in groupby(by_end, key=lambda each: each.last_slot * state.slot_ms // _PASSED_TOGETHER_MS):
        rest = list(ending)
        while some := rest[:_MOST_PASSED]:
            del rest[:_MOST_PASSED]
            names, dead_from = tuple(each.object_name for each in some), some[-1].last_slot + 1
            now_ms = ports.clock.now_ms()
            trash = Trash(
                sealed=state.planned, id=secrets.token_hex(8), objects=names, dead_from=dead_from, put_ms=now_ms
            )
            ports.merges.put_trash(state.topic, trash)
            for each in some:
                ports.buckets.delete(state.topic, each.id)


def _put_off(ports: Ports, state: TopicState) -> None:
    at_ms = ports.clock.now_ms() + state.settings.collect_interval_s * 1000
    ports.topic_states.set_collect_at(state, at_ms, check_again_at(state, at_ms))


def _set_next(ports: Ports, state: TopicState, done: Collected) -> None:
    """Sets the time of the next collection, or never if nothing is left to delete. Asks for a rewrite."""
    for _ in range(_ATTEMPTS):
        now_ms = ports.clock.now_ms()
        at_ms, merge_at_ms = _next_at_ms(state, done, now_ms), now_ms if done.rewrite.now else None
        asked = state if merge_at_ms is None else replace(state, merge_at_ms=merge_at_ms)
        if ports.topic_states.set_collect_at(state, at_ms, check_again_at(asked, at_ms), merge_at_ms):
            return
        current = ports.topic_states.read(state.topic)
        if current is None:
            return
        state = current


def _next_at_ms(state: TopicState, done: Collected, now_ms: int) -> int | None:
    nothing_left = not done.idle_leftovers and done.next_slot is None
    rewrite = any(done.rewrite)
    if nothing_left and not rewrite:
        return None
    at_ms = now_ms + state.settings.collect_interval_s * 1000
    if not _keeps_passed(state) or done.idle_leftovers or rewrite:
        return at_ms
    # Until then, ledgers kept for replays or moves cannot be deleted.
    slot = state.planned if done.next_slot is None else min(state.planned, done.next_slot)
    return max(at_ms, slot * state.slot_ms + _kept_ms(state))
