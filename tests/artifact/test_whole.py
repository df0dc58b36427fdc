"""Runs the archives for hours, and for days."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.artifact.cloud import Cloud, Parts
from tests.artifact.scenario import Plan, Scenario, spread
from tests.artifact.service import ArtifactService
from tests.conftest import real_messages

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


def hours() -> Plan:
    """The story that the independent servers run, too."""
    return Plan(samples=spread(real_messages(), 400), hours=3, clusters=6, waves=11, wave_minutes=8)


def days() -> Plan:
    """A longer story, in which clocks go forward."""
    samples = spread(real_messages(), 600)
    return Plan(samples=samples, hours=30, clusters=12, waves=18, wave_minutes=95, large_bodies=3)


@pytest.mark.parametrize("story", [hours, pytest.param(days, marks=pytest.mark.nightly)])
def test_real_messages_arrive_once_and_in_time(parts: Parts, tmp_path: Path, story: Callable[[], Plan]) -> None:
    plan = story()
    began = time.monotonic()
    with Cloud(parts, tmp_path) as cloud:
        verdict = Scenario(ArtifactService(cloud), plan).run()
        functions = cloud.functions
        print(f"{verdict}; {time.monotonic() - began:.0f} s; calls: {dict(functions.calls)}")
        assert (verdict.faults, functions.failures) == ({}, [])
        assert verdict.messages > 300 and verdict.arrived == verdict.copies > 700
        assert functions.calls.keys() == {"ingest", "dispatch", "deliver", "sweep", "compact"}
        assert len(cloud.schedules.lost) == plan.lost_schedules
