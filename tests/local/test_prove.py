"""`tidewheel prove` on the local stack: it holds its bounds, breaks them, and cleans up whatever happens."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.iam.stack import EnforcedTidewheel
from tidewheel.cli.main import app
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import ManualClock
from tidewheel.local import LocalTidewheel
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.prove import proof
from tidewheel.prove.model import starts, units_by_cloudwatch
from tidewheel.prove.trial import Trial

REPORT = (
    "REPORT RequestId: 8f\tDuration: {} ms\tBilled Duration: 9 ms\tMemory Size: 1024 MB\tMax Memory Used: 99 MB\t{}\n"
)


def prove(stack: LocalTidewheel, said: list[str] | None = None, counts: int = 1, **options: Any) -> dict[str, Any]:
    told = [] if said is None else said
    return proof.prove(
        stack.session,
        stack.stack_name,
        None,
        where="local",
        units=lambda: {unit: count * counts for unit, count in stack.requests.units.items()},
        sleep=lambda seconds: stack.advance(seconds=seconds),
        say=told.append,
        **{"wait_s": 0, **options},
    )


def is_clean(stack: LocalTidewheel) -> bool:
    urls = stack.session.client("sqs").list_queues(QueueNamePrefix=f"{stack.stack_name}-prove-")
    return not stack.client().topics() and "QueueUrls" not in urls


def test_a_stack_with_the_rights_of_its_roles_holds_all_bounds_and_leaves_nothing() -> None:
    with EnforcedTidewheel() as stack:
        result = prove(stack)
        assert stack.denials == [] and stack.failures == []
        assert {name for name, calls in stack.invocations.items() if calls} == {
            "ingest",
            "dispatch",
            "deliver",
            "sweep",
        }
        assert is_clean(stack)
    assert (result["broken"], result["sent"], result["left"]) == ([], 2002, [])
    assert json.loads(json.dumps(result)) == result
    lines = list(proof.page(result))
    assert f"{'where':40}local" in lines and f"{'lost':40}0 (at most 0)" in lines
    assert (
        f"{'starts':40}not available" in lines and lines[0] == "passed" and result["units_are"] in ("dearer", "cheaper")
    )
    assert any(line.startswith("healed ") and line.endswith(" s (at most 360 s)") for line in lines)


@pytest.mark.parametrize(("told_late_ms", "broken"), [(10_000, "early"), (-10_000, "late_p99_s")])
def test_bounds_break_if_messages_vanish_or_come_twice_early_or_late_and_no_schedule_is_healed_or_topic_deleted(
    told_late_ms: int, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive, send = Tidewheel.receive, Tidewheel.send_many

    def faulty(self: Tidewheel, topic: str, *arguments: Any, **options: Any) -> list[Any]:
        found = receive(self, topic, *arguments, **options)
        self.delete(topic, "reader", found[1:2])
        return [*found[:1], *found[2:], *found[:1]]

    def shifted(self: Tidewheel, *arguments: Any) -> list[Any]:
        return [replace(each, deliver_at_ms=each.deliver_at_ms + told_late_ms) for each in send(self, *arguments)]

    monkeypatch.setattr(Tidewheel, "receive", faulty)
    monkeypatch.setattr(Tidewheel, "send_many", shifted)
    monkeypatch.setattr(Tidewheel, "delete_topic", lambda *_, **__: None)
    monkeypatch.setattr(Trial, "_deletes_schedule", lambda *_: False)
    with LocalTidewheel() as stack:
        result = prove(stack, counts=2, messages=200)
    assert {"lost", "copies_share", broken, "healed_s", "units_off", "left"} == set(result["broken"])
    assert result["not_read"] == ["healed_s: no schedule could be deleted"] and result["units_are"] == "dearer"
    assert next(proof.page(result)).startswith("failed: lost, ")


def test_units_are_not_judged_while_a_topic_is_being_deleted() -> None:
    with LocalTidewheel() as stack:
        client = stack.client()
        client.create_topic("earlier")
        client.delete_topic("earlier")
        result = prove(stack, counts=2, messages=200)
    assert result["units_off"] == proof.NOT_AVAILABLE and "being deleted" in result["not_read"][0]


def test_eight_threads_receive_at_once_in_real_time() -> None:
    all_wait = Barrier(8)

    def receive(*_: Any, **__: Any) -> list[Any]:
        return [SimpleNamespace(id=f"m{all_wait.wait(60)}")]

    tw: Any = SimpleNamespace(receive=receive, delete=lambda *_: None)
    trial = Trial(tw=tw, clock=CheckedClock(ManualClock(1_000)), sleep=lambda _: None, say=lambda _: None)
    trial.due_ms = {f"m{number}": 400 for number in range(8)}
    assert trial._take(trial.load, 1) and trial._all_came() and trial.late_ms == [600] * 8


@pytest.mark.parametrize("interrupted", ["rest", "first"])
def test_ctrl_c_leaves_nothing_and_the_second_ends_with_the_commands_that_are_left(
    interrupted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    said: list[str] = []
    with LocalTidewheel() as stack:
        monkeypatch.setattr(Trial, interrupted, interrupt)
        with pytest.raises(KeyboardInterrupt):
            prove(stack)
        assert is_clean(stack)
        monkeypatch.setattr(Tidewheel, "delete_topic", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prove(stack, said)
        assert "Ctrl-C leaves this to you: `tidewheel topics delete prove-" in said[-1]


def test_starts_and_units_come_from_lambdas_reports_and_cloudwatch() -> None:
    reports = [
        REPORT.format("812.5", "Init Duration: 1400.25 ms\t"),
        REPORT.format("40.5", ""),
        REPORT.format("42.5", ""),
    ]
    asked: list[Any] = []

    def paginate(**options: Any) -> list[Any]:
        asked.append(options)
        return [{"events": [{"message": each} for each in reports if options["logGroupName"].endswith("/shop-ingest")]}]

    def get_metric_data(**options: Any) -> Any:
        asked.extend(each["Expression"] for each in options["MetricDataQueries"])
        values: dict[str, list[float]] = {"dynamodb_read": [1.5, 2], "dynamodb_write": [7]}
        return {
            "MetricDataResults": [
                {"Id": each["Id"], "Values": values.get(each["Id"], [])} for each in options["MetricDataQueries"]
            ]
        }

    aws = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=paginate), get_metric_data=get_metric_data)
    settings = SimpleNamespace(table="shop-Table", schedule_group="shop")
    connection: Any = SimpleNamespace(stack="shop", client=lambda _: aws, settings=settings)
    trial: Any = SimpleNamespace(messages=2000, created_ms=0, began_ms=60_000, ended_ms=400_000)
    found = starts(connection, trial)
    ingest = {name: found["ingest"][name] for name in ("cold", "cold_ms", "warm", "warm_ms")}
    assert ingest == {"cold": 1, "cold_ms": 1400.25, "warm": 2, "warm_ms": 41.5}
    assert found["ingest"]["cold_ms_by_model"] > 2_000 > found["ingest"]["warm_ms_by_model"] > 20
    assert units_by_cloudwatch(connection, trial) == {"dynamodb.read": 3.5, "dynamodb.write": 7}
    assert any('MetricName="ConsumedWriteCapacityUnits" TableName="shop-Table"' in str(each) for each in asked)


@pytest.mark.parametrize(("broken", "code"), [([], 0), (["lost"], 1)])
def test_the_command_writes_a_file_and_a_page_and_fails_if_a_bound_broke(
    broken: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"where": "emulator", "began": datetime.now(UTC).isoformat(), "lost": 1, "broken": broken}
    given: dict[str, Any] = {}
    monkeypatch.setattr(proof, "prove", lambda *_, **options: given.update(options) or result)
    options = [
        "--endpoint-url",
        "http://emulator:1",
        "--region",
        "eu-west-1",
        "prove",
        "--output",
        str(tmp_path / "its"),
    ]
    done = CliRunner().invoke(app, options, input="y\n", env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    assert (done.exit_code, given["where"]) == (code, "emulator")
    assert json.loads((tmp_path / "its").read_text()) == result and "(at most 0)" in done.output
