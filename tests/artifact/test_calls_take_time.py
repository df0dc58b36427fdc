"""Runs the archives while AWS hangs, throttles or answers late, in real time. Time-outs end calls, as in Lambda.

One topic, or one of its queues, has a fault, and a topic beside it has none. Each fault has topics of its own.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.artifact.cloud import Cloud, Parts
from tests.artifact.slow_services import Fault, SlowServices, of

pytestmark = pytest.mark.long

READERS = ("billing", "audit")
SOON, LATER = "30s", "35m"
FAULTS = [
    pytest.param("DYNAMODB", Fault.THROTTLED, "T#{}", id="a throttled partition"),
    pytest.param("DYNAMODB", Fault.HANGS, "T#{}", id="a partition that hangs"),
    pytest.param("DYNAMODB", Fault.LATE, "T#{}", id="a partition that answers late"),
    pytest.param("SQS", Fault.HANGS, "{}-billing", id="a queue that hangs"),
    pytest.param("SQS", Fault.THROTTLED, "{}-billing", id="a throttled queue"),
    pytest.param("S3", Fault.HANGS, "{}", id="S3 that hangs"),
    pytest.param("S3", Fault.THROTTLED, "{}", id="S3 that is throttled"),
]


class Topics:
    """Two new topics, each with two subscriptions, of a deployed stack. Counts the received messages.

    Attributes:
        sick, well: the name of the topic with the fault, and of its neighbour.
    """

    _numbers = itertools.count(1)

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        number = next(self._numbers)
        self.sick, self.well = f"orders-{number}", f"trials-{number}"
        self.sent: Counter[tuple[str, str]] = Counter()
        self.arrived: Counter[tuple[str, str, str]] = Counter()
        self._failed = len(cloud.functions.failures)
        for topic in (self.sick, self.well):
            cloud.sdk.create_topic(topic)
            for reader in READERS:
                cloud.sdk.create_subscription(topic, reader)

    def send(self, delay: str, count: int = 12) -> None:
        """Sends messages to both topics."""
        for topic in (self.sick, self.well):
            receipts = cloud_send(self.cloud, topic, delay, count)
            self.sent.update((topic, each) for each in receipts)

    def take(self) -> None:
        """Receives all available messages."""
        for topic in (self.sick, self.well):
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
        """The calls ended by a time-out since these topics were made."""
        failures = self.cloud.functions.failures[self._failed :]
        return [each.reason for each in failures if "timed out" in each.reason]


def cloud_send(cloud: Cloud, topic: str, delay: str, count: int) -> list[str]:
    """Sends messages and returns their ids."""
    return [cloud.sdk.send(topic, {"n": number}, delay=delay).id for number in range(count)]


@pytest.fixture(scope="module")
def slow() -> Iterator[SlowServices]:
    """The services between the functions and AWS."""
    with SlowServices() as services:
        yield services


@pytest.fixture(scope="module")
def cloud(parts: Parts, slow: SlowServices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A stack whose functions reach AWS through slow services. It stays warm from one fault to the next."""
    with Cloud(parts, tmp_path_factory.mktemp("cloud"), slow=slow) as deployed:
        yield deployed


def print_longest(cloud: Cloud, name: str) -> None:
    """Prints the longest call so far and the time-out of each function."""
    longest: dict[str, float] = {}
    for each in cloud.functions.measures:
        longest[each.function] = max(longest.get(each.function, 0), each.longest_call_s)
    timeouts = {spec.folder: spec.timeout_s for spec in cloud.functions.specs.values()}
    print(name, {each: f"{seconds:.1f} of {timeouts[each]} s" for each, seconds in sorted(longest.items())})


@pytest.mark.parametrize(("service", "fault", "what"), FAULTS)
def test_one_fault_ends_no_function_and_keeps_nothing_of_others(
    cloud: Cloud, slow: SlowServices, service: str, fault: Fault, what: str
) -> None:
    topics = Topics(cloud)
    topics.send(LATER)
    later = {id for _, id in topics.sent}
    cloud.advance(minutes=20)  # in ledgers, not yet planned
    with slow.fault(service, fault, of(what.format(topics.sick))) as present:
        topics.send(SOON)
        cloud.advance(minutes=1)
        assert {id for topic, _, id in topics.missing(topics.well)} <= later, "direct messages of the neighbour come"
        cloud.advance(minutes=15)
        assert present.requests
        assert not topics.missing(topics.well), "the neighbour's ledgers come"
    cloud.advance(minutes=12)
    print_longest(cloud, f"{service} {fault.name}")
    assert topics.ended == []
    assert not topics.missing(topics.sick, topics.well)
    assert topics.copies == 0
