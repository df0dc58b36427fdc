"""Imports ended by kill -9 or Ctrl-C, and repeated with the same command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.process_memory import tree
from tests.conftest import REPOSITORY
from tidewheel.local import LocalTidewheel

pytestmark = pytest.mark.usefixtures("children")

FILES, ROWS = 25, 5
BOUND_S = 300.0
"""Far above what any step takes."""


def write_files(folder: Path, at: datetime) -> list[str]:
    """Writes files of messages. Returns all bodies."""
    folder.mkdir()
    bodies = [[f"{number} {i}" for i in range(ROWS)] for number in range(FILES)]
    for number, some in enumerate(bodies):
        lines = [
            json.dumps({"deliver_at": (at + timedelta(seconds=i)).isoformat(), "body": text})
            for i, text in enumerate(some)
        ]
        (folder / f"{number}.jsonl").write_text("\n".join(lines))
    return [text for some in bodies for text in some]


def command(stack: LocalTidewheel, folder: Path) -> subprocess.Popen[str]:
    """Runs `tidewheel import` in a separate process group."""
    return subprocess.Popen(
        [
            *(str(Path(sys.executable).with_name("tidewheel")), "--endpoint-url", stack.endpoint_url),
            *("import", "orders", str(folder), "--token", "reminders", "--cores", "2"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "AWS_DEFAULT_REGION": "us-east-1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGINT])
def test_an_import_that_is_ended_while_it_reads_is_done_by_the_same_command_and_each_message_comes_once(
    how: signal.Signals, tmp_path: Path
) -> None:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "mail")
        bodies = write_files(tmp_path / "in", stack.now() + timedelta(days=2))
        first = command(stack, tmp_path / "in")
        ends_s = time.monotonic() + BOUND_S
        while len(below := set(tree(first.pid))) == 1:  # a child begins to read
            assert first.poll() is None and time.monotonic() < ends_s, first.communicate()[0]
        os.kill(first.pid, how)
        said, _ = first.communicate(timeout=BOUND_S)
        assert first.returncode == (-how if how is signal.SIGKILL else 130), said
        assert "Traceback" not in said
        while left := [each for each in below if Path(f"/proc/{each}").exists()]:
            assert time.monotonic() < ends_s, left
            time.sleep(0.02)

        again = command(stack, tmp_path / "in")
        said, _ = again.communicate(timeout=BOUND_S)
        assert again.returncode == 0, said
        assert f"{FILES * ROWS} rows read, {FILES * ROWS} imported" in said, said
        stack.advance(days=3)
        assert Counter(each.body for each in stack.receive("orders", "mail")) == Counter(bodies)


def test_a_command_whose_rows_are_all_rejected_ends_with_code_1(tmp_path: Path) -> None:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        stack.client().create_topic("orders")
        write_files(tmp_path / "in", stack.now())  # too soon
        process = command(stack, tmp_path / "in")
        said, _ = process.communicate(timeout=BOUND_S)
        assert (process.returncode, said.count("too soon")) == (1, 1), said


def test_a_command_that_did_not_import_every_file_ends_with_code_1(tmp_path: Path) -> None:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        stack.client().create_topic("orders")
        bodies = write_files(tmp_path / "in", stack.now() + timedelta(days=2))
        (tmp_path / "in" / "bad.jsonl.gz").write_bytes(b"no gzip")
        process = command(stack, tmp_path / "in")
        said, _ = process.communicate(timeout=BOUND_S)
        assert process.returncode == 1
        assert "bad.jsonl.gz" in said and f"{len(bodies)} imported" in said, said
