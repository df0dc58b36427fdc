"""Measures the road of a message by the files of `src` and `functions` that its calls enter.

The stack is in memory. On AWS, ingest enters five files more, and a client one: the adapters to AWS and the telemetry.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest

import tidewheel
from tests.flows.world import HOUR, World
from tidewheel.local import MemoryTidewheel
from tidewheel.local.memory_functions import MemoryFunctions
from tidewheel.model.plain import PREFIX

SRC = Path(tidewheel.__file__).parent
FUNCTIONS = SRC.parent.parent / "functions"
STAND_INS = ("memory/", "local/")
TOPIC, SUBSCRIPTION = "orders", "billing"
EXCEPTIONS = {
    "cancel", "drain", "keys", "load_index", "occurrences", "parking", "plan_again", "progress", "recur", "refusing",
}  # fmt: skip
"""Files about keys, notes, parks, holds, damage, recurring messages, and indexes that no item can hold."""


def entered(call: Callable[[], object]) -> set[str]:
    """Returns the files of which a call enters a function, without the stand-ins for AWS."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>" and not of_memory(frame.f_back):
            found.add(frame.f_code.co_filename)

    def of_memory(frame: FrameType | None) -> bool:
        return frame is not None and (f"{SRC}/memory/sqs" in frame.f_code.co_filename or of_memory(frame.f_back))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    files = {f"functions/{Path(name).relative_to(FUNCTIONS)}" for name in found if Path(name).is_relative_to(FUNCTIONS)}
    files |= {str(Path(name).relative_to(SRC)) for name in found if Path(name).is_relative_to(SRC)}
    return {each for each in files if not each.startswith(STAND_INS)}


def exceptions(files: set[str]) -> set[str]:
    return {Path(each).stem for each in files if each.startswith("flows/delivery/")} & EXCEPTIONS


class Road:
    """A stack with a topic, which notes the files that the calls of its functions enter.

    Attributes:
        calls: each call's function, with the files.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[str]]] = []
        self.stack = MemoryTidewheel()
        self.client = self.stack.client()
        self.client.create_topic(TOPIC)
        self.client.create_subscription(TOPIC, SUBSCRIPTION, reader="tidewheel")
        for send in (self.send, self.send_plain):  # lazily made caches are there
            send()
            self.stack.advance(hours=2)
        self.received()
        self.client.receive(TOPIC, SUBSCRIPTION)

    def send(self) -> None:
        self.client.send(TOPIC, "x", delay="1h")

    def send_plain(self, **options: str) -> None:
        """Sends as a program does that has SQS alone."""
        given = {"topic": TOPIC, "delay": "1h", **options}
        attributes = {PREFIX + name: {"DataType": "String", "StringValue": value} for name, value in given.items()}
        self.stack.sqs.send_message(QueueUrl="tidewheel_urgent", MessageBody="x", MessageAttributes=attributes)

    def received(self) -> int:
        return len(self.stack.receive(TOPIC, SUBSCRIPTION))

    def until_received(self) -> dict[str, list[set[str]]]:
        """Advances until one message was received. Returns the files of each call, by function."""
        self.calls.clear()
        self.stack.advance(hours=2)
        assert self.received() == 1
        found: dict[str, list[set[str]]] = {}
        for function, files in self.calls:
            found.setdefault(function, []).append(files)
        return found


@pytest.fixture(scope="module")
def road() -> Iterator[Road]:
    made = Road()
    call = MemoryFunctions._call

    def watched(self: MemoryFunctions, function: str, *given: Any) -> Any:
        answers: list[Any] = []
        made.calls.append((function, entered(lambda: answers.append(call(self, function, *given)))))
        return answers[0]

    with patch.object(MemoryFunctions, "_call", watched):
        yield made


def test_a_message_of_the_sdk_enters_few_files_and_no_exception(road: Road) -> None:
    road.client.update_topic(TOPIC, collect_interval_s=86_400)  # else each dispatch also collects
    road.send()
    road.until_received()
    road.client.stats(TOPIC)  # the client knows the topic now, for a minute
    sending = entered(road.send)
    calls = road.until_received()
    [ingest], [dispatch] = calls["ingest"], calls["dispatch"]
    receiving = entered(lambda: road.client.receive(TOPIC, SUBSCRIPTION))
    road.client.update_topic(TOPIC, collect_interval_s=3600)

    assert not exceptions(ingest) and not exceptions(dispatch)
    assert len(sending) <= 16, sorted(sending)
    assert len(ingest) <= 30, sorted(ingest)
    assert len(dispatch) <= 37, sorted(dispatch)
    assert len(receiving) <= 17, sorted(receiving)
    union = sending | ingest | dispatch | receiving
    assert len(union) <= 55, sorted(union)


def test_a_message_of_sqs_alone_becomes_a_pack_and_walks_the_road_of_the_sdk(road: Road) -> None:
    road.send()
    [of_sdk] = road.until_received()["ingest"]
    road.send_plain()
    forwards, ingests = road.until_received()["ingest"]

    assert ingests == of_sdk
    assert not exceptions(forwards) and "flows/delivery/ingest.py" not in forwards
    assert len(forwards) <= 31, sorted(forwards)


def test_a_message_of_sqs_alone_that_is_due_soon_enters_few_files_and_no_exception(road: Road) -> None:
    road.send_plain(delay="16m")
    [ingest] = road.until_received()["ingest"]

    assert not exceptions(ingest)
    assert len(ingest) <= 33, sorted(ingest)


def test_a_sweep_without_work_enters_few_files(road: Road) -> None:
    road.stack.advance(hours=2)
    road.stack._functions.call("sweep", {})

    assert len(road.calls[-1][1]) <= 20, sorted(road.calls[-1][1])


def test_a_message_with_a_key_enters_the_files_of_keys() -> None:
    world = World()

    assert exceptions(entered(lambda: world.send(HOUR, key="cart"))) >= {"keys", "progress"}
