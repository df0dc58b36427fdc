"""Runs the archives while AWS hangs, throttles or answers late, in real time. Time-outs end calls, as in Lambda.

One topic, or one of its queues, has a fault, and `trials` beside it has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.artifact.cloud import Cloud, Parts
from tests.artifact.slow_services import Fault, SlowServices, of

pytestmark = pytest.mark.long

TOPICS = ("orders", "trials")
READERS = ("billing", "audit")
SOON, LATER = "30s", "35m"
FAULTS = [
    pytest.param("DYNAMODB", Fault.THROTTLED, "T#orders", id="a throttled partition"),
    pytest.param("DYNAMODB", Fault.HANGS, "T#orders", id="a partition that hangs"),
    pytest.param("DYNAMODB", Fault.LATE, "T#orders", id="a partition that answers late"),
    pytest.param("SQS", Fault.HANGS, "orders-billing", id="a queue that hangs"),
    pytest.param("SQS", Fault.THROTTLED, "orders-billing", id="a throttled queue"),
    pytest.param("S3", Fault.HANGS, "orders", id="S3 that hangs"),
    pytest.param("S3", Fault.THROTTLED, "orders", id="S3 that is throttled"),
]


class Service:
    """A deployed stack with two topics, each with two subscriptions. Counts the received messages."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.sent: Counter[tuple[str, str]] = Counter()
        self.arrived: Counter[tuple[str, str, str]] = Counter()
        for topic in TOPICS:
            cloud.sdk.create_topic(topic)
            for reader in READERS:
                cloud.sdk.create_subscription(topic, reader)

    def send(self, delay: str, count: int = 12) -> None:
        """Sends messages to both topics."""
        for topic in TOPICS:
            receipts = cloud_send(self.cloud, topic, delay, count)
            self.sent.update((topic, each) for each in receipts)

    def take(self) -> None:
        """Receives all available messages."""
        for topic in TOPICS:
            for reader in READERS:
                messages = self.cloud.sdk.receive(topic, reader, max_messages=1000)
                if messages:
                    self.cloud.sdk.delete(topic, reader, messages)
                self.arrived.update((topic, reader, each.id) for each in messages)

    def missing(self, *topics: str) -> Counter[tuple[str, str, str]]:
        """Returns the sent messages not yet received."""
        self.take()
        wanted = Counter((topic, reader, id) for topic, id in self.sent for reader in READERS if topic in topics)
        return wanted - self.arrived

    @property
    def copies(self) -> int:
        """How many messages arrived again."""
        return sum(self.arrived.values()) - len(self.arrived)

    @property
    def ended(self) -> list[str]:
        """The calls ended by a time-out."""
        return [each.reason for each in self.cloud.functions.failures if "timed out" in each.reason]


def cloud_send(cloud: Cloud, topic: str, delay: str, count: int) -> list[str]:
    """Sends messages and returns their ids."""
    return [cloud.sdk.send(topic, {"n": number}, delay=delay).id for number in range(count)]


@contextmanager
def deployed(parts: Parts, folder: Path, slow: SlowServices) -> Iterator[Service]:
    """Deploys a stack whose functions reach AWS through slow services."""
    with slow, Cloud(parts, folder, slow=slow) as cloud:
        yield Service(cloud)


def print_longest(cloud: Cloud, name: str) -> None:
    """Prints the longest call and the time-out of each function."""
    longest: dict[str, float] = {}
    for each in cloud.functions.measures:
        longest[each.function] = max(longest.get(each.function, 0), each.longest_call_s)
    timeouts = {spec.folder: spec.timeout_s for spec in cloud.functions.specs.values()}
    print(name, {each: f"{seconds:.1f} of {timeouts[each]} s" for each, seconds in sorted(longest.items())})


@pytest.mark.parametrize(("service", "fault", "what"), FAULTS)
def test_one_fault_ends_no_function_and_keeps_nothing_of_others(
    parts: Parts, tmp_path: Path, service: str, fault: Fault, what: str
) -> None:
    slow = SlowServices()
    with deployed(parts, tmp_path, slow) as world:
        cloud = world.cloud
        world.send(LATER)
        later = {id for _, id in world.sent}
        cloud.advance(minutes=20)  # in ledgers, not yet planned
        with slow.fault(service, fault, of(what)) as present:
            world.send(SOON)
            cloud.advance(minutes=1)
            assert {id for topic, _, id in world.missing("trials")} <= later, "direct messages of the neighbour come"
            cloud.advance(minutes=15)
            assert present.requests
            assert not world.missing("trials"), "the neighbour's ledgers come"
        cloud.advance(minutes=12)
        print_longest(cloud, f"{service} {fault.name}")
        assert world.ended == []
        assert not world.missing(*TOPICS)
        assert world.copies == 0
