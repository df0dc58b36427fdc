"""Seeds with a fault of a narrow part of the service. All other parts are in time while the fault lasts."""

import pytest

from tests.simulation.exercised import missing
from tests.simulation.narrow import KINDS
from tests.simulation.runs import sound_runs

STEPS = 500
SEEDS: dict[str, tuple[int, ...]] = {
    "topic": (2, 3, 10),
    "notes": (1, 5),
    "hot-key": (2, 6),
    "few": (10, 11),
    "entries": (11, 12),
    "half": (0, 2),
    "sender": (1, 18),
    "job": (7, 11),
    "backlog": (2, 4),
}
HAPPENS: dict[str, tuple[str, ...]] = {
    "topic": ("fault: topic for long", "faulty: topic_states.read"),
    "notes": ("fault: objects for long", "faulty: objects.put", "faulty: notes.read"),
    "hot-key": ("fault: hot-key for long", "faulty: keys.claim"),
    "few": ("fault: objects for long", "faulty: notes.read", "faulty: topic_states.read"),
    "entries": ("fault: entries for long",),
    "half": ("fault: half for long", "faulty: deliveries.part_done", "faulty: deliveries.lease_part"),
    "sender": ("fault: sender for long", "client: purged"),
    "job": ("fault: job for long", "merges.swap -> yes", "merge: swaps"),
    "backlog": ("fault: backlog for long", "collect: buckets"),
}
"""What the runs of each kind did."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_that_is_not_everybodys_hurts_nobody_else(kind: str) -> None:
    exercised = sound_runs(SEEDS[kind], f"narrow-{kind}", STEPS)
    assert missing(exercised, HAPPENS[kind]) == []
