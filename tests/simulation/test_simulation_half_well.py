"""Seeds in which AWS refuses the same calls for minutes or hours."""

from collections import Counter

import pytest

from tests.simulation.exercised import missing
from tests.simulation.runs import sound_runs

SEEDS = (*range(9), *range(10, 28), 86)
STEPS = 1500
FAMILIES = ("queues", "key", "wheel", "table", "objects", "jobs")


@pytest.fixture(scope="module")
def exercised() -> Counter[str]:
    """The counted events of this file's seeds, without a broken promise."""
    return sound_runs(SEEDS, "half_well", STEPS)


def test_a_fault_that_lasts_stays_with_what_has_it(exercised: Counter[str]) -> None:
    assert exercised["client: messages"] > 10 * len(SEEDS)


def test_faults_of_every_kind_last(exercised: Counter[str]) -> None:
    wanted = [f"fault: {family} for long" for family in FAMILIES]
    wanted += [f"damage: {what}" for what in ("ledger", "filter", "checkpoint")]
    assert (
        missing(
            exercised,
            [
                *wanted,
                "fault: lasts",
                "fault: clock doubted",
                "refused: another program's message",
                "faulty: objects.put",
            ],
        )
        == []
    )


def test_packs_come_again_and_know_what_was_sent(exercised: Counter[str]) -> None:
    assert missing(exercised, ["notes.put", "notes.read", "queues.enqueue_hold"]) == []
