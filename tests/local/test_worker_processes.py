"""Workers as processes, which lose the connection, get signals, and leave no messages to the visibility time-out."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.programs import Programs, ended, until
from tests.slow_endpoint import Mode, SlowEndpoint
from tidewheel import Message, ReceivedMessage, Tidewheel
from tidewheel.local import LocalTidewheel

pytestmark = pytest.mark.long

HIDDEN_S = 3600
"""The queue's visibility time-out: what is not given back does not come again within a test."""
PROGRAM = """
import asyncio, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from dataclasses import replace
from tidewheel import Tidewheel, Worker
from tidewheel.client import connection

connection.SDK = replace(connection.SDK, refused=2)  # six tries take five seconds
kind, url, folder, at_once, wait_s, finish_s = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), *sys.argv[4:]
worker = Worker(Tidewheel("toy", endpoint_url=url), wait_s=int(wait_s), finish_s=float(finish_s))

def work(message):
    with (folder / ("begun-" + message.body)).open("a") as file:
        file.write("once")
    while not ("quick" in message.body or (folder / "go").exists()):
        yield 0.01
    (folder / ("done-" + message.body)).touch()

def handle(message):
    for seconds in work(message):
        time.sleep(seconds)

async def handle_async(message):
    for seconds in work(message):
        await asyncio.sleep(seconds)

worker.handles("orders/billing", at_once=int(at_once))(handle_async if kind == "async" else handle)
worker.run()
print("ended")
"""


class World:
    """A service in real time with a slow endpoint, and programs with work on one subscription."""

    def __init__(self, stack: LocalTidewheel, endpoint: SlowEndpoint, folder: Path) -> None:
        self.stack, self.endpoint, self.folder = stack, endpoint, folder
        self.client: Tidewheel = stack.client()
        self.programs = Programs()

    def start(
        self, kind: str = "threads", *, at_once: int = 4, wait_s: int = 1, finish_s: float = 20
    ) -> subprocess.Popen[str]:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        arguments = (kind, self.endpoint.url, str(self.folder), str(at_once), str(wait_s), str(finish_s))
        return self.programs.start(PROGRAM, *arguments, **keys)

    def hide(self, seconds: int) -> None:
        """Sets the queue's visibility time-out."""
        url = self.client.subscriptions("orders")[0].queue_url
        self.client.core.connection.sqs.set_queue_attributes(
            QueueUrl=url, Attributes={"VisibilityTimeout": str(seconds)}
        )

    def send(self, *bodies: str) -> None:
        self.client.send_many("orders", [Message(body=each) for each in bodies])
        until(lambda: self.visible() == len(bodies))

    def visible(self) -> int:
        return self.stack.queue("toy-orders-billing").approximate_number_of_messages

    def seen(self, what: str) -> list[str]:
        return sorted(path.name.partition("-")[2] for path in self.folder.glob(f"{what}-*"))

    def come(self, count: int) -> list[str]:
        """Returns the messages received by another worker, once there are enough, long before the time-out."""
        found: list[str] = []
        until(lambda: found.extend(each.body for each in self.receive()) or len(found) >= count)
        return sorted(found)

    def receive(self) -> list[ReceivedMessage]:
        return self.client.receive("orders", "billing")

    def left(self) -> int:
        return len(self.stack.queue("toy-orders-billing").everything)

    def go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel(stack_name="toy", clock="real") as stack:
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "billing", visibility_timeout_s=HIDDEN_S)
        yield stack


@pytest.fixture
def world(stack: LocalTidewheel, tmp_path: Path) -> Iterator[World]:
    stack.queue("toy-orders-billing").purge()
    with SlowEndpoint(stack.endpoint_url) as endpoint:
        world = World(stack, endpoint, tmp_path)
        world.hide(HIDDEN_S)
        yield world
        world.programs.kill()


# ---- signals


@pytest.mark.parametrize(("kind", "number"), [("threads", signal.SIGTERM), ("async", signal.SIGINT)])
def test_a_signal_gives_back_what_was_not_begun_at_once_and_finishes_what_was(
    world: World, kind: str, number: signal.Signals
) -> None:
    slow = [str(i) for i in range(7)]
    world.send("quick-a", "quick-b", "quick-c", *slow)
    process = world.start(kind)
    until(lambda: len(world.seen("begun")) == 7 and world.visible() < 3, process)  # others wait in the buffer
    process.send_signal(number)
    at_s = time.monotonic()
    rest = world.come(3)  # while the function is still at work
    assert time.monotonic() - at_s < 2
    world.go()
    assert ended(process) == (0, "ended\n", "")
    assert sorted(rest + world.seen("done")) == [*slow, "quick-a", "quick-b", "quick-c"]
    assert world.seen("done") == world.seen("begun")
    assert world.left() == len(rest)  # the other worker has them in hand


