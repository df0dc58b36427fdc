"""Requests that start functions and jobs are queued, and run next."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.toy import Toy
from tidewheel.clock import Clock
from tidewheel.local import LocalTidewheel
from tidewheel.model import prices

ARN = "arn:aws:lambda:us-east-1:123456789012:function:toy-timer"


class Runs:
    """A job runner that records the requested runs."""

    def __init__(self, *errors: Exception) -> None:
        self.runs: list[tuple[str, dict[str, str], str, str, int]] = []
        self._errors = list(errors)

    def __call__(
        self, job: str, arguments: dict[str, str], *, stack_name: str, endpoint_url: str, clock: Clock
    ) -> None:
        self.runs.append((job, arguments, stack_name, endpoint_url, clock.now_ms()))
        if self._errors:
            raise self._errors.pop(0)


def _invoke(toy: Toy, name: str = "toy-timer", payload: bytes = b'{"topic": "t"}', **changes: Any) -> Any:
    request = {"FunctionName": name, "InvocationType": "Event", "Payload": payload, **changes}
    return toy.stack.session.client("lambda").invoke(**request)


def _run_job(toy: Toy, name: str = "toy-merge", **arguments: str) -> str:
    given = {f"--{key}": value for key, value in arguments.items()}
    answer = toy.stack.session.client("glue").start_job_run(JobName=name, Arguments=given)
    return str(answer["JobRunId"])


@pytest.mark.parametrize("name", ["toy-timer", ARN, f"{ARN}:$LATEST"])
def test_an_invoked_function_runs_next_and_not_before(tmp_path: Path, name: str) -> None:
    with Toy(tmp_path) as toy:
        toy.stack.advance(seconds=7)
        assert _invoke(toy, name)["StatusCode"] == 202
        assert toy.calls("timer") == []
        toy.stack.advance()
        assert toy.times("timer") == [7]
        assert [event for _, event, _ in toy.calls("timer")] == [{"topic": "t"}]
        toy.stack.advance(days=1)
        assert len(toy.calls("timer")) == 1
        assert toy.stack.failures == []


def test_a_failing_invocation_is_tried_again_twice(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.answer("timer", *(RuntimeError("down") for _ in range(5)))
        _invoke(toy)
        toy.stack.advance(hours=1)
        assert toy.times("timer") == [0, 60, 180]
        assert [failure.function for failure in toy.stack.failures] == ["timer"] * 3


def test_a_function_that_is_configured_so_is_not_tried_again_whoever_invoked_it(tmp_path: Path) -> None:
    config = {
        "Type": "AWS::Lambda::EventInvokeConfig",
        "Properties": {"FunctionName": {"Ref": "Timer"}, "MaximumRetryAttempts": 0, "Qualifier": "$LATEST"},
    }
    with Toy(tmp_path, resources={"Config": config}) as toy:
        toy.answer("timer", RuntimeError("down"), RuntimeError("down"))
        _invoke(toy)
        toy.schedule("s", "at(2026-01-01T01:00:00)")
        toy.stack.advance(hours=2)
        assert toy.times("timer") == [0, 3600]


def test_what_waits_for_an_answer_is_refused(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        with pytest.raises(ClientError, match="InvocationType='Event'"):
            _invoke(toy, InvocationType="RequestResponse")
        toy.stack.advance(hours=1)
        assert toy.calls("timer") == []


def test_a_payload_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy, pytest.raises(ClientError, match="InvalidRequestContentException"):
        _invoke(toy, payload=b"{")


def test_a_function_or_a_job_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        with pytest.raises(ClientError) as refused:
            _invoke(toy, "toy-nobody")
        assert refused.value.response["Error"]["Code"] == "ResourceNotFoundException"
        with pytest.raises(toy.stack.session.client("glue").exceptions.EntityNotFoundException):
            _run_job(toy, "toy-nothing")


def test_a_job_runs_next_with_its_own_arguments_over_the_default_ones(tmp_path: Path) -> None:
    runs = Runs()
    with Toy(tmp_path, job_runner=runs) as toy:
        toy.stack.advance(seconds=7)
        assert _run_job(toy, topic="orders", level="2") != _run_job(toy, topic="mail")
        assert runs.runs == []
        toy.stack.advance(minutes=1)
        first, second = runs.runs
        arguments = {"--tidewheel-job": "merge_buckets", "--stack": "toy", "--level": "2", "--topic": "orders"}
        assert first == ("merge_buckets", arguments, "toy", toy.stack.endpoint_url, 1767225607000)
        assert second[1] == {**arguments, "--level": "1", "--topic": "mail"}


def test_a_job_run_is_counted_and_has_a_price(tmp_path: Path) -> None:
    with Toy(tmp_path, job_runner=Runs()) as toy:
        toy.stack.requests.clear()
        toy.stack.requests.units.clear()
        _run_job(toy, topic="orders")
        assert not toy.stack.requests
        toy.stack.advance()
        assert dict(toy.stack.requests) == {"glue.StartJobRun": 1}
        assert dict(toy.stack.requests.units) == {"glue.run": 1}
        assert prices.cost(toy.stack.requests.units)["Glue"] == pytest.approx(0.0193, abs=0.0001)


def test_a_job_that_fails_is_a_failure_and_is_not_run_again(tmp_path: Path) -> None:
    runs = Runs(ZeroDivisionError("no rows"))
    with Toy(tmp_path, job_runner=runs) as toy:
        _run_job(toy, topic="orders")
        toy.stack.advance(hours=1)
        [failure] = toy.stack.failures
        assert (failure.function, failure.event, str(failure.error)) == (
            "merge_buckets",
            {"--topic": "orders"},
            "no rows",
        )
        assert len(runs.runs) == 1


def test_a_merge_needs_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("tidewheel.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with LocalTidewheel() as stack:
        client = stack.client()
        client.create_topic("orders")
        for _ in range(3):
            client.send("orders", "hello", delay="1d")
            stack.advance(minutes=6)
        merged = stack.run_job("merge_buckets", topic="orders", all=True)
        assert (merged.sources, merged.outputs, merged.rows) == (3, 1, 3)


def test_what_is_started_runs_after_everything_else_of_that_time(tmp_path: Path) -> None:
    order: list[str] = []

    def run(job: str, arguments: dict[str, str], **_: Any) -> None:
        order.extend(["job"] * (job == "merge_buckets"))

    with Toy(tmp_path, job_runner=run) as toy:
        _run_job(toy)
        toy.module("worker")["calls"] = _Noted(order, "worker")
        toy.send("x")
        toy.stack.advance()
        assert order == ["worker", "job"]


class _Noted(list[Any]):
    def __init__(self, order: list[str], name: str) -> None:
        super().__init__()
        self._order, self._name = order, name

    def append(self, _: Any) -> None:
        self._order.append(self._name)


def test_in_real_time_a_request_wakes_the_pump(tmp_path: Path) -> None:
    runs = Runs()
    with Toy(tmp_path, job_runner=runs, clock="real") as toy:
        _invoke(toy)
        _run_job(toy, topic="orders")
        toy.stack.advance(seconds=0.2)
        assert len(toy.calls("timer")) == 1 and len(runs.runs) == 1


def test_the_packaged_stack_deploys_with_its_jobs() -> None:
    runs = Runs()
    with LocalTidewheel(job_runner=runs) as stack:
        outputs = stack.session.client("cloudformation").describe_stacks(StackName="tidewheel")["Stacks"][0]["Outputs"]
        values = {output["OutputKey"]: output["OutputValue"] for output in outputs}
        assert values["MergeJob"] == "tidewheel-merge"
        assert values["AlarmTopicArn"].startswith("arn:aws:sns:us-east-1:")
        glue = stack.session.client("glue")
        for name in ("merge", "rebuild", "import"):
            glue.start_job_run(JobName=f"tidewheel-{name}", Arguments={"--topic": "orders"})
        stack.advance()
        assert [run[0] for run in runs.runs] == ["merge_buckets", "rebuild_index", "import_messages"]
        assert {run[1]["--stack"] for run in runs.runs} == {"tidewheel"}
        assert stack.failures == []
