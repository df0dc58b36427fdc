"""A topic's flows read the same amount with a larger backlog, of the same density over more years."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.bench_ten_billion import of
from tidewheel.client.operations import stats
from tidewheel.flows.maintenance import consider_merge

pytestmark = pytest.mark.long

IN_A_SLOT = 16
FLOWS = ("ingest", "get", "cancel", "stats", "peek", "merge_plan", "dispatch_and_deliver")


@pytest.fixture(scope="module")
def measured() -> tuple[dict[str, Any], dict[str, Any]]:
    """Measures a backlog of 960 ledgers, whose items fill a page, and one that is half as large again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consider_merge, "MOST_CONSIDERED", 480)
        patch.setattr(stats, "MOST_BUCKETS", 480)
        return of(60 * IN_A_SLOT, 60), of(90 * IN_A_SLOT, 90)


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_asks_the_same_of_aws_whatever_else_waits(
    flow: str, measured: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    small, large = measured
    for figure in ("requests", "read_units", "write_units"):
        assert large[flow][figure] == pytest.approx(small[flow][figure], rel=0.05), figure


def test_a_dispatch_gets_each_ledger_that_has_due_messages_once(
    measured: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    _, large = measured
    assert IN_A_SLOT < large["dispatch_and_deliver"]["requests"] < 5 * IN_A_SLOT


def test_the_daily_look_for_orphans_goes_in_parts(measured: tuple[dict[str, Any], dict[str, Any]]) -> None:
    small, large = measured
    assert small["sweep"]["requests"] < large["sweep"]["requests"] < 2 * small["sweep"]["requests"]
