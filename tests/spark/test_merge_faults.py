"""Merges with real faults, such as killed drivers and executors, speculative copies, concurrent runs and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.process_memory import tree
from tests.conftest import REPOSITORY
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message

TOPICS = ("orders", "mail", "trials")
LEDGERS = 6
BOUND_S = 300.0
"""Far above what any step takes."""


class Backlog:
    """A stack with small ledgers in several topics, ahead of the machine's clock by more than a lease."""

    def __init__(self, stack: LocalTidewheel) -> None:
        self.stack = stack
        self.client = stack.client()
        self.runs: list[Run] = []
        self.bodies: dict[str, Counter[str]] = {topic: Counter() for topic in TOPICS}
        for topic in TOPICS:
            self.client.create_topic(topic)
            self.client.create_subscription(topic, "all")
        for number in range(LEDGERS):
            for topic in TOPICS:
                texts = [f"{topic} {number} {i}" for i in range(5)]
                self.client.send_many(
                    topic, [Message(body=text, delay=timedelta(days=9, hours=i)) for i, text in enumerate(texts)]
                )
                self.bodies[topic].update(texts)
            stack.advance(minutes=10)

    def names(self) -> set[str]:
        """Returns the names of all ledgers in S3."""
        s3 = self.stack.session.client("s3")
        [bucket] = [
            each["Name"]
            for each in s3.list_buckets()["Buckets"]
            if s3.list_objects_v2(Bucket=each["Name"], Prefix="ledgers/").get("KeyCount")
        ]
        return {each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix="ledgers/")["Contents"]}

    def ledgers(self) -> dict[str, int]:
        """Returns how many ledgers each topic has."""
        return {topic: self.client.stats(topic).buckets for topic in TOPICS}

    def assert_whole(self) -> None:
        """Asserts that each message arrives once, and that no unreferenced ledger is left a day later."""
        self.stack.advance(hours=50)  # the daily work looks at what is a day old
        assert len(self.names()) == sum(self.ledgers().values())
        self.stack.advance(days=9)
        assert not self.stack.failures
        for topic in TOPICS:
            assert Counter(each.body for each in self.stack.receive(topic, "all")) == self.bodies[topic]


@pytest.fixture
def backlog() -> Iterator[Backlog]:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        backlog = Backlog(stack)
        yield backlog
        for run in backlog.runs:
            with suppress(ProcessLookupError):
                os.killpg(run.process.pid, signal.SIGKILL)


class Run:
    """A merge in a separate process."""

    def __init__(self, backlog: Backlog, where: str, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.merge_run", backlog.stack.endpoint_url, where, str(folder)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        backlog.runs.append(self)

    @property
    def written(self) -> list[int]:
        """The processes of the tasks with written output, in order."""
        return [int(path.name.partition("-")[2]) for path in sorted(self._folder.glob("*-*"))]

    def wait_until_written(self) -> None:
        """Waits until a task has written output."""
        ends_s = time.monotonic() + BOUND_S
        while not self.written:
            assert self.process.poll() is None and time.monotonic() < ends_s, self.output()
            time.sleep(0.02)

    def output(self) -> str:
        """Waits for the end, and returns all output."""
        return self.process.communicate(timeout=BOUND_S)[0]


def test_after_a_killed_driver_the_next_run_does_the_rest(backlog: Backlog, tmp_path: Path) -> None:
    run = Run(backlog, "threads", tmp_path / "run")
    run.wait_until_written()
    run.process.kill()
    run.output()
    assert backlog.stack.run_job("merge_buckets", all=True).merges
    assert backlog.ledgers() == dict.fromkeys(TOPICS, 1)
    backlog.assert_whole()


def test_ctrl_c_ends_a_merge_and_the_next_run_begins_at_once(backlog: Backlog, tmp_path: Path) -> None:
    run = Run(backlog, "threads", tmp_path / "run")
    run.wait_until_written()
    os.killpg(run.process.pid, signal.SIGINT)
    assert "interrupted. No message is lost." in run.output()
    assert run.process.returncode == 130
    again = Run(backlog, "threads", tmp_path / "again")
    assert again.output().count("6 ledgers became 1") == len(TOPICS)
    backlog.assert_whole()


def test_of_two_runs_at_once_each_topic_is_merged_by_one(backlog: Backlog, tmp_path: Path) -> None:
    runs = [Run(backlog, "threads", tmp_path / str(i)) for i in range(2)]
    said = "".join(run.output() for run in runs)
    assert [run.process.returncode for run in runs] == [0, 0], said
    assert said.count("6 ledgers became 1") == len(TOPICS)
    backlog.assert_whole()


def test_a_task_of_a_killed_executor_runs_again_and_leaves_an_orphan_only(backlog: Backlog, tmp_path: Path) -> None:
    run = Run(backlog, "cluster", tmp_path / "run")
    run.wait_until_written()
    os.kill(executor_of(run.process.pid, run.written[0]), signal.SIGKILL)
    said = run.output()
    assert run.process.returncode == 0, said
    assert said.count("6 ledgers became 1") == len(TOPICS), said
    assert_one_output_twice(run, backlog)


def test_of_a_task_and_its_speculative_copy_one_output_is_taken(backlog: Backlog, tmp_path: Path) -> None:
    run = Run(backlog, "speculation", tmp_path / "run")
    said = run.output()
    assert run.process.returncode == 0, said
    assert said.count("6 ledgers became 1") == len(TOPICS), said
    assert_one_output_twice(run, backlog)


def assert_one_output_twice(run: Run, backlog: Backlog) -> None:
    """Asserts that a task wrote its output twice, and that the unused copy is deleted a day later."""
    assert len(run.written) == len(TOPICS) + 1
    assert len(backlog.names()) > sum(backlog.ledgers().values())
    backlog.assert_whole()


def executor_of(root: int, worker: int) -> int:
    """Returns the executor of a Python worker below a process."""
    [found] = [
        process
        for process in tree(root)
        if "CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_text(errors="replace")
        and worker in tree(process)
    ]
    return found
