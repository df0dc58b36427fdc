"""Seeds in which calls fail, functions die, and triggers come late, twice or never."""

from collections import Counter

import pytest

from tests.simulation.exercised import CLIENTS, FAULTS, FLOWS, HEALING, REPEATS, TRIGGERS, UNANSWERED, missing
from tests.simulation.runs import sound_runs
from tests.stored_ports import STORED_PORTS

SEEDS = (*range(45), 79, 167)
STEPS = 800


@pytest.fixture(scope="module")
def exercised() -> Counter[str]:
    """The counted events of this file's seeds, without a broken promise."""
    return sound_runs(SEEDS, "faults", STEPS)


def test_whatever_fails_every_promise_is_kept(exercised: Counter[str]) -> None:
    assert exercised["client: messages"] > 10 * len(SEEDS)


@pytest.mark.parametrize("kind", [FAULTS, TRIGGERS, REPEATS, CLIENTS, UNANSWERED, FLOWS, HEALING])
def test_the_seeds_do_all_that_can_be_done_and_all_that_can_go_wrong(
    exercised: Counter[str], kind: tuple[str, ...]
) -> None:
    assert missing(exercised, kind) == []


def test_calls_of_every_port_fail(exercised: Counter[str]) -> None:
    faulty = {each.partition(": ")[2].partition(".")[0] for each in exercised if each.startswith("faulty: ")}

    # No function of the simulation adopts a topic or asks for unreadable items. Only the modes `claims...` have claims.
    assert faulty >= {*STORED_PORTS, "queues", "wheel", "runs", "ingest_queue"} - {"unreadable", "adoptions", "claims"}