@pytest.mark.parametrize("kind", ["threads", "async"])
def test_what_is_not_finished_in_time_ends_with_the_process(world: World, kind: str) -> None:
    world.send("0", "1", "2")
    process = world.start(kind, at_once=3, finish_s=0.5)
    until(lambda: len(world.seen("begun")) == 3, process)
    process.send_signal(signal.SIGTERM)
    at_s = time.monotonic()
    code, shown, errors = ended(process)
    assert (code, shown) == (0, "ended\n") and time.monotonic() - at_s < 6.5
    assert "no time is left for 3 messages" in errors and "Traceback" not in errors
    # A function in another thread cannot be ended: its message waits for its time-out.
    assert world.visible() == (0 if kind == "threads" else 3), errors
    assert world.seen("done") == []


def test_a_second_sigterm_ends_the_process_at_once(world: World) -> None:
    world.send("0")
    process = world.start()
    until(lambda: world.seen("begun"), process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # two signals that are pending together are one
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (-signal.SIGTERM, "", "")


@pytest.mark.parametrize("kind", ["threads", "async"])
def test_what_runs_longer_than_its_time_out_runs_once_and_comes_again_within_one_when_killed(
    world: World, kind: str
) -> None:
    world.hide(5)
    world.send(*(str(i) for i in range(6)))
    process = world.start(kind, at_once=3)
    until(lambda: len(world.seen("begun")) == 3, process)
    until(lambda: world.visible() == 3, process)  # what did not begin within half of the time-out went back
    rest = world.come(3)
    end_s = time.monotonic() + 12
    until(lambda: time.monotonic() > end_s, process)
    held = world.seen("begun")
    again = world.come(3)  # those that the test itself has let go
    assert again == rest and sorted(rest + held) == [str(i) for i in range(6)]
    assert {(world.folder / f"begun-{body}").read_text() for body in held} == {"once"}
    process.kill()
    at_s = time.monotonic()
    while not set(held) <= set(again):
        again += [each.body for each in world.receive()]
        assert time.monotonic() - at_s < 7
    assert ended(process)[2] == ""


def test_a_poll_that_was_begun_is_read_so_that_no_message_goes_to_a_connection_that_nobody_reads(world: World) -> None:
    process = world.start(wait_s=5)
    until(lambda: world.endpoint.count("sqs") > 1, process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)  # the signal is noted within 0.2 s
    world.client.send("orders", "0")
    assert ended(process) == (0, "ended\n", "")
    assert world.come(1) == ["0"] and world.seen("begun") == []


# ---- the connection


@pytest.mark.parametrize(("kind", "mode"), [("threads", Mode.RESET), ("async", Mode.REFUSE)])
def test_a_worker_connects_again_and_says_so_once(world: World, kind: str, mode: Mode) -> None:
    world.go()
    process = world.start(kind)
    until(lambda: world.endpoint.count("sqs") > 3, process)
    world.endpoint.be(mode)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("orders/billing: polls fail, trying until they work: ")
    time.sleep(1)
    world.endpoint.be(Mode.OK)
    world.client.send("orders", "0")
    until(lambda: world.seen("done"), process)
    until(lambda: not world.left(), process)
    process.send_signal(signal.SIGTERM)
    code, shown, errors = ended(process)
    assert (code, shown, errors) == (0, "ended\n", "orders/billing: polls work again\n")


def test_what_was_handled_when_the_connection_was_lost_is_acknowledged_when_it_is_back(world: World) -> None:
    world.send("0", "1", "2")
    process = world.start(at_once=3)
    until(lambda: len(world.seen("begun")) == 3, process)
    world.endpoint.be(Mode.REFUSE)
    world.go()
    assert process.stderr is not None
    process.stderr.readline()
    assert world.left() == 3
    world.endpoint.be(Mode.OK)
    until(lambda: not world.left(), process)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert {(world.folder / f"begun-{body}").read_text() for body in world.seen("done")} == {"once"}


def test_a_worker_that_starts_without_a_connection_waits_for_it(world: World) -> None:
    world.endpoint.be(Mode.REFUSE)
    world.go()
    process = world.start()
    assert process.stderr is not None
    assert process.stderr.readline().startswith("cannot begin yet, trying until AWS answers: ")
    world.endpoint.be(Mode.OK)
    world.client.send("orders", "0")
    until(lambda: world.seen("done"), process)


def test_a_worker_without_a_connection_ends_soon_after_a_signal(world: World) -> None:
    process = world.start()
    until(lambda: world.endpoint.count("sqs") > 1, process)
    world.endpoint.be(Mode.REFUSE)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "ended\n", "")
