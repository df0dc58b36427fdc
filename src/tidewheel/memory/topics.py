"""Stores the metadata of all topics in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidewheel.flows.ports import AT_ONCE_MS, Commit, DailyClaim, Due, HandOut, NextWork, Trash
from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.memory.administration import MemoryAdministration
from tidewheel.memory.keys import MemoryKeys
from tidewheel.memory.parks import MemoryParks
from tidewheel.memory.recurring import MemoryRecurring
from tidewheel.model.park import Park
from tidewheel.model.plan import Plan
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import TopicState, above


class MemoryTopics(MemoryKeys, MemoryParks, MemoryRecurring, MemoryAdministration):
    """Implements the port `Topics` with dicts. See `tidewheel.flows.ports.Topics` for docstrings."""

    # ---- topics and marks
    def create_topic(self, state: TopicState) -> bool:
        with self._lock:
            items = self._of(state.topic)
            if items.state is not None:
                return False
            items.state = state
            return True

    def state(self, topic: str) -> TopicState | None:
        with self._lock:
            found = self._read(topic)
            return None if found is None or found.deleting_at_ms is not None else found

    def topics(self) -> list[TopicState]:
        with self._lock:
            return [state for topic in sorted(self._items) if (state := self.state(topic)) is not None]

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        with self._lock:
            self._read(state.topic)
            current = self._same(state)
            if current is not None and current.sealed < slot:
                current = self._of(state.topic).state = replace(current, sealed=slot)
            return current

    def commit_bucket(
        self,
        state: TopicState,
        bucket: Bucket,
        next_work: NextWork | None,
        merge_at_ms: int | None = None,
        once: str | None = None,
    ) -> Commit:
        with self._lock:
            items = self._of(state.topic)
            if bucket.id in items.buckets or once in items.imports:
                return Commit.EXISTS
            first, current = bucket.first_slot, self._same(state)
            if (
                current is None
                or current.sealed > first
                or above(current.next_slot, first) != above(state.next_slot, first)
            ):
                return Commit.MOVED
            items.buckets[bucket.id] = bucket
            if once is not None:
                items.imports.add(once)
            items.state = replace(current, work_version=current.work_version + 1, waiting=current.waiting + bucket.rows)
            if next_work is not None:
                items.state = replace(items.state, next_slot=next_work.next_slot, next_check_ms=next_work.next_check_ms)
            if merge_at_ms is not None:
                items.state = replace(items.state, merge_at_ms=merge_at_ms, next_check_ms=merge_at_ms)
            return Commit.COMMITTED

    def imported(self, topic: str, import_id: str) -> frozenset[int]:
        with self._lock:
            marks = (once.rpartition("#") for once in self._of(topic).imports)
            return frozenset(int(cut) for name, _, cut in marks if name == import_id)

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None:
                return False
            if (current.work_version, current.swap_version) != (state.work_version, state.swap_version):
                return False
            self._of(state.topic).state = _woken(current, next_work)
            return True

    def due_for_look(self, now_ms: int) -> Due:
        with self._lock:
            states = [items.state for items in self._items.values() if items.state is not None]
            deliveries = [delivery for items in self._items.values() for delivery in items.deliveries.values()]
            parks = [park for items in self._items.values() for park in items.parks.values()]
            topics = sorted((each.next_check_ms, each.topic) for each in states if each.next_check_ms is not None)
            return Due(
                [topic for next_check_ms, topic in topics if next_check_ms <= now_ms],
                [each.key for each in sorted(deliveries, key=_look_at_ms) if each.next_check_ms <= now_ms],
                [each.key for each in sorted(parks, key=_look_at_ms) if each.next_check_ms <= now_ms],
            )

    def next_check_ms(self) -> int | None:
        """Returns the earliest time at which `due_for_look` finds an item. Returns None if there is none."""
        with self._lock:
            checked = (
                each.next_check_ms
                for items in self._items.values()
                for each in (items.state, *items.deliveries.values(), *items.parks.values())
                if each is not None
            )
            return min((each for each in checked if each is not None), default=None)

    # ---- buckets, tombstones, plans
    def bucket(self, topic: str, bucket_id: BucketId) -> Bucket | None:
        with self._lock:
            return self._of(topic).buckets.get(bucket_id)

    def buckets(self, topic: str) -> list[Bucket]:
        with self._lock:
            return list(self._of(topic).buckets.values())

    def commit_plan(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
    ) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None or (current.planned, current.swap_version) != (state.planned, state.swap_version):
                return False
            if next_work is not None and current.work_version != state.work_version:
                return False
            if not all(self._unmoved(step) for step in hand_outs):
                return False
            items = self._of(state.topic)
            items.state = replace(current, planned=end_slot)
            if next_work is not None:
                items.state = _woken(items.state, next_work)
            if plan is not None:
                items.plans[plan.first_slot] = plan
            for step in hand_outs:
                self._step(step)
            return True

    def plan(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:  # noqa: ARG002
        with self._lock:
            return self._of(topic).plans.get(first_slot)

    def next_plan(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:  # noqa: ARG002
        with self._lock:
            plans = self._of(topic).plans
            first = min((a for a in plans if a >= at_or_after), default=None)
            return None if first is None else plans[first]

    # ---- subscriptions and deliveries
    def create_subscription(self, state: TopicState, subscription: SubscriptionState) -> bool:
        with self._lock:
            items, cursor = self._of(state.topic), subscription.cursor
            current = self._same(state)
            if subscription.name in items.subscriptions or current is None or current.collected_until > cursor:
                return False
            lower = above(state.next_slot, cursor)
            if above(current.next_slot, cursor) != lower:
                return False
            items.subscriptions[subscription.name] = subscription
            items.state = replace(
                current, subscriptions_version=current.subscriptions_version + 1, work_version=current.work_version + 1
            )
            if lower:
                next_check_ms = AT_ONCE_MS if cursor >= state.sealed else state.check_at(cursor, state.collect_at_ms)
                items.state = replace(items.state, next_slot=cursor, next_check_ms=next_check_ms)
            return True

    def subscriptions(self, topic: str) -> list[SubscriptionState]:
        with self._lock:
            return [each for _, each in sorted(self._of(topic).subscriptions.items())]

    def subscription(self, topic: str, name: str) -> SubscriptionState | None:
        with self._lock:
            return self._of(topic).subscriptions.get(name)

    def hand_out(self, step: HandOut) -> bool:
        with self._lock:
            if not self._unmoved(step):
                return False
            self._step(step)
            return True

    def _unmoved(self, step: HandOut) -> bool:
        seen = step.subscription
        current = self._of(seen.topic).subscriptions.get(seen.name)
        return current is not None and (current.cursor, current.generation) == (seen.cursor, seen.generation)

    def _step(self, step: HandOut) -> None:
        items, name = self._of(step.subscription.topic), step.subscription.name
        items.subscriptions[name] = replace(items.subscriptions[name], cursor=step.to)
        if step.delivery is not None:
            items.deliveries[step.delivery.key] = step.delivery

    def delivery(self, key: DeliveryKey) -> Delivery | None:
        with self._lock:
            return self._of(key.topic).deliveries.get(key)

    def open_deliveries(self, topic: str) -> list[Delivery]:
        with self._lock:
            return list(self._of(topic).deliveries.values())

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        with self._lock:
            current = self.delivery(key)
            if current is None or part in current.done:
                return None
            leases = dict(current.leases)
            if part in leases and leases[part] >= expired_before_ms:
                return None
            return self._put(replace(current, leases=tuple(sorted((leases | {part: now_ms}).items()))))

    def release_part(self, key: DeliveryKey, part: int) -> None:
        with self._lock:
            current = self.delivery(key)
            if current is not None:
                self._put(replace(current, leases=tuple(each for each in current.leases if each[0] != part)))

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        with self._lock:
            current = self.delivery(key)
            if current is None:
                return None
            leases = tuple(lease for lease in current.leases if lease[0] != part)
            return self._put(replace(current, done=current.done | {part}, leases=leases))

    def stamp_delivery(self, key: DeliveryKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        with self._lock:
            current = self.delivery(key)
            if current is None or current.next_check_ms != seen_look_at_ms:
                return False
            self._put(replace(current, next_check_ms=next_check_ms))
            return True

    def delete_deliveries(self, keys: Iterable[DeliveryKey]) -> None:
        with self._lock:
            for key in keys:
                self._of(key.topic).deliveries.pop(key, None)

    def _put(self, delivery: Delivery) -> Delivery:
        self._of(delivery.key.topic).deliveries[delivery.key] = delivery
        return delivery

    # ---- collection
    def raise_gc(self, state: TopicState, collected_until: int) -> bool:
        with self._lock:
            current = self._same(state)
            if (
                current is None
                or current.collected_until >= collected_until
                or current.subscriptions_version != state.subscriptions_version
            ):
                return False
            self._of(state.topic).state = replace(current, collected_until=collected_until)
            return True

    def plan_ranges(self, topic: str) -> list[tuple[int, int]]:
        with self._lock:
            return sorted((plan.first_slot, plan.end_slot) for plan in self._of(topic).plans.values())

    def plan_objects(self, topic: str) -> frozenset[str]:
        """Returns the names of recurring messages' objects. Manifests in memory are not objects."""
        with self._lock:
            plans = self._of(topic).plans.values()
            return frozenset(plan.occurrences for plan in plans if plan.occurrences is not None)

    def delete_plan(self, topic: str, first_slot: int) -> str | None:
        with self._lock:
            plan = self._of(topic).plans.pop(first_slot, None)
            return None if plan is None else plan.occurrences

    def delete_bucket(self, topic: str, bucket_id: BucketId) -> None:
        with self._lock:
            self._of(topic).buckets.pop(bucket_id, None)

    # ---- merging
    def swap(
        self, state: TopicState, sources: Sequence[Bucket], outputs: Sequence[Bucket], trash: Trash, dropped: int = 0
    ) -> bool:
        with self._lock:
            items, current = self._of(state.topic), self._same(state)
            if current is None or current.planned > trash.sealed:
                return False
            if any(source.id not in items.buckets for source in sources):
                return False
            for source in sources:
                del items.buckets[source.id]
            items.buckets |= {output.id: output for output in outputs}
            items.trash[trash.sealed, trash.id] = trash
            items.state = replace(current, swap_version=current.swap_version + 1, waiting=current.waiting - dropped)
            return True

    def lease_merge(self, topic: str, now_ms: int, until_ms: int) -> bool:
        with self._lock:
            items = self._of(topic)
            if items.merging_until_ms is not None and items.merging_until_ms > now_ms:
                return False
            items.merging_until_ms = until_ms
            return True

    def release_merge(self, topic: str, until_ms: int) -> None:
        with self._lock:
            if self._of(topic).merging_until_ms == until_ms:
                self._of(topic).merging_until_ms = None

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None or (current.work_version, current.next_slot) != (state.work_version, state.next_slot):
                return False
            items = self._of(state.topic)
            items.state = replace(
                current, merge_considered_version=state.work_version, merge_at_ms=None, next_check_ms=next_check_ms
            )
            return True

    # ---- trash
    def trash(self, topic: str) -> list[Trash]:
        with self._lock:
            return [each for _, each in sorted(self._of(topic).trash.items())]

    def delete_trash(self, topic: str, trash: Trash) -> None:
        with self._lock:
            self._of(topic).trash.pop((trash.sealed, trash.id), None)

    def set_collect_at(self, state: TopicState, collect_at_ms: int | None, next_check_ms: int | None) -> bool:
        with self._lock:
            current = self._same(state)
            if current is None or (current.work_version, current.next_slot) != (state.work_version, state.next_slot):
                return False
            self._of(state.topic).state = replace(current, collect_at_ms=collect_at_ms, next_check_ms=next_check_ms)
            return True

    # ---- the service
    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        with self._lock:
            at_ms, after = self._daily.get(name, (now_ms, None))
            if at_ms > now_ms:
                return None
            self._daily[name] = next_ms, after
            return DailyClaim(after=after)

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        with self._lock:
            self._daily[name] = next_ms, after

    # ---- rebuilding
    def delete_topic_state(self, topic: str) -> None:
        with self._lock:
            self._of(topic).state = None

    def restore_bucket(self, topic: str, bucket: Bucket) -> None:
        with self._lock:
            self._of(topic).buckets[bucket.id] = bucket

    def restore_subscription(self, subscription: SubscriptionState) -> None:
        with self._lock:
            self._of(subscription.topic).subscriptions[subscription.name] = subscription


def _look_at_ms(each: Delivery | Park) -> int:
    return each.next_check_ms


def _woken(state: TopicState, next_work: NextWork) -> TopicState:
    return replace(
        state,
        next_slot=next_work.next_slot,
        next_check_ms=next_work.next_check_ms,
        collect_at_ms=next_work.collect_at_ms,
        waiting=next_work.waiting,
    )
