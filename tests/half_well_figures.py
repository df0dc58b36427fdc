"""Prints the effects of lasting faults on the faulty resource and on the neighbours.

    python -m tests.half_well_figures

Each row is a `MemoryTidewheel` with default settings, two topics with two subscriptions, one fault, and two days. The
neighbours are the topic `trials` where `orders` has the fault, and also `audit` of `orders` where `billing` has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import count
from typing import Any

from tests.half_well import HalfWell
from tests.stored import stored
from tidewheel import Message
from tidewheel.flows.ports.queues import Refusal, Release
from tidewheel.local import MemoryTidewheel
from tidewheel.model.received import ReceivedMessage

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
SOON = tuple(MINUTE_S + i * 28 * MINUTE_S // 500 for i in range(500))
LATER = tuple(2 * HOUR_S + i * HOUR_S // 500 for i in range(500))
Fault = Callable[[MemoryTidewheel, HalfWell], object]
Batch = Sequence[tuple[Release, int]]


class Of(Enum):
    """The resource with a fault."""

    SUBSCRIPTION = auto()
    TOPIC = auto()
    SERVICE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table, with a fault.

    Attributes:
        delays_s: when the messages of each topic are due after they were sent.
        lasts_s: how long the fault lasts.
        of: what has the fault: the subscription `billing` of `orders`, the topic `orders`, or the service.
        before: whether the messages are in ledgers before the fault begins.
        portions: how many sends there are, and ledgers of what is due later.
        readers: how many subscriptions `orders` has.
    """

    name: str
    fault: Fault
    delays_s: tuple[int, ...] = LATER
    lasts_s: int = 0
    of: Of = Of.SERVICE
    before: bool = False
    portions: int = 1
    readers: int = 2


def refused(calls: str) -> Callable[[int], Fault]:
    """Refuses calls of a port."""
    return lambda lasts_s: lambda _, faults: faults.refuse(calls, minutes=lasts_s / 60)


def throttled(every: int) -> Callable[[int], Fault]:
    """Refuses every so many batches for the queue of `billing` of `orders`."""

    def begin(stack: MemoryTidewheel, faults: HalfWell, lasts_s: int) -> None:
        url, numbers = _url(stack), count()
        refusals = [Refusal(i, False, "RequestThrottled", "too many requests", True) for i in range(10)]
        faults.refuse(
            "queues.send",
            minutes=lasts_s / 60,
            applies=lambda queue_url, _: queue_url == url and next(numbers) % every == 0,
            instead=lambda _, batch: refusals[: len(batch)],
        )

    return lambda lasts_s: lambda stack, faults: begin(stack, faults, lasts_s)


def never_taken(stack: MemoryTidewheel, faults: HalfWell) -> None:
    """Lets the queue of `billing` refuse two messages for ever."""
    url = _url(stack)

    def take(queue_url: str, batch: Batch) -> list[Refusal]:
        bad = [i for i, (release, _) in enumerate(batch) if release.text in {"17", "42"}]
        if len(bad) < len(batch):
            stack.service.queues.send(queue_url, [each for i, each in enumerate(batch) if i not in bad])
        return [Refusal(i, False, "InternalError", "no") for i in bad]

    faults.refuse("queues.send", applies=lambda queue_url, _: queue_url == url, instead=take)


