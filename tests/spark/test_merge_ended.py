"""Ctrl-C ends a merge, and loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.conftest import REPOSITORY
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message

TOPICS = ("orders", "mail", "trials")
LEDGERS = 6
BOUND_S = 300.0
"""Far above what any step takes."""


def backlog(stack: LocalTidewheel) -> dict[str, Counter[str]]:
    """Sends messages into small ledgers of several topics. Returns each topic's bodies."""
    client, bodies = stack.client(), {topic: Counter[str]() for topic in TOPICS}
    for topic in TOPICS:
        client.create_topic(topic)
        client.create_subscription(topic, "all")
    for number in range(LEDGERS):
        for topic in TOPICS:
            texts = [f"{topic} {number} {i}" for i in range(5)]
            messages = [Message(body=text, delay=timedelta(days=9, hours=i)) for i, text in enumerate(texts)]
            client.send_many(topic, messages)
            bodies[topic].update(texts)
        stack.advance(minutes=10)
    return bodies


def merging(stack: LocalTidewheel, folder: Path) -> subprocess.Popen[str]:
    """Starts a merge in a separate process."""
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.merge_run", stack.endpoint_url, str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ledgers_in_s3(stack: LocalTidewheel) -> int:
    """Counts the ledgers, whether a topic names them or not."""
    s3, bucket = stack.session.client("s3"), stack.client().core.connection.settings.s3_bucket
    return len(s3.list_objects_v2(Bucket=bucket, Prefix="ledgers/").get("Contents", []))


def test_ctrl_c_ends_a_merge_and_the_next_run_begins_at_once(tmp_path: Path) -> None:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:  # ahead of the machine's clock by more than a lease
        bodies = backlog(stack)
        run = merging(stack, tmp_path / "run")
        ends_s = time.monotonic() + BOUND_S
        while not list((tmp_path / "run").iterdir()):
            assert run.poll() is None and time.monotonic() < ends_s
            time.sleep(0.02)
        os.killpg(run.pid, signal.SIGINT)
        assert "interrupted. No message is lost." in run.communicate(timeout=BOUND_S)[0]
        assert run.returncode == 130
        again = merging(stack, tmp_path / "again").communicate(timeout=BOUND_S)[0]
        assert again.count(f"{LEDGERS} ledgers became 1") == len(TOPICS), again

        stack.advance(hours=50)  # the daily work looks at what is a day old
        assert ledgers_in_s3(stack) == sum(stack.client().stats(topic).buckets for topic in TOPICS)
        stack.advance(days=9)
        assert not stack.failures
        for topic in TOPICS:
            assert Counter(each.body for each in stack.receive(topic, "all")) == bodies[topic]
