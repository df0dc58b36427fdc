"""Workers as processes, which lose the connection, get signals, and leave no messages to the visibility time-out."""

from __future__ import annotations

import json
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
import asyncio, json, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from dataclasses import replace
from tidewheel import Consumer, Tidewheel
from tidewheel.client import connection

connection.SDK = replace(connection.SDK, refused=2)  # six tries take five seconds
kind, url, folder, options = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), json.loads(sys.argv[4])
tw = Tidewheel("toy", endpoint_url=url)
consumer = Consumer(tw, "orders", "billing")

def begin(message):
    (folder / ("begun-" + message.body)).touch()

def handle(message):
    begin(message)
    while not (folder / "go").exists():
        time.sleep(0.01)
    (folder / ("done-" + message.body)).touch()

async def handle_async(message):
    begin(message)
    while not (folder / "go").exists():
        await asyncio.sleep(0.01)
    (folder / ("done-" + message.body)).touch()

if kind == "async":
    asyncio.run(consumer.run_async(handle_async, **options))
else:
    consumer.run(handle, **options)
print("ended")
"""
KINDS = {"one": ("run", 1), "threads": ("run", 3), "async": ("async", 3)}
"""How a worker runs: which part of the program, and how many messages at once."""


class World:
    """A service in real time with a slow endpoint, and programs with work on one subscription."""

    def __init__(self, stack: LocalTidewheel, endpoint: SlowEndpoint, folder: Path) -> None:
        self.stack, self.endpoint, self.folder = stack, endpoint, folder
        self.client: Tidewheel = stack.client()
        self.programs = Programs()

    def start(self, kind: str, **options: float) -> subprocess.Popen[str]:
        program, at_once = KINDS[kind]
        given = {"wait_s": 1, "at_once": at_once, "batch": 10 // at_once} | options
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
        arguments = (program, self.endpoint.url, str(self.folder), json.dumps(given))
        return self.programs.start(PROGRAM, *arguments, **keys)

    def send(self, count: int) -> None:
        self.client.send_many("orders", [Message(body=str(i)) for i in range(count)])

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
        yield world
        world.programs.kill()


# ---- signals


@pytest.mark.parametrize(
    ("kind", "number"),
    [("one", signal.SIGINT), ("threads", signal.SIGTERM), ("async", signal.SIGINT), ("async", signal.SIGTERM)],
)
def test_a_signal_gives_back_what_was_not_begun_at_once_and_finishes_what_was(
    world: World, kind: str, number: signal.Signals
) -> None:
    _, at_once = KINDS[kind]
    world.send(9)
    until(lambda: len(world.stack.queue("toy-orders-billing").everything) == 9)
    process = world.start(kind)
    until(lambda: len(world.seen("begun")) == at_once, process)
    process.send_signal(number)
    rest = world.come(9 - at_once)  # while the function is still at work
    assert sorted(rest + world.seen("begun")) == [str(i) for i in range(9)]
    world.go()
    code, shown, errors = ended(process)
    if (kind, number) == ("async", signal.SIGINT):  # asyncio.run raises KeyboardInterrupt itself
        assert code != 0
    else:
        assert (code, shown, errors) == (0, "ended\n", "")
    assert world.seen("done") == world.seen("begun")
    assert world.left() == len(rest)  # the other worker has them in hand


@pytest.mark.parametrize("kind", ["threads", "async"])
def test_what_is_not_finished_in_time_ends_with_the_process(world: World, kind: str) -> None:
    _, at_once = KINDS[kind]
    world.send(3)
    process = world.start(kind, batch=1, finish_s=0.5)
    until(lambda: len(world.seen("begun")) == at_once, process)
    process.send_signal(signal.SIGTERM)
    code, shown, errors = ended(process)
    assert (code, shown) == (0, "ended\n")
    assert "no time is left for" in errors and "Traceback" not in errors
    # A function in another thread cannot be ended: its message waits for its time-out.
    assert len(world.come(1 if kind == "threads" else 3)) == (1 if kind == "threads" else 3)
    assert world.seen("done") == []


def test_a_second_sigterm_ends_the_process_at_once(world: World) -> None:
    world.send(1)
    process = world.start("one")
    until(lambda: world.seen("begun"), process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # two signals that are pending together are one
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (-signal.SIGTERM, "", "")


def test_a_poll_that_was_begun_is_read_so_that_no_message_goes_to_a_connection_that_nobody_reads(world: World) -> None:
    process = world.start("one", wait_s=5)
    until(lambda: any(each.service == "sqs" for each in world.endpoint.asked), process)
    process.send_signal(signal.SIGTERM)
    world.send(1)
    assert ended(process) == (0, "ended\n", "")
    assert world.come(1) == ["0"] and world.seen("begun") == []


# ---- the connection


@pytest.mark.parametrize(("kind", "mode"), [("one", Mode.RESET), ("async", Mode.REFUSE)])
def test_a_worker_connects_again_and_says_so_once(world: World, kind: str, mode: Mode) -> None:
    world.go()
    process = world.start(kind)
    until(lambda: world.endpoint.count("sqs") > 3, process)
    world.endpoint.be(mode)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("orders/billing: connection lost, trying until it is back: ")
    time.sleep(1)
    world.endpoint.be(Mode.OK)
    world.send(1)
    until(lambda: world.seen("done"), process)
    until(lambda: not world.left(), process)
    process.send_signal(signal.SIGTERM)
    code, shown, errors = ended(process)
    assert (code, shown, errors) == (0, "ended\n", "orders/billing: connected again\n")


def test_what_was_handled_when_the_connection_was_lost_is_acknowledged_when_it_is_back(world: World) -> None:
    world.send(3)
    process = world.start("one")
    until(lambda: world.seen("begun"), process)
    begun = world.seen("begun")
    world.endpoint.be(Mode.REFUSE)
    world.go()
    assert process.stderr is not None
    process.stderr.readline()
    assert world.seen("begun") == begun  # with no connection, nothing more is begun
    assert world.left() == 3
    world.endpoint.be(Mode.OK)
    until(lambda: not world.left(), process)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert world.seen("done") == ["0", "1", "2"]


def test_a_worker_without_a_connection_ends_soon_after_a_signal(world: World) -> None:
    process = world.start("one")
    until(lambda: world.endpoint.count("sqs") > 1, process)
    world.endpoint.be(Mode.REFUSE)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "ended\n", "")
