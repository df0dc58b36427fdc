"""Runs two releases of the archives for days, and detects faults planted in an archive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.artifact.cloud import Cloud, Parts
from tests.artifact.figures import print_figures
from tests.artifact.oracle import Oracle, Verdict
from tests.artifact.parts import two_releases, with_handler, without_documentation
from tests.artifact.scenario import MINUTE_MS, Plan, Scenario, spread
from tests.artifact.service import ArtifactService
from tests.conftest import REPOSITORY, real_messages
from tidewheel.model.message import Message

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

DAYS = Plan(samples=spread(real_messages(), 1200), hours=30, clusters=12, waves=18, wave_minutes=95, large_bodies=6)
ROLLING = Plan(samples=spread(real_messages(), 400), hours=4, clusters=8, waves=12, wave_minutes=8)
READER = ("orders", "billing")


def test_days_of_real_messages_arrive_once_and_in_time(parts: Parts, tmp_path: Path) -> None:
    began = time.monotonic()
    with Cloud(parts, tmp_path) as cloud:
        verdict = Scenario(ArtifactService(cloud), DAYS).run()
        print_figures(cloud, verdict, began)
        functions = cloud.functions
        assert (verdict.faults, functions.failures) == ({}, [])
        assert verdict.arrived == verdict.copies > 2400
        assert functions.calls.keys() == {"ingest", "dispatch", "deliver", "sweep", "compact"}
        assert len(cloud.schedules.lost) == DAYS.lost_schedules


def test_two_releases_at_work_on_one_topic_lose_nothing(parts: Parts, tmp_path: Path) -> None:
    began = time.monotonic()
    (tmp_path / "logs").mkdir()
    with Cloud(two_releases(parts, tmp_path / "newer"), tmp_path / "logs") as cloud:
        verdict = Scenario(ArtifactService(cloud), ROLLING).run()
        print_figures(cloud, verdict, began)
        assert (verdict.faults, cloud.functions.failures) == ({}, [])
        assert verdict.arrived == verdict.copies > 700
        releases = {(each.function, each.release) for each in cloud.functions.measures if each.calls}
        for function in ("ingest", "dispatch", "sweep"):
            assert {(function, 0), (function, 1)} <= releases
        assert cloud.has_item_with("of_a_newer_release")


def some_messages(parts: Parts, folder: Path) -> tuple[Verdict, list[str]]:
    """Sends a few messages through a cloud. Returns the verdict and the functions' failures."""
    folder.mkdir(exist_ok=True)
    with Cloud(parts, folder) as cloud:
        oracle, service, tw = Oracle(), ArtifactService(cloud), cloud.sdk
        tw.create_topic(READER[0])
        tw.create_subscription(*READER)
        due_ms = service.now_ms() + 40 * MINUTE_MS
        messages = [Message(body=f"{i}", deliver_at=due_ms / 1000 + i) for i in range(10)]
        for message, receipt in zip(messages, tw.send_many(READER[0], messages), strict=True):
            oracle.expect([READER], receipt.id, message.body, receipt.deliver_at_ms)
        service.wait_until(due_ms + 3 * MINUTE_MS)
        oracle.arrived(READER, service.take(*READER))
        return oracle.verdict(), [each.reason for each in cloud.functions.failures]


def original(name: str) -> str:
    """Returns the text of a function's handler."""
    return (REPOSITORY / "functions" / name / "handler.py").read_text(encoding="utf-8")


def calling(change: str, name: str) -> str:
    """Returns a handler in which each call of AWS goes through `change(call, self, operation, parameters)`."""
    planted = f"""
import botocore.client
_call = botocore.client.BaseClient._make_api_call
def _changed(self, operation, parameters):
    {change}
botocore.client.BaseClient._make_api_call = _changed
"""
    return original(name) + planted


def test_a_botocore_whose_descriptions_were_edited_is_noticed(parts: Parts, tmp_path: Path) -> None:
    _, failures = some_messages(without_documentation(parts, tmp_path / "planted"), tmp_path / "run")
    # The messages may still come in time: when their slots are sealed, they need no ledger any more.
    assert any("reported as failed" in each for each in failures)
    logs = "".join(each.read_text() for each in tmp_path.glob("run/release-0/ingest-*.log"))
    assert "KeyError: 'documentation'" in logs


def test_a_message_that_is_sent_twice_is_noticed(parts: Parts, tmp_path: Path) -> None:
    twice = calling(
        "return [_call(self, operation, parameters) for _ in range(1 + (operation == 'SendMessageBatch'))][0]",
        "dispatch",
    )
    verdict, _ = some_messages(with_handler(parts, tmp_path / "planted", "dispatch", twice), tmp_path / "run")
    assert verdict.faults.keys() == {"doubled"} and len(verdict.doubled) == 10


def test_a_message_that_is_sent_too_early_is_noticed(parts: Parts, tmp_path: Path) -> None:
    early = calling(
        "entries = [e | {'DelaySeconds': e.get('DelaySeconds', 5) - 5} for e in parameters.get('Entries', [])]\n"
        "    return _call(self, operation, parameters | ({'Entries': entries} if entries else {}))",
        "dispatch",
    )
    verdict, _ = some_messages(with_handler(parts, tmp_path / "planted", "dispatch", early), tmp_path / "run")
    assert verdict.faults.keys() == {"early"} and len(verdict.early) == 10


def test_a_function_above_its_memory_is_noticed(parts: Parts, tmp_path: Path) -> None:
    greedy = original("sweep") + "\nGREED = b'x' * (600 << 20)\n"
    _, failures = some_messages(with_handler(parts, tmp_path / "planted", "sweep", greedy), tmp_path / "run")
    assert any("tidewheel-sweep" in each and "MiB resident, and 512 are configured" in each for each in failures)
