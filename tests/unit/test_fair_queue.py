"""A queue in memory serves quiet groups first, as AWS documents SQS's fair queues."""

from __future__ import annotations

import pytest

from tidewheel.clock import ManualClock
from tidewheel.memory import MemorySqs
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.memory.sqs_queue import MemoryQueue
from tidewheel.memory.sqs_tenants import NOISY_LEAST

START_MS = 1_767_225_600_000


class FairQueue:
    """A queue with its clock. Messages' bodies are the names of their groups."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.sqs = MemorySqs(self.clock)
        self.queue: MemoryQueue = self.sqs.create_queue("q", {"VisibilityTimeout": "100"})

    def put(self, group: str, count: int = 1, *, delay_s: int = 0) -> None:
        for _ in range(count):
            self.queue.put(group, delay_s=delay_s, system_attributes={"MessageGroupId": group})

    def put_without_group(self, body: str, count: int = 1) -> None:
        for _ in range(count):
            self.queue.put(body)

    def take(self, count: int = 1) -> list[MemoryMessage]:
        return self.queue.take(count)

    def bodies(self, count: int = 1) -> list[str]:
        return [each.body for each in self.take(count)]

    def delete(self, messages: list[MemoryMessage]) -> None:
        for each in messages:
            self.queue.delete(each.receipt_handle or "")

    def move_s(self, seconds: float) -> None:
        self.clock.advance_ms(round(seconds * 1000))


@pytest.fixture
def fair() -> FairQueue:
    return FairQueue()


def test_quiet_groups_come_before_a_group_with_a_tenth_and_thirty_of_the_messages_in_flight(fair: FairQueue) -> None:
    fair.put("loud", 100)
    fair.put("quiet-1")
    fair.put("quiet-2")
    assert fair.bodies(NOISY_LEAST) == ["loud"] * NOISY_LEAST
    assert fair.bodies(4) == ["quiet-1", "quiet-2", "loud", "loud"]


def test_a_group_with_a_tenth_of_the_messages_in_flight_or_less_keeps_its_place(fair: FairQueue) -> None:
    for number in range(10):
        fair.put(f"group-{number}", 40)
    assert len(fair.bodies(400)) == 400
    fair.put("group-3")
    fair.put("quiet")
    assert fair.bodies(2) == ["group-3", "quiet"], "40 of 400 messages are not more than a tenth"


def test_of_two_noisy_groups_the_one_with_fewer_messages_in_flight_comes_first(fair: FairQueue) -> None:
    fair.put("louder", 200)
    fair.put("loud", 100)
    assert fair.bodies(60) == ["louder"] * 30 + ["loud"] * 30
    fair.delete([each for each in fair.queue.everything if each.receipt_handle and each.body == "loud"][:2])
    assert fair.bodies(4) == ["loud", "loud", "louder", "loud"]


def test_messages_without_a_group_are_never_noisy_and_stay_in_their_place(fair: FairQueue) -> None:
    fair.put_without_group("flood", 100)
    fair.put("group")
    assert fair.bodies(100) == ["flood"] * 100
    assert fair.bodies() == ["group"]


def test_a_message_whose_visibility_timeout_ended_is_no_longer_in_flight(fair: FairQueue) -> None:
    fair.put("loud", 60)
    assert len(fair.take(30)) == 30
    fair.move_s(100)
    fair.put("quiet")
    assert fair.bodies(31) == ["loud"] * 30 + ["quiet"]


def test_a_message_given_back_at_once_is_no_longer_in_flight_and_a_longer_time_keeps_it_there(fair: FairQueue) -> None:
    fair.put("loud", 31)
    for each in fair.take(30):
        fair.queue.change_visibility(each.receipt_handle or "", 0)
    fair.put("quiet")
    assert fair.bodies(30) == ["loud"] * 30
    for each in fair.queue.everything:
        if each.receipt_handle:
            fair.queue.change_visibility(each.receipt_handle, 1000)
    fair.put("loud")
    fair.move_s(500)
    assert fair.bodies(2) == ["quiet", "loud"]


def test_a_held_message_can_be_purged_moved_and_buried(fair: FairQueue) -> None:
    fair.put("loud", 40)
    fair.take(30)
    assert fair.queue.next_ready_ms() == START_MS, "the next message of the noisy group is held"
    dead = fair.sqs.create_queue("dead")
    assert fair.queue.move_all(lambda _: dead) == 10
    assert [each.group for each in dead.messages] == ["loud"] * 10
    assert fair.bodies() == []
    fair.put("loud")
    fair.queue.purge()
    assert fair.queue.next_ready_ms() is None


def test_every_message_of_many_groups_is_received_once(fair: FairQueue) -> None:
    for number in range(500):
        fair.put(f"group-{number % 7}", delay_s=number % 13)
    received: list[str] = []
    for _ in range(200):
        taken = fair.take(7)
        received += [each.id for each in taken]
        fair.move_s(0.5)
        fair.delete(taken)
    assert len(received) == len(set(received)) == 500
