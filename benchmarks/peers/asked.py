"""Requests a month of a steady stream, by operation: of all messages over their whole life, and of what asks anyhow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from benchmarks.peers.costs import ENVIRONMENT, per_day, workload
from benchmarks.peers.counted import Counted
from benchmarks.peers.peer import Peer
from benchmarks.peers.prices import HOURS_A_MONTH
from tidewheel.cost.assumptions import Assumptions
from tidewheel.cost.deployed import ENVIRONMENTS, POLLERS
from tidewheel.cost.prices import DAYS_A_MONTH
from tidewheel.cost.requests import FLOWS
from tidewheel.cost.stream import Stream
from tidewheel.cost.workload import DAY_S
from tidewheel.model.settings import TopicSettings


def asked_a_month(peer: Peer, waiting: float, counts: Mapping[Peer, Counted]) -> dict[str, float]:
    """Returns how often each operation is asked for in a month.

    Args:
        peer: by whom.
        waiting: messages that wait at a time; 0 for an idle peer.
        counts: of the others; Tidewheel's are those of `tidewheel cost`.
    """
    if peer is Peer.TIDEWHEEL:
        return _by_tidewheel(per_day(waiting))
    return counts[peer].requests.at(per_day(waiting) * DAYS_A_MONTH, HOURS_A_MONTH)


def _by_tidewheel(rate: float) -> dict[str, float]:
    deployed, taken = ENVIRONMENTS[ENVIRONMENT], Assumptions()
    a_day: Counter[str] = Counter()
    measured = [(run.flow, run.measures) for run in Stream(workload(rate), taken, TopicSettings()).runs()]
    measured.append(("sweep", {"call": DAY_S / deployed.sweep_interval_s, "hour": 24, "orphans": 1}))
    for flow, measures in measured:
        for measure, times in measures.items():
            for operation, count in FLOWS[flow].asked[measure].requests.items():
                a_day[operation] += count * times  # type: ignore[assignment]
    a_day["sqs.ReceiveMessage"] += deployed.polled_queues * POLLERS * DAY_S / taken.idle_poll_s  # type: ignore[assignment]
    return {operation: count * DAYS_A_MONTH for operation, count in sorted(a_day.items()) if count}
