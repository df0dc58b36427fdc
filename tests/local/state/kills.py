"""Kills a local stack again and again while others send, cancel and receive, and counts what is lost.

    python -m tests.local.state.kills FOLDER [--kills 30] [--every 5 15] [--delays 1 45]

The stack is a process of its own, and so are a sender, a canceller and a receiver for each of two subscriptions. They
write what they were told to files in the folder. Prints one line at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tests.local.state.served import SETTINGS
from tidewheel import Tidewheel
from tidewheel.clock import SystemClock
from tidewheel.errors import TidewheelError

TOPIC, SUBSCRIPTIONS = "orders", ("billing", "audit")
UNANSWERED = (BotoCoreError, ClientError, TidewheelError)
PATIENCE_S = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What came of the messages. A copy of a message for a subscription counts as one.

    Attributes:
        sent, cancelled: messages that the service acknowledged, and cancels of them.
        lost: copies that never came.
        cancelled_came: copies of cancelled messages that came.
        early: copies that came before they were due.
        copies: copies that came again.
        latest_s: how late the latest copy came after both its due time and the last start.
    """

    kills: int
    sent: int
    cancelled: int
    lost: int
    cancelled_came: int
    early: int
    copies: int
    latest_s: float


def client(endpoint: str) -> Tidewheel:
    session = boto3.Session("local", "local", region_name="us-east-1")
    return Tidewheel(session=session, endpoint_url=endpoint)


def send(folder: Path, endpoint: str, least_s: str, most_s: str) -> None:
    """Sends until it is ended. Notes each acknowledged message."""
    tw = client(endpoint)
    with (folder / "sent").open("a") as notes:
        while not (folder / "no more").exists():
            large = random.random() < 0.02
            delay = random.uniform(float(least_s), float(most_s))
            with suppress(*UNANSWERED):
                receipt = tw.send(TOPIC, "x" * (300_000 if large else 20), delay=delay)
                notes.write(f"{receipt.id} {receipt.deliver_at_ms}\n")
                notes.flush()


def cancel(folder: Path, endpoint: str) -> None:
    """Cancels some messages. Notes each acknowledged cancel, and each without an answer."""
    tw = client(endpoint)
    with (folder / "cancelled").open("a") as notes:
        for line in _follow(folder / "sent", folder / "no more"):
            message_id, due_ms = line.split()
            if random.random() > 0.2 or int(due_ms) - SystemClock().now_ms() < 6000:
                continue
            try:
                told = type(tw.cancel(TOPIC, message_id)).__name__
            except UNANSWERED:
                told = "unanswered"
            notes.write(f"{message_id} {told}\n")
            notes.flush()


def receive(folder: Path, endpoint: str, subscription: str) -> None:
    """Receives until it is ended. Notes each message."""
    tw = client(endpoint)
    with (folder / f"received {subscription}").open("a") as notes:
        while not (folder / "enough").exists():
            with suppress(*UNANSWERED):
                messages = tw.receive(TOPIC, subscription, wait_s=2)
                for message in messages:
                    notes.write(f"{message.id} {SystemClock().now_ms()}\n")
                notes.flush()
                tw.delete(TOPIC, subscription, messages)


def _follow(path: Path, end: Path) -> Iterator[str]:
    with path.open() as lines:
        while not end.exists():
            line = lines.readline()
            if line.endswith("\n"):
                yield line
            else:
                lines.seek(lines.tell() - len(line))
                time.sleep(0.2)


def run(folder: Path, kills: int, every_s: Sequence[float], delays_s: Sequence[float]) -> Losses:
    """Runs the stack and the others, and returns what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sent").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    with ExitStack() as everything:

        def start(module: str, *arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", f"tests.local.state.{module}", *arguments]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            everything.callback(process.wait)
            everything.callback(process.kill)
            return process

        def serve() -> subprocess.Popen[str]:
            process = start("served", str(folder / "state"), "--port", str(port))
            assert process.stdout is not None
            assert process.stdout.readline().strip() == endpoint
            return process

        stack = serve()
        tw = client(endpoint)
        tw.create_topic(TOPIC, **SETTINGS)
        for each in SUBSCRIPTIONS:
            tw.create_subscription(TOPIC, each)
        sender = ["send", *map(str, delays_s)]
        for role in (sender, ["cancel"], *(["receive", each] for each in SUBSCRIPTIONS)):
            start("kills", str(folder), "--role", *role, "--endpoint", endpoint)
        for _ in range(kills):
            time.sleep(random.uniform(*every_s))
            stack.send_signal(signal.SIGKILL)
            stack.wait()
            stack = serve()
        time.sleep(every_s[0])
        (folder / "no more").touch()
        started_ms, deadline = SystemClock().now_ms(), time.monotonic() + delays_s[1] + PATIENCE_S
        while _losses(folder, kills, started_ms).lost and time.monotonic() < deadline:
            time.sleep(1)
        time.sleep(5)
        (folder / "enough").touch()
        stack.stdin.close()  # type: ignore[union-attr]
        assert stack.wait() == 0
    return _losses(folder, kills, started_ms)


def _losses(folder: Path, kills: int, started_ms: int) -> Losses:
    due_ms = {each: int(due) for each, due in _read(folder / "sent")}
    told = dict(_read(folder / "cancelled"))
    cancelled = {each for each, answer in told.items() if answer == "Cancelled"}
    wanted = due_ms.keys() - cancelled - {each for each, answer in told.items() if answer == "unanswered"}
    lost = came = early = copies = 0
    latest_ms = 0
    for subscription in SUBSCRIPTIONS:
        received = [(each, int(at)) for each, at in _read(folder / f"received {subscription}")]
        first_ms: dict[str, int] = {}
        for each, at_ms in received:
            first_ms.setdefault(each, at_ms)
        counts = Counter(each for each, _ in received)
        lost += len(wanted - first_ms.keys())
        came += len(cancelled & first_ms.keys())
        early += sum(at_ms < due_ms[each] for each, at_ms in first_ms.items() if each in due_ms)
        copies += sum(count - 1 for count in counts.values())
        late_ms = [at_ms - max(due_ms[each], started_ms) for each, at_ms in first_ms.items() if each in due_ms]
        latest_ms = max(latest_ms, *late_ms, 0)
    return Losses(
        kills=kills,
        sent=len(due_ms),
        cancelled=len(cancelled),
        lost=lost,
        cancelled_came=came,
        early=early,
        copies=copies,
        latest_s=latest_ms / 1000,
    )


def _read(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [(each.partition(" ")[0], each.partition(" ")[2]) for each in lines]


ROLES: dict[str, Callable[..., None]] = {"send": send, "cancel": cancel, "receive": receive}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--every", type=float, nargs=2, default=(5, 15), help="seconds between a start and a kill")
    parser.add_argument("--delays", type=float, nargs=2, default=(1, 45), help="seconds until a message is due")
    parser.add_argument("--role", nargs="+")
    parser.add_argument("--endpoint")
    given = parser.parse_args()
    if given.role:
        ROLES[given.role[0]](given.folder, given.endpoint, *given.role[1:])
    else:
        print(json.dumps(asdict(run(given.folder, given.kills, given.every, given.delays))))


if __name__ == "__main__":
    main()
