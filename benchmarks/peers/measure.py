"""Measures all peers: requests, bills, lateness, and bytes of waiting messages.

    python -m benchmarks peers

Each peer gets the same real messages 20 minutes before the first is due, and must deliver each once and none early.
Without a redis-server, Redis is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers import costs, dynamodb_poller, redis_poller, redis_server, schedules, tidewheel_stack, waiting
from benchmarks.peers.account import HOUR_MS, START_MS, Run
from benchmarks.peers.costs import Counted
from benchmarks.peers.peer import Peer
from benchmarks.peers.stream import Delivery, Timed, outcome, stream
from tidewheel.clock import SystemClock
from tidewheel.errors import InvalidValue

LEAD_MS = 20 * 60_000
"""More than SQS can delay, so that each peer must store the stream."""
AFTER_MS = 120_000
SOON_MS = 6_000
"""How long before the first is due the stream of a run in real time is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured.

    Attributes:
        few, more: messages of two runs.
        span_s: over which they are due.
        idle_hours: length of an idle run.
        real: messages of a run in real time.
        real_s: over which those are due.
        waiting: numbers of waiting messages.
    """

    few: int = 300
    more: int = 900
    span_s: int = 300
    idle_hours: float = 1.0
    real: int = 1000
    real_s: int = 20
    waiting: tuple[int, ...] = (1_000, 100_000, 1_000_000)


QUICK = Scale(few=30, more=90, span_s=60, idle_hours=0.05, real=100, real_s=3, waiting=(1_000, 5_000, 20_000))

_RUNS: Mapping[Peer, Callable[[Sequence[Timed], int], Run]] = {
    Peer.TIDEWHEEL: lambda messages, until_ms: tidewheel_stack.run(messages, until_ms=until_ms),
    Peer.REDIS: lambda messages, until_ms: redis_poller.run(messages, until_ms=until_ms),
    Peer.DYNEIN: lambda messages, until_ms: dynamodb_poller.run(
        messages, until_ms=until_ms, polling=dynamodb_poller.DYNEIN
    ),
    Peer.AHEAD: lambda messages, until_ms: dynamodb_poller.run(
        messages, until_ms=until_ms, polling=dynamodb_poller.AHEAD
    ),
    Peer.SCHEDULES: lambda messages, until_ms: schedules.run(messages, until_ms=until_ms),
}


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Measures all peers.

    Raises:
        InvalidValue: a peer lost a message, or delivered one early or twice.
    """
    scale = QUICK if quick else Scale()
    redis = redis_server.executable() is not None
    runs = {peer: _count(peer, scale) for peer in Peer if redis or peer is not Peer.REDIS}
    counts = {peer: found for peer, (found, _) in runs.items()}
    redis_bytes = waiting.redis_bytes(scale.waiting) if redis else None
    bills = _bills(counts, redis_bytes)
    lateness = {f"{peer}, virtual clock": _lateness(run) for peer, (_, run) in runs.items() if peer != Peer.SCHEDULES}
    item_bytes = counts[Peer.DYNEIN].stored_a_message_bytes or 0.0
    held = {
        "Redis": redis_bytes or {},
        "DynamoDB, items": {size: round(size * item_bytes) for size in scale.waiting},
        **waiting.tidewheel_bytes(scale.waiting),
    }
    return {
        "requests_a_message_or_an_hour": {peer: _asked(found) for peer, found in counts.items()},
        "tidewheel_requests": dict(sorted(runs[Peer.TIDEWHEEL][1].requests.items())),
        "dollars_a_month_by_waiting": {
            name: {f"{size:,}": a_month(costs.per_day(size)) for size in (0, *scale.waiting)}
            for name, a_month in bills.items()
        },
        "cheaper_below_messages_a_day": {
            name: costs.cheaper_below(a_month) for name, a_month in bills.items() if "Tidewheel" not in name
        },
        "lateness": lateness | _real_time(scale, redis),
        "bytes_by_waiting": {name: {f"{size:,}": found[size] for size in found} for name, found in held.items()},
    }


def _count(peer: Peer, scale: Scale) -> tuple[Counted, Run]:
    first_ms = START_MS + LEAD_MS
    until_ms = first_ms + scale.span_s * 1000 + AFTER_MS
    run = _RUNS[peer]
    few, more = (
        run(stream(count, first_ms=first_ms, span_ms=scale.span_s * 1000), until_ms)
        for count in (scale.few, scale.more)
    )
    # Tidewheel's idle hours are those of `tidewheel cost`: the local stack leaves out sweeps that would find nothing.
    idle_ms = 1000 if peer is Peer.TIDEWHEEL else round(scale.idle_hours * HOUR_MS)
    return costs.counted(run([], START_MS + idle_ms), few, more), more


def _bills(
    counts: Mapping[Peer, Counted], redis_bytes: Mapping[int, int] | None
) -> dict[str, Callable[[float], float]]:
    """Returns a month's bill by messages a day, of each peer and its variants."""
    found: dict[str, Callable[[float], float]] = {
        "Tidewheel": lambda rate: costs.tidewheel_cost(rate).a_month,
        "Tidewheel without telemetry": lambda rate: costs.tidewheel_cost(rate, telemetry=False).a_month,
        "Tidewheel, one message a send": lambda rate: costs.tidewheel_cost(rate, batch=1).a_month,
        "A schedule a message, with its free tier": costs.schedules_with_free_tier,
    }
    for peer in (Peer.SCHEDULES, Peer.AHEAD, Peer.DYNEIN):
        found[peer] = lambda rate, peer=peer: costs.counted_cost(peer, counts[peer], rate).a_month  # type: ignore[misc]
    if redis_bytes is not None:
        used = costs.between(redis_bytes)
        found["Redis, one node"] = lambda rate: costs.redis_cost(used, rate).a_month
        found["Redis, with a replica"] = lambda rate: costs.redis_cost(used, rate, nodes=2).a_month
    return found


def _asked(found: Counted) -> dict[str, float]:
    return {
        **{f"{name} a message": count for name, count in found.requests.a_message.items()},
        **{f"{name} an hour": count for name, count in found.requests.an_hour.items()},
    }


def _lateness(run: Run) -> dict[str, float]:
    found = run.outcome
    return {"p50_ms": found.percentile_ms(50), "p99_ms": found.percentile_ms(99), "latest_ms": found.lateness_ms[-1]}


def _real_time(scale: Scale, redis: bool) -> dict[str, dict[str, float]]:
    def run(deliver: Callable[[list[Timed]], list[Delivery]]) -> dict[str, float]:
        messages = stream(scale.real, first_ms=SystemClock().now_ms() + SOON_MS, span_ms=scale.real_s * 1000)
        found = outcome(messages, deliver(messages))
        if not found.sound:
            raise InvalidValue("run", found, "Each message must arrive once and not early.")
        return _lateness(Run(outcome=found, requests={}, units={}, hours=0.0))

    runs = {"Tidewheel, real clock": run(tidewheel_stack.run_in_real_time)}
    if redis:
        for name, interval_s in (("each second", 1.0), ("every 10 ms", 0.01)):
            runs[f"Redis, polled {name}, real clock"] = run(
                lambda messages, every_s=interval_s: redis_poller.run_in_real_time(messages, interval_s=every_s)  # type: ignore[misc]
            )
    return runs
