"""Ctrl-C or the death of its process ends a merge, and loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

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


def merging(stack: LocalTidewheel, folder: Path, lease_s: int) -> subprocess.Popen[str]:
    """Starts a merge in a separate process."""
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.merge_run", stack.endpoint_url, str(folder), str(lease_s)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ledgers_in_s3(stack: LocalTidewheel, folder: Path) -> list[str]:
    """Copies the ledgers, whether a topic names them or not, to a folder. Returns the files."""
    s3, bucket = stack.session.client("s3"), stack.client().core.connection.settings.s3_bucket
    files = []
    for number, each in enumerate(s3.list_objects_v2(Bucket=bucket, Prefix="ledgers/").get("Contents", [])):
        files.append(str(folder / f"{number}.parquet"))
        s3.download_file(bucket, each["Key"], files[-1])
    return files


@pytest.mark.parametrize(
    ("ends", "lease_s", "pause_s"),
    [
        pytest.param(signal.SIGINT, 1_800, 0, id="after Ctrl-C, at once"),
        pytest.param(signal.SIGKILL, 2, 3, id="after a kill, when the lease has ended"),
    ],
)
def test_a_merge_that_is_ended_loses_nothing_and_the_next_run_does_the_rest(
    ends: signal.Signals, lease_s: int, pause_s: int, tmp_path: Path
) -> None:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:  # ahead of the machine's clock by more than a lease
        bodies = backlog(stack)
        run = merging(stack, tmp_path / "run", lease_s)
        ends_s = time.monotonic() + BOUND_S
        while not list((tmp_path / "run").iterdir()):
            assert run.poll() is None and time.monotonic() < ends_s
            time.sleep(0.02)
        os.killpg(run.pid, ends)
        told = run.communicate(timeout=BOUND_S)[0]
        if ends is signal.SIGINT:
            assert "interrupted. No message is lost." in told and run.returncode == 130
        time.sleep(pause_s)
        again = merging(stack, tmp_path / "again", lease_s).communicate(timeout=BOUND_S)[0]
        assert again.count(f"{LEDGERS} ledgers became 1") == len(TOPICS), again

        stack.advance(hours=50)  # the daily work looks at what is a day old
        files = ledgers_in_s3(stack, tmp_path)
        assert len(files) == sum(stack.client().stats(topic).buckets for topic in TOPICS)
        rows = duckdb.execute("select message_id, decode(payload) from read_parquet(?)", [files]).fetchall()
        assert len({id for id, _ in rows}) == len(rows)
        assert Counter(body for _, body in rows) == sum(bodies.values(), Counter[str]())
        stack.advance(days=9)
        assert not stack.failures
        for topic in TOPICS:
            assert Counter(each.body for each in stack.receive(topic, "all")) == bodies[topic]