def bit_flipped(stack: MemoryTidewheel, _: HalfWell) -> None:
    """Flips a bit in the first ledger of `orders`."""
    objects = stack.service.objects
    first = next(iter(objects.list("ledgers/orders/")))
    data = bytearray(objects.get_range(first.name, 0, first.size_bytes))
    data[len(data) // 4] ^= 1
    objects.put(first.name, bytes(data))


def gone(stack: MemoryTidewheel, _: HalfWell) -> None:
    """Deletes the first ledger of `orders`."""
    stack.service.objects.delete([next(iter(stack.service.objects.list("ledgers/orders/"))).name])


def no_queue(stack: MemoryTidewheel, _: HalfWell) -> None:
    """Deletes the queue of `billing` of `orders`."""
    stack.sqs.delete_queue(QueueUrl=_url(stack))


def no_filter(stack: MemoryTidewheel, _: HalfWell) -> None:
    """Gives `billing` an unreadable filter."""
    items = stored(stack.service).of("orders").subscriptions
    items["billing"] = replace(items["billing"], filter_policy='{"kind": [{"like": "newer"}]}')


def foreign(stack: MemoryTidewheel, _: HalfWell) -> None:
    """Puts messages of another program into the queues of ingest."""
    for number in range(100):
        for queue in ("tidewheel_urgent", "tidewheel_bulk"):
            stack.sqs.send_message(QueueUrl=queue, MessageBody=f"not ours {number}")


def skewed(skew_ms: int) -> Fault:
    """Gives one of four machines a wrong clock."""
    return lambda _, faults: faults.skew(0, 0, 0, skew_ms)


def repeated(stack: MemoryTidewheel, _: HalfWell) -> None:
    """Lets SQS redeliver each pack of the bulk queue twice after the first receipt."""
    queue = stack.queue("tidewheel_bulk")
    packs = [(each.body, each.message_attributes) for each in queue.everything]
    for _ in range(2):
        stack.advance(minutes=6)
        for body, attributes in packs:
            queue.put(body, attributes)


def _url(stack: MemoryTidewheel) -> str:
    return next(each.queue_url for each in stack.client().subscriptions("orders") if each.name == "billing")


def lasting(name: str, fault: Callable[[int], Fault], lasts_s: int, **options: Any) -> Row:
    """Returns the row of a fault with an end, not exactly at a minute."""
    return Row(name=name, fault=fault(lasts_s + 17), lasts_s=lasts_s + 17, **options)


ROWS = (
    Row(name="nothing fails", fault=lambda *_: None, delays_s=SOON + LATER),
    lasting("the scheduler refuses for 30 minutes", refused("wheel.schedule"), 30 * MINUTE_S, delays_s=SOON),
    lasting("the scheduler refuses for a day", refused("wheel.schedule"), DAY_S),
    lasting(
        "one queue refuses every second batch, 4 hours", throttled(2), 4 * HOUR_S, of=Of.SUBSCRIPTION, delays_s=SOON
    ),
    lasting("the same from ledgers, 24 hours", throttled(2), DAY_S, of=Of.SUBSCRIPTION, before=True, portions=5),
    lasting("one queue refuses all, 14 hours", throttled(1), 14 * HOUR_S, of=Of.SUBSCRIPTION, delays_s=SOON),
    Row(name="one queue never takes two messages", fault=never_taken, delays_s=SOON, of=Of.SUBSCRIPTION),
    Row(name="one queue is deleted", fault=no_queue, of=Of.SUBSCRIPTION),
    Row(name="one subscription's filter cannot be read", fault=no_filter, of=Of.SUBSCRIPTION, delays_s=SOON),
    Row(name="one bit of one ledger of five is wrong", fault=bit_flipped, of=Of.TOPIC, before=True, portions=5),
    Row(name="one ledger of five is gone", fault=gone, of=Of.TOPIC, before=True, portions=5),
    lasting("S3 refuses PUT for 40 minutes", refused("objects.put"), 40 * MINUTE_S, delays_s=SOON + LATER),
    lasting("S3 refuses GET for 3 hours", refused("objects.get*"), 3 * HOUR_S, before=True, portions=5),
    lasting("the work queue refuses for an hour", refused("queues.enqueue_*"), HOUR_S, delays_s=SOON[:100], readers=50),
    Row(name="200 messages of another program", fault=foreign),
    Row(
        name="one machine's clock of four is 4 minutes ahead", fault=skewed(240_000), delays_s=SOON + LATER, portions=10
    ),
    Row(
        name="one machine's clock of four is 4 minutes behind",
        fault=skewed(-240_000),
        delays_s=SOON + LATER,
        portions=10,
    ),
    Row(name="one machine's clock of four is 1.5 s ahead", fault=skewed(1_500), delays_s=SOON + LATER, portions=10),
    Row(name="each pack comes three times", fault=repeated, before=True),
    Row(name="1,000 subscriptions", fault=lambda *_: None, of=Of.TOPIC, delays_s=SOON[:20], readers=1000),
)


@dataclass(slots=True)
class Came:
    """The messages received by some subscriptions."""

    wanted: int
    bodies: Counter[tuple[str, str, str]]
    late_s: list[float]
    after_s: float = 0.0

    @property
    def messages(self) -> str:
        """The number of received and sent messages, and the largest number of copies."""
        most = max(self.bodies.values(), default=0)
        return f"{len(self.bodies):,} of {self.wanted:,}" + (f" in {self.bodies.total():,} copies" if most > 1 else "")


def measure(row: Row) -> tuple[Came, Came, int]:
    """Returns the messages received at the fault and at the neighbours, and the functions' calls."""
    faults = HalfWell()
    stack = MemoryTidewheel(wrap=faults)
    client = stack.client()
    readers = [("orders", "billing"), ("orders", "audit"), ("trials", "billing"), ("trials", "audit")]
    readers += [("orders", f"reader{number}") for number in range(row.readers - 2)]
    for topic in ("orders", "trials"):
        client.create_topic(topic)
    for topic, name in readers:
        client.create_subscription(topic, name)
    if not row.before:
        row.fault(stack, faults)
    for portion in range(row.portions):
        messages = [Message(body=str(i), delay=delay) for i, delay in enumerate(row.delays_s)]
        for topic in ("orders", "trials"):
            client.send_many(topic, messages[portion :: row.portions])
        if row.portions > 1:
            stack.advance(minutes=6, seconds=10)
    if row.before:
        row.fault(stack, faults)
    healed = stack.now().timestamp() + row.lasts_s
    faulty_of = {Of.SUBSCRIPTION: readers[:1], Of.TOPIC: [each for each in readers if each[0] == "orders"]}
    touched = set(faulty_of.get(row.of, readers))
    number = len(row.delays_s)
    faulty = Came(number * len(touched), Counter(), [])
    healthy = Came(number * (len(readers) - len(touched)), Counter(), [])
    for _ in range(48):
        stack.advance(hours=1)
        for reader in readers:
            came = faulty if reader in touched else healthy
            for message in _received(stack, reader):
                came.bodies[(*reader, message.body)] += 1
                assert message.visible_at is not None
                visible, due = message.visible_at.timestamp(), message.deliver_at.timestamp()
                came.late_s.append(visible - due)
                if visible > healed:
                    came.after_s = max(came.after_s, visible - max(due, healed))
    return faulty, healthy, sum(stack.invocations.values())


def _received(stack: MemoryTidewheel, reader: tuple[str, str]) -> Iterator[ReceivedMessage]:
    try:
        yield from stack.receive(*reader)
    except Exception:  # its queue is gone
        return


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < 10 else f"{value:,.0f}"


def main() -> None:
    """Prints the table."""
    print(
        "| fault | came | latest, s | after the fault, s | neighbours: came; p50, p99, latest, s | calls of functions |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for row in ROWS:
        faulty, healthy, calls = measure(row)
        late = sorted(healthy.late_s)
        latest = _seconds(max(faulty.late_s)) if faulty.late_s else "-"
        after = _seconds(faulty.after_s) if row.lasts_s else "-"
        neighbours = "-"
        if late:
            quantiles = late[len(late) // 2], late[len(late) * 99 // 100], late[-1]
            neighbours = f"{healthy.messages}; {', '.join(map(_seconds, quantiles))}"
        print(f"| {row.name} | {faulty.messages} | {latest} | {after} | {neighbours} | {calls:,} |", flush=True)


if __name__ == "__main__":
    main()
