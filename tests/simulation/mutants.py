"""Takes each guard of the protocol away, and counts the schedules until a small world breaks a promise.

    python -m tests.simulation.mutants [--json FILE] [--save]

prints a table: the guard, the world, how many of the world's schedules it took, what was broken, and by which schedule.
It ends with 1 if a guard is not missed, or if a world breaks a promise with all guards in force.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.simulation.exploring import Found, Scenario, explore
from tests.simulation.guard import MOST_SCHEDULES, Guard, worlds_of
from tests.simulation.guards import claims, deliveries, keys, ledgers, plain, slots, subscriptions, topics

GUARDS: tuple[Guard, ...] = (
    *slots.GUARDS,
    *ledgers.GUARDS,
    *deliveries.GUARDS,
    *subscriptions.GUARDS,
    *keys.GUARDS,
    *plain.GUARDS,
    *claims.GUARDS,
    *topics.GUARDS,
)
"""All guards, in the order of a message's life."""
_CELL = 78


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The outcome of a guard.

    Attributes:
        place: the function that has it.
        schedules: of the world, that were tried.
        violation, schedule: what was broken, and how; None if nothing was.
    """

    guard: str
    place: str
    world: str
    schedules: int
    violation: str | None
    schedule: str | None


def row_of(guard: Guard, world: Scenario) -> Row:
    """Explores a guard's world without the guard."""
    found = guard.hunt()
    caught = found if isinstance(found, Found) else None
    return Row(
        guard=guard.promise,
        place=guard.place,
        world=world.name,
        schedules=found.schedules if isinstance(found, Found) else found,
        violation=None if caught is None else str(caught.violation),
        schedule=None if caught is None else caught.story,
    )


def _figures(rows: Sequence[Row], kept: dict[str, int], cpu_s: float) -> dict[str, object]:
    return {
        "guards": len(rows),
        "caught": sum(row.violation is not None for row in rows),
        "worlds": len(kept),
        "schedules_with_all_guards": sum(kept.values()),
        "cpu_s": round(cpu_s, 1),
        "mutants": [asdict(row) for row in rows],
        "schedules_of_worlds": kept,
    }


def _show(row: Row) -> None:
    caught = "NOT MISSED" if row.violation is None else row.violation
    print(f"{row.guard}\n    {row.world}, {row.schedules} schedules: {caught[:_CELL]}\n    {row.schedule or ''}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Removes each guard in turn. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--save", action="store_true", help="write them to benchmarks/results/mutants.json")
    asked = parser.parse_args(arguments)
    began_s = time.process_time()
    wrong = 0
    kept: dict[str, int] = {}
    for world in worlds_of(GUARDS):
        answer = explore(world, MOST_SCHEDULES)
        kept[world.name] = answer.schedules if isinstance(answer, Found) else answer
        if isinstance(answer, Found):
            wrong += 1
            print(f"WITH ALL GUARDS {world.name}: {answer.violation}\n    {answer.story}", file=sys.stderr)
    rows = []
    for guard in GUARDS:
        if guard.world is not None:  # a contract suite holds the others
            rows.append(row_of(guard, guard.world))
            _show(rows[-1])
    figures = _figures(rows, kept, time.process_time() - began_s)
    print(
        f"{figures['caught']} of {figures['guards']} guards are missed when they are taken away; with all of them, "
        f"{figures['schedules_with_all_guards']} schedules of {figures['worlds']} worlds keep every promise"
        + (f" but {wrong}" if wrong else "")
    )
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    if asked.save:
        from benchmarks.results import save

        save("mutants", figures, command="python -m tests.simulation.mutants --save")
    return 1 if wrong or figures["caught"] != figures["guards"] else 0


if __name__ == "__main__":
    sys.exit(main())
