"""In a calm run, where no call fails, every message comes exactly once."""

from collections import Counter

import pytest

from tests.simulation.exercised import CLIENTS, FLOWS, TRIGGERS, missing
from tests.simulation.runs import one_run, sound_runs
from tidewheel.flows.upkeep.retention import Dead

SEEDS = (*range(22), 29, 47, 53)
STEPS = 800


@pytest.fixture(scope="module")
def calm() -> Counter[str]:
    """The counted events of the seeds without faults."""
    return sound_runs(SEEDS, "calm", STEPS)


def test_where_all_is_calm_every_message_comes_exactly_once(calm: Counter[str]) -> None:
    assert calm["client: messages"] > 10 * len(SEEDS)


@pytest.mark.parametrize("kind", [CLIENTS, FLOWS])
def test_calm_seeds_go_through_every_flow(calm: Counter[str], kind: tuple[str, ...]) -> None:
    assert missing(calm, kind) == []


def test_in_calm_seeds_nothing_goes_wrong(calm: Counter[str]) -> None:
    assert [each for each in calm if each.startswith(("fault: ", "unanswered: ", "trigger: schedule"))] == []


def test_in_calm_seeds_dead_bytes_are_bounded_beside_live_ones(calm: Counter[str]) -> None:
    assert calm["check: topics with live and dead bytes"] > 0


def test_without_rewrites_a_topic_stores_too_many_dead_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dead, "deadest", lambda *_: [])
    runs = (one_run(seed, "calm", 2500) for seed in range(77, 400, 8))
    assert any(run.violation is not None and "are live" in run.violation for run in runs)


def test_late_and_lost_triggers_lose_nothing() -> None:
    assert missing(sound_runs(SEEDS, "late", STEPS), TRIGGERS) == []
