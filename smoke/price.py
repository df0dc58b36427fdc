"""What a trial costs: said before, and estimated after."""

from __future__ import annotations

from smoke.cloud import Usage
from smoke.rebuilding import RebuildOn
from tidewheel.cost.prices import DOLLARS_PER_DPU_HOUR, DOLLARS_PER_GB_SECOND, SERVICES, cost, dollars

ESTIMATE_DOLLARS = 0.10
"""All but Glue, rounded up: a rehearsal's counted requests come to a tenth; an hour of alarms, metrics, logs
and storage to less."""
GLUE_WORKERS = 10
"""Workers of a rebuild, as the environment has it."""
GLUE_RUNS, GLUE_RUN_MINUTES = 2, 8
"""A dry run, and a rebuild, which waits five minutes."""


def glue_dollars() -> float:
    """What the rebuild job costs: its workers, a DPU each, for the time of both runs."""
    return GLUE_RUNS * GLUE_WORKERS * GLUE_RUN_MINUTES / 60 * DOLLARS_PER_DPU_HOUR


def estimate_dollars(rebuild_on: RebuildOn) -> float:
    """What a trial costs at most, without free tiers, at us-east-1's prices."""
    return ESTIMATE_DOLLARS + (glue_dollars() if rebuild_on == "glue" else 0.0)


def used_dollars(usage: Usage, rebuild_on: RebuildOn) -> dict[str, float]:
    """Returns what counted use comes to, by service; function time is assumed where it was not measured."""
    spent = cost({unit: count for unit, count in usage.units.items() if unit.split(".")[0] in SERVICES})
    if usage.gb_seconds is not None:
        spent["Lambda"] = dollars("lambda.invocation", usage.units.get("lambda.invocation", 0))
        spent["Lambda"] += usage.gb_seconds * DOLLARS_PER_GB_SECOND
    if rebuild_on == "glue":
        spent["Glue"] += glue_dollars()
    return spent
