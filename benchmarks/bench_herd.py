"""Measures how late messages are of which many are due in one second, at the start of a slot.

    python -m benchmarks herd

The real dispatch plans, hands out and enqueues an index of so many messages, over a table in memory. The items with the
marks of the parts and their bytes, the plan's read units and CPU time, and the order of the tasks are taken from it.
`benchmarks.herd` simulates the queue, Lambda and DynamoDB. The CPU time of a plan is measured here, and the CPU time of
a call and of a message by `bench_function_time`.

The hand-out begins as late as a punctual schedule fires. DynamoDB saves up no units of a second for the next, since it
promises none. Claims are counted by the real write of a consumer.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

from pyroaring import BitMap

from benchmarks.herd import TABLE_WRITES_A_SECOND, Costs, Herd, Marks, Part
from tests.flows.world import DAY, START_MS, TOPIC, World
from tidewheel.cost.figures import ASSUMED, FUNCTIONS, LATENCY_MS
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.ledger.bucket import Bucket, bucket_id
from tidewheel.model.object_names import PLANS, ledger_name
from tidewheel.model.plan import Segment
from tidewheel.model.settings import SCHEDULER_LATENESS_S, TopicSettings
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.task import PartTask
from tidewheel.model.tombstone import KEPT_S, Holder
from tidewheel.storage.buckets import Commit
from tidewheel.storage.plans import Plans

COPIES = (100_000, 1_000_000, 3_000_000, 10_000_000, 20_000_000)
CASES = ((1, 1), (1, 10), (10, 1))
"""Topics, and subscriptions of each. They share the copies."""
LEDGER_ROWS = 50_000
NEW_TABLE_WRITES_A_SECOND = 4_000
WORK_CONCURRENCY = 100
"""The environment's default (`cdk/environment.py`)."""
LEAD_S = TopicSettings().lookahead_s - SCHEDULER_LATENESS_S
"""From the hand-out to the slot's start. A scheduler that is late, too, takes another minute of it."""
_MARKED = 50
"""Parts whose marks are measured."""
_DUE_MS = START_MS + DAY


class _HandedOut(NamedTuple):
    """A plan that the real dispatch has handed out.

    Attributes:
        tasks: in the order of the work queue.
        items: part -> the key of the item with its marks, of each delivery.
        dispatch_s: how long the dispatch takes before the first task, and for each ten tasks.
    """

    tasks: list[PartTask]
    rows: list[int]
    marks: dict[tuple[DeliveryKey, int], Marks]
    costs: Costs
    dispatch_s: tuple[float, float]


def _on_lambda_s(cpu_s: float, function: str = "deliver") -> float:
    return cpu_s * ASSUMED["arm_factor"] / min(1.0, FUNCTIONS[function]["memory_mib"] / ASSUMED["vcpu_mib"])


@lru_cache
def handed_out(rows: int, subscriptions: int, settings: tuple[tuple[str, int], ...]) -> _HandedOut:
    """Hands a plan of so many rows, due in one second, out to subscriptions."""
    world = World(*(f"billing-{number:02d}" for number in range(subscriptions)), **dict(settings))
    ledgers = math.ceil(rows / LEDGER_ROWS)
    for number in range(ledgers):
        bucket = _bucket(number, min(LEDGER_ROWS, rows - number * LEDGER_ROWS), world.state.slot_ms)
        assert world.service.buckets.commit(world.state, bucket, None) is Commit.COMMITTED
    world.clock.set_ms(_DUE_MS - LEAD_S * 1000)
    began_s = time.thread_time()
    done = dispatch(world.service, TOPIC)
    dispatch_s = _on_lambda_s(time.thread_time() - began_s, "dispatch")
    assert done is not None and not done.failures and done.enqueued_parts
    tasks = [job for job in world.service.queues.take_jobs() if isinstance(job, PartTask)]
    assert len(tasks) == done.enqueued_parts
    [(first_slot, _)] = world.service.plans.ranges(TOPIC)
    plan = world.service.plans.read(TOPIC, first_slot)
    assert plan is not None
    sizes = [sum(piece.end_row - piece.first_row for piece in part) for part in plan.parts()]
    # The emulator's CPU time for its queues is no dispatch's: the enqueuing is taken for waiting alone.
    return _HandedOut(
        tasks, sizes, _marks(world, tasks), _costs(world, first_slot), (min(dispatch_s, 30.0), _batch_s())
    )


