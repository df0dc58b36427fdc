"""Stores plans."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.errors import CorruptMetadata, NewerRelease
from tidewheel.model import object_names
from tidewheel.model.plan import Plan, decode_plan, encode_plan
from tidewheel.model.topic_state import ALL_SEALED, NextWork, TopicState
from tidewheel.storage import items, layout
from tidewheel.storage.deliveries import HandOut, hand_out_writes
from tidewheel.storage.items import PlanItem
from tidewheel.storage.objects import Objects
from tidewheel.storage.table import Table
from tidewheel.storage.writes import Change, Item, Put, Value, Write

MAX_INLINE_MANIFEST_BYTES = 300_000
"""Larger manifests are stored in S3, since an item has at most 400 KB."""


class Plans:
    """The plans of each topic."""

    def __init__(self, table: Table, objects: Objects) -> None:
        self._table = table
        self._objects = objects

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

        A large manifest is put to S3 first. If the process stops after that PUT, nothing names the object.
        """
        writes: list[Write] = [_planned(state, end_slot, next_work, rows)]
        item = None if plan is None else self._plan_item(plan)
        if item is not None:
            writes.append(Put(item=items.encode_plan_item(item)))
        for step in hand_outs:
            writes += hand_out_writes(step)
        done = self._table.commit(writes, action="commit_plan", topic=state.topic)
        if not done and item is not None and item.object_name is not None:
            self._drop_unnamed(item)
        return done

    def read(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:
        """Reads the plan that starts at `first_slot`.

        Args:
            whole: if False, a manifest in an object of its own is not read; the plan then has no segments.
        """
        item = self._table.get(layout.plan_key(topic, first_slot))
        return None if item is None else self._plan_of(item, whole)

    def next(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:
        """Reads the first plan that starts at or after a slot. `whole` is as in `read`."""
        partition, first = layout.plan_key(topic, max(0, at_or_after))
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {"pk": partition, "first": first, "last": layout.PLANS + "~"},
            limit=1,
        )
        item = next(found, None)
        return None if item is None else self._plan_of(item, whole)

    def ranges(self, topic: str) -> list[tuple[int, int]]:
        """Reads [first_slot, end_slot) of every plan, without the manifests.

        If an end cannot be read, it is the next plan's begin, or ALL_SEALED.
        """
        found = self._table.query_prefix(layout.topic_partition(topic), layout.PLANS, projection="pk, sk, v, end_slot")
        ranges: list[tuple[int, int]] = []
        for item in reversed(list(found)):
            first_slot = layout.plan_slot(items.key_of(item)[1])
            try:
                ranges.append((first_slot, items.decode_plan_item(item).end_slot))
            except NewerRelease:
                raise
            except CorruptMetadata:  # nothing is due between its end and the next plan
                ranges.append((first_slot, ranges[-1][0] if ranges else ALL_SEALED))
        return ranges[::-1]

    def objects(self, topic: str) -> frozenset[str]:
        """Reads the names of all manifests that are objects of their own."""
        partition, projection = layout.topic_partition(topic), "pk, sk, v, end_slot, object_name, occurrences"
        found = map(items.decode_plan_item, self._table.query_prefix(partition, layout.PLANS, projection=projection))
        names = (name for plan in found for name in (plan.object_name, plan.occurrences))
        return frozenset(name for name in names if name is not None)

    def delete(self, topic: str, first_slot: int) -> str | None:
        """Deletes a plan, then its manifest object, if any.

        Returns:
            The name of the plan's object with recurring messages, for the caller to delete.
        """
        item = self._table.delete(layout.plan_key(topic, first_slot), action="delete_plan", topic=topic, returns=True)
        if item is None:
            return None
        try:
            plan = items.decode_plan_item(item)
        except CorruptMetadata:  # the orphan sweep deletes its objects
            return None
        if plan.object_name is not None:
            self._objects.delete([plan.object_name])
        return plan.occurrences

    def _plan_item(self, plan: Plan) -> PlanItem:
        manifest = encode_plan(plan)
        if len(manifest) <= MAX_INLINE_MANIFEST_BYTES:
            return PlanItem(plan.topic, plan.first_slot, plan.end_slot, manifest, None, 0, plan.occurrences)
        name = object_names.manifest_name(plan.topic, plan.first_slot, object_names.random_attempt())
        self._objects.put(name, manifest)
        return PlanItem(plan.topic, plan.first_slot, plan.end_slot, None, name, len(manifest), plan.occurrences)

    def _drop_unnamed(self, refused: PlanItem) -> None:
        """Deletes a refused plan's manifest, unless an earlier try with a lost response put the plan."""
        item = self._table.get(layout.plan_key(refused.topic, refused.first_slot))
        if item is None or items.decode_plan_item(item).object_name != refused.object_name:
            self._objects.delete([str(refused.object_name)])

    def _plan_of(self, item: Item, whole: bool) -> Plan:
        found = items.decode_plan_item(item)
        manifest = found.manifest
        if manifest is None and not whole:
            topic, first_slot, end_slot, occurrences = found.topic, found.first_slot, found.end_slot, found.occurrences
            return Plan(topic=topic, first_slot=first_slot, end_slot=end_slot, segments=(), occurrences=occurrences)
        if manifest is None:
            manifest = self._objects.get_range(str(found.object_name), 0, found.object_bytes)
        return decode_plan(
            found.topic, found.first_slot, found.end_slot, manifest, found.occurrences, found.object_name
        )


def _planned(state: TopicState, end_slot: int, next_work: NextWork | None, rows: int) -> Change:
    seen = {"planned": state.planned, "swap_version": state.swap_version}
    sets: dict[str, Value | None] = {"planned": end_slot}
    if next_work is not None:
        seen["work_version"] = state.work_version
        sets |= items.next_work_fields(state.topic, next_work)
    return items.state_change(state, seen=seen, sets=sets, adds={"waiting": -rows} if rows else {})
