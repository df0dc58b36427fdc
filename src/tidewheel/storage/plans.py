"""Stores plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from tidewheel.errors import CorruptMetadata, NewerRelease, ObjectMissing
from tidewheel.model import object_names
from tidewheel.model.plan import Plan, decode_plan, encode_plan
from tidewheel.model.topic_state import ALL_SEALED, NextWork, TopicState
from tidewheel.storage import items, table_keys
from tidewheel.storage.deliveries import HandOut, hand_out_writes
from tidewheel.storage.items import PlanItem
from tidewheel.storage.objects import Objects
from tidewheel.storage.table import Table
from tidewheel.storage.writes import Change, Item, Put, Value, Write, as_seen

MAX_INLINE_MANIFEST_BYTES = 16_000
"""Larger manifests are stored in S3. Each part reads the item, and a partition gives 3,000 units of 4 KB a second."""
_MOST_KEPT = 100_000
"""Segments and cancelled messages of the decoded plans that a process keeps, in 50 MB. Each plan counts 1,000 more."""


class Plans:
    """The plans of each topic."""

    def __init__(self, table: Table, objects: Objects) -> None:
        self._table = table
        self._objects = objects
        self._decoded: dict[tuple[object, ...], Plan] = {}
        self._lock = Lock()

    def commit(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
        *,
        rows: int = 0,
    ) -> bool:
        """Commits a plan, hand-outs and a raised next slot, as far as given. Returns False if nothing was written.

        `T{put PLAN; STATE: planned = end_slot, waiting - rows IF planned, swap_version and generation as read; each
        hand-out}`.

        Hand-outs are conditional as in `Deliveries.hand_out`. With `next_work`, the topic state's work_version must be
        as read too. The transaction writes everything or nothing.

        A large manifest is put to S3 first. If the process stops after that PUT, or the plan is refused, nothing names
        the object, and the orphan sweep deletes it.
        """
        writes: list[Write] = [_planned(state, end_slot, next_work, rows)]
        if plan is not None:
            writes.append(Put(item=items.encode_plan_item(self._plan_item(plan))))
        for step in hand_outs:
            writes += hand_out_writes(step)
        return self._table.commit(writes, action="commit_plan", topic=state.topic)

    def again(self, state: TopicState, forgotten: Plan, plan: Plan) -> bool:
        """Puts a plan again whose manifest's object is gone. Returns False if refused.

        `T{put PLAN, edition + 1 IF edition as read; STATE: subscriptions_version + 1 IF collected_until <= the plan and
        generation as read}`.

        A collection that read a quarantined delivery of the old edition is refused by subscriptions_version.
        """
        item = self._plan_item(replace(plan, edition=forgotten.edition + 1))
        seen = as_seen({"edition": forgotten.edition or None}, "attribute_exists(pk)")
        put = Put(item=items.encode_plan_item(item), **seen)
        values, adds = {"a": plan.first_slot}, {"subscriptions_version": 1}
        kept = items.state_change(state, "collected_until <= :a", values=values, adds=adds)
        return self._table.commit([put, kept], action="plan_again", topic=state.topic)

    def read(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:
        """Reads the plan with the start `first_slot`. Keeps the last decoded plans, for the next part in this process.

        Args:
            whole: if False, a manifest in an object of its own is not read; the plan then has no segments.

        Raises:
            ObjectMissing: the manifest's object is gone or damaged.
            CorruptMetadata: the item is not readable.
        """
        item = self._table.get(table_keys.plan_key(topic, first_slot))
        return None if item is None else self._plan_of(item, whole)

    def next(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:
        """Reads the first plan that starts at or after a slot. `whole` is as in `read`."""
        plans = self._query(topic, at_or_after, None, limit=1)
        item = next(plans, None)
        return None if item is None else self._plan_of(item, whole)

    def before(self, topic: str, slot: int, unreadable: dict[str, Exception] | None = None) -> Iterator[Plan]:
        """Yields the plans that begin at or before a slot, the last first. Reads page by page, as far as it is asked.

        The first is the only one that can hold the slot.

        Args:
            unreadable: gets the error of each plan that cannot be read. None: the first error is raised, as in `read`.
        """
        plans = self._query(topic, 0, slot + 1, first_page=1, backwards=True)
        for item in plans:
            try:
                yield self._plan_of(item, whole=True)
            except (CorruptMetadata, ObjectMissing) as error:
                if unreadable is None:
                    raise
                unreadable[f"plan {table_keys.plan_slot(items.key_of(item)[1])}"] = error

    def ranges(
        self, topic: str, *, first_slot: int = 0, end_slot: int | None = None, limit: int | None = None
    ) -> list[tuple[int, int]]:
        """Reads [first_slot, end_slot) of the plans that begin in a range, without the manifests.

        If an end cannot be read, it is the next plan's begin, or ALL_SEALED.

        Args:
            limit: how many are read, in one request. None: all.
        """
        found = self._query(topic, first_slot, end_slot, projection="pk, sk, v, end_slot", limit=limit)
        ranges: list[tuple[int, int]] = []
        for item in reversed(list(found)):
            first_slot = table_keys.plan_slot(items.key_of(item)[1])
            try:
                ranges.append((first_slot, items.decode_plan_item(item).end_slot))
            except NewerRelease:
                raise
            except CorruptMetadata:  # nothing is due between its end and the next plan
                ranges.append((first_slot, ranges[-1][0] if ranges else ALL_SEALED))
        return ranges[::-1]

    def objects(self, topic: str) -> frozenset[str]:
        """Reads the names of all manifest objects."""
        partition, projection = table_keys.topic_partition(topic), "pk, sk, v, end_slot, object_name, occurrences"
        found = map(
            items.decode_plan_item, self._table.query_prefix(partition, table_keys.PLANS, projection=projection)
        )
        names = (name for plan in found for name in (plan.object_name, plan.occurrences))
        return frozenset(name for name in names if name is not None)

    def delete(self, topic: str, first_slot: int) -> str | None:
        """Deletes a plan, then the manifest object, if any.

        Returns:
            The name of the plan's object with recurring messages, for the caller to delete.
        """
        item = self._table.delete(
            table_keys.plan_key(topic, first_slot), action="delete_plan", topic=topic, returns=True
        )
        if item is None:
            return None
        try:
            plan = items.decode_plan_item(item)
        except CorruptMetadata:  # the orphan sweep deletes its objects
            return None
        if plan.object_name is not None:
            self._objects.delete([plan.object_name])
        return plan.occurrences

    def _query(self, topic: str, first_slot: int, end_slot: int | None, **how: Any) -> Iterator[Item]:
        partition = table_keys.topic_partition(topic)
        return self._table.query_slots(partition, table_keys.PLANS, first_slot, end_slot, **how)

    def _plan_item(self, plan: Plan) -> PlanItem:
        manifest = encode_plan(plan)
        stored: tuple[bytes | None, str | None, int] = (manifest, None, 0)
        if len(manifest) > MAX_INLINE_MANIFEST_BYTES:
            name = object_names.manifest_name(plan.topic, plan.first_slot, object_names.random_attempt())
            self._objects.put(name, manifest)
            stored = (None, name, len(manifest))
        return PlanItem(plan.topic, plan.first_slot, plan.end_slot, *stored, plan.occurrences, plan.edition)

    def _plan_of(self, item: Item, whole: bool) -> Plan:
        stored = items.decode_plan_item(item)
        manifest = stored.manifest
        if manifest is None and not whole:
            names = ("topic", "first_slot", "end_slot", "occurrences", "edition")
            return Plan(segments=(), **{name: getattr(stored, name) for name in names})
        name = (stored.topic, stored.first_slot, stored.end_slot, stored.edition, stored.object_name, manifest)
        with self._lock:
            plan = self._decoded.pop(name, None)
        if plan is None:
            plan = self._decode(stored)
        with self._lock:
            self._decoded[name] = plan
            while sum(1000 + len(each.segments) + len(each.cancelled) for each in self._decoded.values()) > _MOST_KEPT:
                del self._decoded[next(iter(self._decoded))]  # the one that was not read for the longest
        return plan

    def _decode(self, stored: PlanItem) -> Plan:
        manifest = stored.manifest
        if manifest is None:
            manifest = self._objects.get_range(str(stored.object_name), 0, stored.object_bytes)
        try:
            return decode_plan(
                stored.topic,
                stored.first_slot,
                stored.end_slot,
                manifest,
                stored.occurrences,
                stored.object_name,
                stored.edition,
            )
        except NewerRelease:
            raise
        except CorruptMetadata as error:
            if stored.object_name is None:
                raise
            raise ObjectMissing(stored.object_name, f"is damaged ({error})") from error


def _planned(state: TopicState, end_slot: int, next_work: NextWork | None, rows: int) -> Change:
    seen = {"planned": state.planned, "swap_version": state.swap_version}
    sets: dict[str, Value | None] = {"planned": end_slot}
    if next_work is not None:
        seen["work_version"] = state.work_version
        sets |= items.next_work_fields(state.topic, next_work)
    return items.state_change(state, seen=seen, sets=sets, adds={"waiting": -rows} if rows else {})