def _batch_s() -> float:
    return LATENCY_MS["sqs.SendMessageBatch"] / 1000


def _bucket(number: int, rows: int, slot_ms: int) -> Bucket:
    slot, size = _DUE_MS // slot_ms, TopicSettings().segment_rows
    id = bucket_id(slot, f"{number:032x}")
    segments = [
        Segment(
            offset=4 + first * 120,
            length=min(size, rows - first) * 120 - number % 97,
            rows=min(size, rows - first),
            raw_bytes=min(size, rows - first) * 350 + number % 89,
            first_deliver_at_ms=_DUE_MS + 1000 * first // rows,
            last_deliver_at_ms=_DUE_MS + 1000 * min(rows, first + size) // rows - 1,
        )
        for first in range(0, rows, size)
    ]
    return Bucket(
        id=id,
        object_name=ledger_name(TOPIC, id, slot_ms, f"{number * 7919:016x}"),
        size_bytes=rows * 120,
        rows=rows,
        slots=BitMap([slot]),
        segments=tuple(segments),
    )


def _marks(world: World, tasks: list[PartTask]) -> dict[tuple[DeliveryKey, int], Marks]:
    """Returns the items with the parts' marks, with the bytes that a lease and a done part take in them."""
    asked: list[tuple[str, str]] = []
    dynamodb = world.service.dynamodb
    real = dynamodb.update_item

    def update(**request: Any) -> Any:
        asked.append((request["Key"]["pk"]["S"], request["Key"]["sk"]["S"]))
        return real(**request)

    def size(key: tuple[str, str]) -> int:
        return dynamodb.item_bytes({"pk": {"S": key[0]}, "sk": {"S": key[1]}})

    dynamodb.update_item = update  # type: ignore[method-assign]
    items: dict[tuple[str, str], Marks] = {}
    own: dict[tuple[str, str], list[PartTask]] = {}
    found: dict[tuple[DeliveryKey, int], Marks] = {}
    for task in tasks:
        asked.clear()
        world.service.deliveries.release_part(task.key, task.part)
        [key] = asked
        own.setdefault(key, []).append(task)
        items.setdefault(key, Marks(partition=key[0], fixed=size(key), done=0, leased=0))
        found[task.key, task.part] = items[key]
    key, some = max(own.items(), key=lambda each: len(each[1]))
    some = some[-_MARKED:]
    for task in some:
        assert world.service.deliveries.lease_part(task.key, task.part, START_MS, 0)
    leased = (size(key) - items[key].fixed) / len(some)
    for task in some:
        assert world.service.deliveries.part_done(task.key, task.part, now_ms=START_MS)
    done = (size(key) - items[key].fixed) / len(some)
    for each in items.values():
        each.leased, each.done = leased, done
    return found


def _costs(world: World, first_slot: int) -> Costs:
    """Returns what a call needs for the topic state and the plan, at first and then again."""
    units: Counter[str] = Counter()
    dynamodb, objects = world.service.dynamodb, world.service.objects
    real, get_range = dynamodb.get_item, objects.get_range

    def get(**request: Any) -> Any:
        units["reads"] += math.ceil(dynamodb.item_bytes(request["Key"]) / 4096)
        return real(**request)

    def ranged(name: str, *place: int) -> bytes:
        units["gets"] += name.startswith(PLANS)
        return get_range(name, *place)

    dynamodb.get_item, objects.get_range = get, ranged  # type: ignore[method-assign]

    def measured(call: Any) -> tuple[int, int, float]:
        times = []
        for _ in range(5):
            units.clear()
            began_s = time.thread_time()
            call()
            times.append(time.thread_time() - began_s)
        return units["reads"], units["gets"], _on_lambda_s(min(times))

    def read(plans: Plans) -> None:
        plan = plans.read(TOPIC, first_slot)
        assert plan is not None and plan.part_count and plan.parts()

    kept = world.service.plans
    state = measured(lambda: world.service.topic_states.read(TOPIC))
    first, again = measured(lambda: read(Plans(kept._table, objects))), measured(lambda: read(kept))
    return Costs(
        state_reads=state[0],
        plan_reads=first[0],
        known_reads=again[0],
        plan_gets=first[1],
        known_gets=again[1],
        decode_s=first[2],
        known_s=again[2],
    )


