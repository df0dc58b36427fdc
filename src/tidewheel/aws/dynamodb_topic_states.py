"""Stores topic states and their buckets in DynamoDB."""

from __future__ import annotations

from tidewheel import clock as clocks
from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_writes import Change, Item, Put, Value, item_of
from tidewheel.flows.ports import Commit, DailyClaim, Due, NextWork
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic_state import TopicState, above

IMPORT_TTL_S = 90 * 86_400
"""Time in which an import can be repeated without adding messages, after its ledgers are merged or delivered."""


def next_slot_comparison(is_above: bool, slot: str) -> str:
    """Returns the condition that next_slot is above a slot, or not above. An absent next_slot is above every slot."""
    if is_above:
        return f"(attribute_not_exists(next_slot) OR next_slot > {slot})"
    return f"next_slot <= {slot}"


def _import_mark(topic: str, once: str) -> Put:
    ttl_s = clocks.current().now_ms() // 1000 + IMPORT_TTL_S
    fields: dict[str, Value | None] = {"v": items.VERSION, layout.TTL_ATTRIBUTE: ttl_s}
    return Put(item=item_of(layout.import_key(topic, once), fields), if_absent=True)


class DynamoTopicStates:
    """Implements topic states and buckets of the port `Topics`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._not_before_ms: dict[str, int] = {}

    def create_topic(self, state: TopicState) -> bool:
        """Creates a topic with a single PutItem."""
        put = Put(item=items.encode_topic_state(state), if_absent=True)
        return self._table.put(put, action="create_topic", topic=state.topic)

    def state(self, topic: str) -> TopicState | None:
        """Reads a topic state with a single GetItem."""
        item = self._table.get(layout.topic_state_key(topic))
        found = None if item is None else items.decode_topic_state(item)
        return None if found is None or found.deleting_at_ms is not None else found

    def topics(self) -> list[TopicState]:
        """Lists all topics by a scan of the whole table, for administrators only."""
        found = self._table.scan("sk = :state AND attribute_not_exists(deleting_at_ms)", {"state": layout.STATE})
        return sorted((items.decode_topic_state(item) for item in found), key=lambda state: state.topic)

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """Seals slots with a single UpdateItem, even if nothing changes."""
        change = Change(
            key=layout.topic_state_key(state.topic),
            condition=f"{items.SAME_TOPIC} AND sealed < :slot",
            values={"generation": state.generation, "slot": slot},
            sets={"sealed": slot},
        )
        _, item = self._table.update(change, action="seal", topic=state.topic, returns=True)
        current = None if item is None else items.decode_topic_state(item)
        return current if current is not None and current.generation == state.generation else None

    def commit_bucket(
        self,
        state: TopicState,
        bucket: Bucket,
        next_work: NextWork | None,
        merge_at_ms: int | None = None,
        once: str | None = None,
    ) -> Commit:
        """Commits a bucket in a single transaction.

        A bucket or import mark that exists is reported as existing, even if the topic state changed too.
        """
        first = bucket.first_slot
        sets: dict[str, Value | None] = {}
        if next_work is not None:
            sets = {"next_slot": next_work.next_slot, **items.check_fields(state.topic, next_work.next_check_ms)}
        if merge_at_ms is not None:
            sets |= {"merge_at_ms": merge_at_ms, **items.check_fields(state.topic, merge_at_ms)}
        change = Change(
            key=layout.topic_state_key(state.topic),
            condition=f"{items.SAME_TOPIC} AND sealed <= :first AND "
            + next_slot_comparison(above(state.next_slot, first), ":first"),
            values={"generation": state.generation, "first": first},
            sets=sets,
            adds={"work_version": 1, "waiting": bucket.rows},
        )
        puts = [Put(item=items.encode_bucket(state.topic, bucket), if_absent=True)]
        if once is not None:
            puts.append(_import_mark(state.topic, once))
        failed = self._table.transact([*puts, change], action="commit_bucket", topic=state.topic)
        if any(i < len(puts) for i in failed):
            return Commit.EXISTS
        return Commit.MOVED if failed else Commit.COMMITTED

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        """Lists the committed cuts of an import with a single query."""
        found = self._table.query_prefix(
            layout.topic_partition(topic), layout.imports_prefix(import_id), projection="pk, sk"
        )
        return frozenset(layout.import_cut(items.key_of(item)[1]) for item in found)

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        """Raises next_slot with a single UpdateItem."""
        return self._change_state(
            state,
            "raise_next_slot",
            condition="work_version = :work_version AND swap_version = :swap_version",
            values={"work_version": state.work_version, "swap_version": state.swap_version},
            sets=items.next_work_fields(state.topic, next_work),
        )

    def raise_gc(self, state: TopicState, collected_until: int) -> bool:
        """Raises collected_until with a single UpdateItem."""
        return self._change_state(
            state,
            "raise_gc",
            condition="collected_until < :until AND subscriptions_version = :subscriptions_version",
            values={"until": collected_until, "subscriptions_version": state.subscriptions_version},
            sets={"collected_until": collected_until},
        )

    def set_collect_at(self, state: TopicState, collect_at_ms: int | None, next_check_ms: int | None) -> bool:
        """Sets the time of the next collection with a single UpdateItem."""
        return self._set_looks(state, "set_collect_at", {"collect_at_ms": collect_at_ms}, next_check_ms)

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """Records that a merge was considered, with a single UpdateItem."""
        sets: dict[str, Value | None] = {"merge_considered_version": state.work_version, "merge_at_ms": None}
        return self._set_looks(state, "merge_considered", sets, next_check_ms)

    def _set_looks(
        self, state: TopicState, action: str, sets: dict[str, Value | None], next_check_ms: int | None
    ) -> bool:
        condition, values = "work_version = :work_version AND ", {"work_version": state.work_version}
        if state.next_slot is None:
            condition += "attribute_not_exists(next_slot)"
        else:
            condition += "next_slot = :next_slot"
            values["next_slot"] = state.next_slot
        looks = items.check_fields(state.topic, next_check_ms)
        return self._change_state(state, action, condition=condition, values=values, sets={**sets, **looks})

    def _change_state(
        self,
        state: TopicState,
        action: str,
        *,
        condition: str,
        values: dict[str, int],
        sets: dict[str, Value | None],
    ) -> bool:
        done, _ = self._table.update(
            Change(
                key=layout.topic_state_key(state.topic),
                condition=f"{items.SAME_TOPIC} AND {condition}",
                values={"generation": state.generation, **values},
                sets=sets,
            ),
            action=action,
            topic=state.topic,
        )
        return done

    def due_for_look(self, now_ms: int) -> Due:
        """Finds due checks with a query for each of the index's 16 shards."""
        due: list[Item] = []
        for shard in layout.check_shards():
            due += self._table.query(
                "check_shard = :shard AND next_check_ms <= :now",
                {"shard": shard, "now": now_ms},
                index=layout.CHECK_INDEX,
            )
        found = Due([], [], [])
        for key in map(items.key_of, sorted(due, key=items.next_check_ms_of)):
            if key[1] == layout.STATE:
                found.topics.append(layout.topic_of(key[0]))
            elif key[1].startswith(layout.PARKS):
                found.parks.append(layout.parse_park_key(key))
            else:
                found.deliveries.append(layout.parse_delivery_key(key))
        return found

    def bucket(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        """Reads a bucket with a single GetItem."""
        item = self._table.get(layout.bucket_key(topic, bucket_id))
        return None if item is None else items.decode_bucket(item)

    def buckets(self, topic: str) -> list[Bucket]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.BUCKETS)
        return [items.decode_bucket(item) for item in found]

    def delete_bucket(self, topic: str, bucket_id: BucketId) -> None:
        """Deletes a bucket with a single DeleteItem."""
        self._table.delete(layout.bucket_key(topic, bucket_id), action="delete_bucket", topic=topic)

    # ---- rebuilding
    def delete_topic_state(self, topic: str) -> None:
        """Deletes a topic state with a single DeleteItem."""
        self._table.delete(layout.topic_state_key(topic), action="delete_topic_state", topic=topic)

    def restore_bucket(self, topic: str, bucket: Bucket) -> None:
        """Restores a bucket with a single PutItem."""
        self._table.put(Put(item=items.encode_bucket(topic, bucket)), action="restore_bucket", topic=topic)

    def restore_subscription(self, subscription: SubscriptionState) -> None:
        """Restores a subscription with a single PutItem."""
        put = Put(item=items.encode_subscription(subscription))
        self._table.put(put, action="restore_subscription", topic=subscription.topic)

    # ---- the service
    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        """Claims a daily job with an UpdateItem.

        Sends no request while this process remembers that the job is not due.
        """
        if now_ms < self._not_before_ms.get(name, now_ms):
            return None
        claim = Change(
            key=layout.daily_key(name),
            condition="attribute_not_exists(next_at_ms) OR next_at_ms <= :now",
            values={"now": now_ms},
            sets={"v": items.VERSION, "next_at_ms": next_ms},
        )
        done, item = self._table.update(claim, action="claim_daily", topic=name, returns=True)
        if item is not None:
            self._not_before_ms[name] = int(item["next_at_ms"]["N"])
        if not done or item is None:
            return None
        return DailyClaim(after=item["after"]["S"] if "after" in item else None)

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        """Postpones a daily job with a single UpdateItem."""
        change = Change(
            key=layout.daily_key(name),
            condition="attribute_exists(next_at_ms)",
            sets={"v": items.VERSION, "next_at_ms": next_ms, "#after": after},
        )
        self._table.update(change, action="put_off_daily", topic=name)
        self._not_before_ms[name] = next_ms
