"""Below which rate another way is the cheaper one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.peers.costs import cost_of, schedules_with_free_tier, tidewheel_cost
from benchmarks.peers.counted import Counted
from benchmarks.peers.peer import Peer


def cheaper_from(
    counts: Mapping[Peer, Counted], redis_bytes: Callable[[float], float] | None, low: float, high: float
) -> dict[str, float | None]:
    """Returns from how many messages a day on Tidewheel's bill, all told, is the lower one.

    Args:
        counts: of the peers on AWS, and Redis's.
        redis_bytes: what waiting messages take up in Redis; None if there is none here.
        low, high: between which rates it is looked for.

    Returns:
        Peer, and "schedules_after_free_tier" -> messages a day: `low` if it is everywhere, None if nowhere.
    """
    found: dict[str, float | None] = {}
    for peer in counts:
        if peer is Peer.TIDEWHEEL:
            continue

        def dearer(rate: float, peer: Peer = peer) -> bool:
            cost = cost_of(peer, rate, counts, redis_bytes)
            return cost is not None and cost.a_month > tidewheel_cost(rate).a_month

        found[peer.value] = first_true(dearer, low, high)
    found["schedules_after_free_tier"] = first_true(
        lambda rate: schedules_with_free_tier(rate) > tidewheel_cost(rate).a_month, low, high
    )
    return found


def first_true(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """Returns from where on something holds that holds beyond one point and not before, within a thousandth.

    Args:
        holds: asked between `low` and `high`.
        low: returned if it holds there already.
        high: where it holds, or nowhere: then None.
    """
    if holds(low):
        return low
    if not holds(high):
        return None
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