def herd(copies: int, topics: int, subscriptions: int, at_one_time: int, **settings: int) -> dict[str, object]:
    """Simulates copies of messages that are due in one second."""
    rows = copies // topics // subscriptions
    out = handed_out(rows, subscriptions, tuple(sorted({"inline_rows": 4000, **settings}.items())))
    parts = []
    for topic in range(topics):
        items: dict[int, Marks] = {}
        for place, task in enumerate(out.tasks):
            its = out.marks[task.key, task.part]
            if id(its) not in items:
                items[id(its)] = Marks(
                    partition=f"{topic} {its.partition}", fixed=its.fixed, done=its.done, leased=its.leased
                )
            comes_s = out.dispatch_s[0] + (place // 10 + 1) * out.dispatch_s[1]
            parts.append(
                Part(
                    marks=items[id(its)],
                    plan=str(topic),
                    partition=f"{topic} T#{TOPIC}",
                    comes_s=comes_s,
                    rows=out.rows[task.part],
                )
            )
    parts.sort(key=lambda part: part.comes_s)
    simulated = Herd(parts, out.costs, at_one_time)
    simulated.run()
    late = sum(part.rows for part in parts if (part.sent_s or 0) > LEAD_S)
    last_s = max(part.sent_s or 0.0 for part in parts)
    return {
        "last_sent_s": round(last_s, 1),
        "late_by_s": round(max(0.0, last_s - LEAD_S), 1),
        "late_share": late / copies,
        "sent_twice": sum(part.rows * part.copies for part in parts),
        "parts": len(parts),
        "write_units_a_part": simulated.write_units / len(parts),
        "items_with_marks": len({id(part.marks) for part in parts}),
    }


def plan_cpu_ms(segments: int) -> dict[str, float]:
    """Returns the CPU time that a call spends on a plan of so many segments, on this machine."""
    costs = handed_out(segments * TopicSettings().segment_rows, 1, (("inline_rows", 4000),)).costs
    slower = _on_lambda_s(1.0)
    return {"first_call_ms": 1000 * costs.decode_s / slower, "next_calls_ms": 1000 * costs.known_s / slower}


def claims_s(copies: int) -> dict[str, float]:
    """Returns how long a table takes the claims of consumers."""
    world = World()
    key = "0" * 26
    assert world.service.claims.claim(
        TOPIC, key, Holder(subscription="billing", generation="g" * 16), START_MS // 1000 + KEPT_S
    )
    [item] = [each for each in world.service.dynamodb.items() if key in each["pk"]["S"]]
    units = copies * math.ceil(world.service.dynamodb.item_bytes(item) / 1024)
    return {"grown_table_s": units / TABLE_WRITES_A_SECOND, "new_table_s": units / NEW_TABLE_WRITES_A_SECOND}


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Simulates each case at the defaults, and some more at other settings."""
    counts, cases = (COPIES[:1], CASES[:1]) if quick else (COPIES, CASES)
    found = {
        f"{copies:,} copies, topics: {topics}, subscriptions: {subscriptions}": herd(
            copies, topics, subscriptions, WORK_CONCURRENCY
        )
        for topics, subscriptions in cases
        for copies in counts
    }
    figures: dict[str, Any] = {"lead_s": LEAD_S, "herds": found}
    if not quick:
        figures["otherwise"] = {
            "10 million, work_concurrency 1,000": herd(10_000_000, 1, 1, 1_000),
            "10 million, part_rows 5,000": herd(10_000_000, 1, 1, WORK_CONCURRENCY, part_rows=5_000),
            "20 million, part_rows 5,000": herd(20_000_000, 1, 1, WORK_CONCURRENCY, part_rows=5_000),
            "20 million, work_concurrency 1,000": herd(20_000_000, 1, 1, 1_000),
            "100 million": herd(100_000_000, 1, 1, WORK_CONCURRENCY),
        }
        figures["plan_cpu"] = {f"{count:,} segments": plan_cpu_ms(count) for count in (2_000, 16_000)}
        ten = found["10,000,000 copies, topics: 1, subscriptions: 1"]
        figures["ten_million_late_by_s"] = ten["late_by_s"]
        figures["ten_million_sent_twice"] = ten["sent_twice"]
        figures["most_write_units_a_part"] = max(each["write_units_a_part"] for each in found.values())  # type: ignore[type-var]
    return figures | {"claims of ten million": claims_s(10_000_000)}
