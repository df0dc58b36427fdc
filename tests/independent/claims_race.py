"""Consumers and cancels of a claimed topic, in processes that are killed, against the local stack in real time.

    python -m tests.independent.claims_race [--messages 100000] [--seed N]

Sixteen threads of consumers and eight of cancels are in six processes. Every five seconds one of them gets SIGKILL, and
begins again. A consumer notes a message when it is handed out, a cancel notes its answer.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

from tidewheel import Consumer, Message, ReceivedMessage, Tidewheel
from tidewheel.local import LocalTidewheel

TOPIC, SUBSCRIPTION = "orders", "billing"
CONSUMERS, CANCELS, THREADS = 4, 2, 4
KILL_S = 5
_SESSION = {"region_name": "us-east-1", "aws_access_key_id": "local", "aws_secret_access_key": "local"}


def note(path: Path, line: str) -> None:
    """Appends a line with a single write, which a kill does not cut."""
    with path.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def consume(tw: Tidewheel, notes: Path) -> None:
    """Notes each message that is handed out."""

    def handle(message: ReceivedMessage) -> None:
        note(notes, message.id)

    Consumer(tw, TOPIC, SUBSCRIPTION).run(handle, at_once=THREADS)


def cancel(tw: Tidewheel, notes: Path, ids: list[str]) -> None:
    """Cancels messages in an order of its own, and notes each answer. Goes on where it was killed."""
    noted = {line.split()[0] for line in notes.read_text().splitlines()} if notes.exists() else set()
    ids = [each for each in ids if each not in noted]
    random.shuffle(ids)

    def one(message_id: str) -> None:
        answer = tw.cancel(TOPIC, message_id)
        note(notes, f"{message_id} {'cancelled' if answer else 'late'}")

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(one, ids))


class Processes:
    """The processes of a race. One that ends by itself stays ended."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self.running = {name: self._begun(name) for name in ("consume", "cancel") for name in self._names(name)}
        self.kills = 0

    @staticmethod
    def _names(kind: str) -> list[str]:
        return [f"{kind}-{number}" for number in range(CONSUMERS if kind == "consume" else CANCELS)]

    def _begun(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", __spec__.name, "--as", name, self._url, str(self._folder)])

    def kill_one(self, chosen: random.Random) -> None:
        """Kills a process that runs, and begins it anew."""
        name = chosen.choice([name for name, each in self.running.items() if each.poll() is None])
        self.running[name].kill()
        self.running[name].wait()
        self.kills += 1
        self.running[name] = self._begun(name)

    def cancelling(self) -> bool:
        """Whether some process still cancels."""
        return any(self.running[name].poll() is None for name in self._names("cancel"))

    def end(self) -> None:
        """Ends the consumers."""
        for each in self.running.values():
            each.send_signal(signal.SIGTERM)
        for each in self.running.values():
            each.wait()


def race(messages: int, seed: int) -> list[str]:
    """Runs the race. Returns the broken promises."""
    chosen = random.Random(seed)
    with LocalTidewheel(clock="real", slot_s=1, lookahead_s=4) as stack, tempfile.TemporaryDirectory() as made:
        tw, folder = stack.client(), Path(made)
        tw.create_topic(TOPIC, cancel_until="consumed")
        queue = stack.queue(tw.create_subscription(TOPIC, SUBSCRIPTION).queue_url)
        sent = tw.send_many(TOPIC, (Message(body=str(number), delay=5) for number in range(messages)))
        ids = [each.id for each in sent]
        (folder / "ids").write_text("\n".join(ids))
        while len(queue.everything) < messages:
            time.sleep(0.5)
        begin_s, processes = time.monotonic(), Processes(stack.endpoint_url, folder)
        while processes.cancelling() or queue.everything:
            time.sleep(KILL_S)
            processes.kill_one(chosen)
        took_s = time.monotonic() - begin_s
        processes.end()
        answers = [line.split() for each in folder.glob("cancel-*") for line in each.read_text().splitlines()]
        handed = {line for each in folder.glob("consume-*") for line in each.read_text().splitlines()}
        cancelled, late = ({id for id, answer in answers if answer == wanted} for wanted in ("cancelled", "late"))
        unknown = set(ids) - handed - cancelled
        stopped = {each for each in unknown if tw.get(TOPIC, each).cancelled_late}  # its cancel died before its note
    print(
        f"{messages} messages, {processes.kills} kills, {took_s:.0f} s: {len(handed)} handed out, "
        f"{len(cancelled | stopped)} cancelled, {len(late)} answers 'too late'"
    )
    found = [f"{each} was cancelled and handed out" for each in sorted(handed & (cancelled | stopped))]
    found += [f"{each} was neither cancelled nor handed out" for each in sorted(unknown - stopped)]
    return found + [f"{each} was too late to cancel, and not handed out" for each in sorted(late - handed)]


def main() -> int:
    """Runs the race, or a process of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    parser.add_argument("--as", nargs=3, dest="process", metavar=("NAME", "URL", "FOLDER"), help="for its processes")
    given = parser.parse_args()
    if given.process is None:
        print(f"--seed {given.seed}")
        found = race(given.messages, given.seed)
        print("\n".join(found) or "no promise is broken")
        return bool(found)
    name, url, folder = given.process
    tw, notes = Tidewheel("tidewheel", session=boto3.Session(**_SESSION), endpoint_url=url), Path(folder) / name
    if name.startswith("consume"):
        consume(tw, notes)
    else:
        cancel(tw, notes, (Path(folder) / "ids").read_text().split()[int(name[-1]) :: CANCELS])
    return 0


if __name__ == "__main__":
    sys.exit(main())
