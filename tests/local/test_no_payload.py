"""No body, attribute or key is in any log or metric, nor in the text of an exception."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import REPOSITORY, TOPIC
from tests.local.marked_run import MARKER
from tests.local.told import Point, documents, points, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The output of a run of `marked_run`."""

    output: str
    logs: list[dict[str, Any]]
    log_text: str
    metrics: list[Point]
    found: dict[str, Any]

    def messages(self) -> Counter[str]:
        return Counter(each["message"] for each in self.logs)


@pytest.fixture(scope="module")
def run() -> Run:
    """The run in a separate process, because loggers are global."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.local.marked_run"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *_, last = done.stdout.splitlines()
    return Run(
        output=done.stdout,
        logs=documents(done.stderr),
        log_text=done.stderr,
        metrics=points(done.stdout),
        found=json.loads(last),
    )


def test_the_run_saw_all_that_can_fail(run: Run) -> None:
    assert run.messages().keys() >= {
        "ingested", "dispatched", "delivered", "swept", "merged", "pack refused", "SQS refused a message for good",
        "the queue refuses: parked", "topic not ingested",
    }  # fmt: skip
    assert {each["service"] for each in run.logs} == {"ingest", "dispatch", "deliver", "sweep", "compact"}
    assert run.found["kept"] == 4, "two that SQS refused, two that ingest refused"
    assert {"Accepted", "Delivered", "Cancelled", "Expired", "Parked", "Failures"} <= {
        point.name for point in run.metrics
    }


def test_no_log_has_what_a_message_holds(run: Run) -> None:
    assert MARKER not in run.log_text


def test_no_metric_has_what_a_message_holds(run: Run) -> None:
    assert MARKER not in "".join(line for line in run.output.splitlines() if '"requests"' in line)


def test_no_exception_that_leaves_a_function_has_what_a_message_holds(run: Run) -> None:
    assert run.found["failures"]
    assert not [each for each in run.found["failures"] if MARKER in each]


def test_a_log_record_says_which_function_topic_slot_bucket_and_call(run: Run) -> None:
    [first, *_] = [each for each in run.logs if each["message"] == "ingested" and "ledger" in each]
    assert first["topic"] == TOPIC and first["ledger"].startswith(f"ledgers/{TOPIC}/")
    assert first["bucket"] in first["ledger"]
    assert first["correlation_id"] and isinstance(first["cold_start"], bool)
    scheduled = [each for each in run.logs if each["message"] == "dispatched" and "slot" in each]
    assert scheduled and all(each["correlation_id"] == f"{TOPIC}.{each['slot']}" for each in scheduled)
    failed = [each for each in run.logs if each["message"] == "task not done"]
    assert all({"topic", "subscription", "slot", "part"} <= each.keys() for each in failed)
    # What one call appended is gone in the next.
    assert all("topic" not in each for each in run.logs if each["service"] == "sweep")


def test_a_message_that_sqs_refuses_for_good_is_logged_by_id_and_code(run: Run) -> None:
    refused = [each for each in run.logs if each["message"] == "SQS refused a message for good"]
    assert {(each["message_id"], each["code"]) for each in refused} == {
        (run.found["refused"], "InvalidMessageContents")
    }


def test_failures_are_counted_and_logged_alike(run: Run) -> None:
    logged = [each for each in run.logs if each["level"] == "ERROR" and "code" not in each]
    logged = [each for each in logged if not each["message"].startswith("cannot be read")]  # a metric of its own
    assert total(run.metrics, "Failures") == len(logged)
