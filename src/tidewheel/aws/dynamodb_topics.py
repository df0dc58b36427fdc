"""Stores the metadata of all topics in DynamoDB.

Plans, merges and trash are in this module, the rest in the modules beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_administration import DynamoAdministration
from tidewheel.aws.dynamodb_deliveries import DynamoDeliveries, hand_out_writes
from tidewheel.aws.dynamodb_items import PlanItem
from tidewheel.aws.dynamodb_keys import DynamoKeys
from tidewheel.aws.dynamodb_parks import DynamoParks
from tidewheel.aws.dynamodb_recurring import DynamoRecurring
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_topic_states import DynamoTopicStates
from tidewheel.aws.dynamodb_writes import Change, Delete, Item, Put, Value, Write
from tidewheel.flows.ports import HandOut, NextWork, Objects, Trash
from tidewheel.ledger.bucket import Bucket
from tidewheel.model import object_names
from tidewheel.model.plan import Plan, decode_plan, encode_plan
from tidewheel.model.topic_state import TopicState

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MAX_INLINE_MANIFEST_BYTES = 300_000
"""Larger manifests are stored in S3, since an item has at most 400 KB."""


class DynamoTopics(DynamoTopicStates, DynamoDeliveries, DynamoParks, DynamoKeys, DynamoRecurring, DynamoAdministration):
    """Implements the port `Topics` on a DynamoDB table. Safe for use by several threads.

    Each call that changes something raises Contended if other changes of the same items, or throttling, come first at
    each try. boto3 repeats a request whose response was lost. A transaction has a token and takes effect once. A single
    conditional change may be refused because its first try succeeded. The caller then reads again and finds the change
    done.

    Args:
        client: boto3's low-level client.
        table: the table's name.
        objects: stores manifests that are too large for an item.
        page_size: maximum items of a page; None: as many as fit into DynamoDB's megabyte.
        sleep: waits for some seconds between tries.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        *,
        table: str,
        objects: Objects,
        page_size: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(Table(client, table, page_size=page_size, sleep=sleep))
        self._objects = objects

    # ---- plans
    def commit_plan(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
    ) -> bool:
        """Commits a plan in a transaction, or in an UpdateItem if only the topic state changes.

        A large manifest is put to S3 first. If the process stops after that PUT, nothing names the object.
        """
        state_change = self._planned(state, end_slot, next_work)
        writes: list[Write] = [state_change]
        item = None if plan is None else self._plan_item(plan)
        if item is not None:
            writes.append(Put(item=items.encode_plan_item(item)))
        for step in hand_outs:
            writes += hand_out_writes(step)
        if len(writes) == 1:
            done, _ = self._table.update(state_change, action="commit_plan", topic=state.topic)
        else:
            done = not self._table.transact(writes, action="commit_plan", topic=state.topic)
        if not done and item is not None and item.object_name is not None:
            self._drop_unnamed(item)
        return done

    def _planned(self, state: TopicState, end_slot: int, next_work: NextWork | None) -> Change:
        condition = f"planned = :planned AND swap_version = :swap_version AND {items.SAME_TOPIC}"
        values: dict[str, Value] = {
            "planned": state.planned,
            "swap_version": state.swap_version,
            "generation": state.generation,
        }
        sets: dict[str, Value | None] = {"planned": end_slot}
        if next_work is not None:
            condition += " AND work_version = :work_version"
            values["work_version"] = state.work_version
            sets |= items.next_work_fields(state.topic, next_work)
        return Change(key=layout.topic_state_key(state.topic), condition=condition, values=values, sets=sets)

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

    def plan(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:
        """Reads a plan with a GetItem, and a GET if the manifest is in S3."""
        item = self._table.get(layout.plan_key(topic, first_slot))
        return None if item is None else self._plan_of(item, whole)

    def next_plan(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:
        """Reads the next plan with a query of a single item, and a GET if the manifest is in S3."""
        partition, first = layout.plan_key(topic, max(0, at_or_after))
        found = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {"pk": partition, "first": first, "last": layout.PLANS + "~"},
            limit=1,
        )
        item = next(found, None)
        return None if item is None else self._plan_of(item, whole)

    def _plan_of(self, item: Item, whole: bool) -> Plan:
        found = items.decode_plan_item(item)
        manifest = found.manifest
        if manifest is None and not whole:
            return Plan(
                topic=found.topic,
                first_slot=found.first_slot,
                end_slot=found.end_slot,
                segments=(),
                occurrences=found.occurrences,
            )
        if manifest is None:
            manifest = self._objects.get_range(str(found.object_name), 0, found.object_bytes)
        return decode_plan(
            found.topic, found.first_slot, found.end_slot, manifest, found.occurrences, found.object_name
        )

    def plan_ranges(self, topic: str) -> list[tuple[int, int]]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.PLANS, projection="pk, sk, v, end_slot")
        return [(plan.first_slot, plan.end_slot) for plan in map(items.decode_plan_item, found)]

    def plan_objects(self, topic: str) -> frozenset[str]:
        partition, projection = layout.topic_partition(topic), "pk, sk, v, end_slot, object_name, occurrences"
        found = map(items.decode_plan_item, self._table.query_prefix(partition, layout.PLANS, projection=projection))
        names = (name for plan in found for name in (plan.object_name, plan.occurrences))
        return frozenset(name for name in names if name is not None)

    def delete_plan(self, topic: str, first_slot: int) -> str | None:
        """Deletes a plan with a DeleteItem, then its manifest if the manifest is in S3."""
        item = self._table.delete(layout.plan_key(topic, first_slot), action="delete_plan", topic=topic, returns=True)
        if item is None:
            return None
        plan = items.decode_plan_item(item)
        if plan.object_name is not None:
            self._objects.delete([plan.object_name])
        return plan.occurrences

    # ---- merging
    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        """Swaps ledgers in a single transaction with an item for each bucket, the trash and the topic state."""
        topic = state.topic
        failed = self._table.transact(
            [
                *(Put(item=items.encode_bucket(topic, each)) for each in outputs),
                *(Delete(key=layout.bucket_key(topic, each.id)) for each in sources),
                Put(item=items.encode_trash(topic, trash)),
                Change(
                    key=layout.topic_state_key(topic),
                    condition=f"{items.SAME_TOPIC} AND planned <= :sealed",
                    values={"generation": state.generation, "sealed": trash.sealed},
                    adds={"swap_version": 1, **({"waiting": -dropped} if dropped else {})},
                ),
            ],
            action="swap",
            topic=topic,
        )
        return not failed

    def lease_merge(self, topic: str, now_ms: int, until_ms: int) -> bool:
        """Leases a topic's merge with a single UpdateItem."""
        lease = Change(
            key=layout.merge_key(topic),
            condition="attribute_not_exists(until_ms) OR until_ms <= :now",
            values={"now": now_ms},
            sets={"v": items.VERSION, "until_ms": until_ms},
        )
        done, _ = self._table.update(lease, action="lease_merge", topic=topic)
        return done

    def release_merge(self, topic: str, until_ms: int) -> None:
        """Releases a merge's lease with a single UpdateItem."""
        release = Change(
            key=layout.merge_key(topic),
            condition="until_ms = :until",
            values={"until": until_ms},
            sets={"until_ms": None},
        )
        self._table.update(release, action="release_merge", topic=topic)

    # ---- trash
    def trash(self, topic: str) -> list[Trash]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.TRASH)
        return [items.decode_trash(item) for item in found]

    def delete_trash(self, topic: str, trash: Trash) -> None:
        """Deletes a trash item with a single DeleteItem."""
        self._table.delete(layout.trash_key(topic, trash.sealed, trash.id), action="delete_trash", topic=topic)
