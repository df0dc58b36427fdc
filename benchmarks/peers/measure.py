"""Everything about the peers, measured and computed, as figures for `benchmarks.results`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.peers import dynamodb_poller, redis_poller, redis_server, schedules, tidewheel_stack, waiting
from benchmarks.peers.account import HOUR_MS, START_MS, Run
from benchmarks.peers.asked import asked_a_month
from benchmarks.peers.costs import (
    ENVIRONMENT,
    Keeping,
    between,
    cost_of,
    per_day,
    redis_cost,
    schedules_with_free_tier,
    tidewheel_cost,
)
from benchmarks.peers.counted import Counted, counted
from benchmarks.peers.crossings import cheaper_from
from benchmarks.peers.peer import Peer
from benchmarks.peers.stream import Delivery, Timed, mean_body_bytes, outcome, stream
from tidewheel.clock import SystemClock
from tidewheel.cost.prices import LISTED
from tidewheel.errors import InvalidValue

LEAD_MS = 20 * 60_000
"""How long before the first is due the stream is sent: more than SQS can delay, so that everybody must store it."""
AFTER_MS = 120_000
SOON_MS = 6_000
"""How long before the first is due the stream of a run in real time is sent."""
FAST_POLL_S = 0.01
SERIES_A_DAY = tuple(round(10 ** (power / 4)) for power in range(4, 29))
"""Messages a day of the plot: ten to ten million."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured.

    Attributes:
        few, more: messages of the two runs whose difference is what a message asks.
        span_s: over which they are due.
        idle_hours: that an idle poller is counted for.
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


FULL = Scale()
QUICK = Scale(few=30, more=90, span_s=60, idle_hours=0.05, real=100, real_s=3, waiting=(1_000, 5_000, 20_000))
"""To see that it works: its figures are worth nothing."""

_RUNS: Mapping[Peer, Callable[[list[Timed], int], Run]] = {
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


def measure(scale: Scale = FULL, say: Say = lambda _: None) -> dict[str, Any]:
    """Measures all peers; without a redis-server, all but Redis.

    Args:
        scale: how much.
        say: called with what is done next.

    Returns:
        Figures as JSON can say them; `section` documents them.

    Raises:
        InvalidValue: a peer lost a message, delivered one early or twice.
    """
    redis = redis_server.executable() is not None
    peers = [peer for peer in Peer if redis or peer is not Peer.REDIS]
    counts, streams = {}, {}
    for peer in peers:
        say(f"{peer.value}: requests of {scale.few} and {scale.more} messages")
        counts[peer], streams[peer] = _count(peer, scale)
    say("lateness in real time")
    precision = {peer.value: _lateness("virtual", run) for peer, run in streams.items() if peer is not Peer.SCHEDULES}
    precision[Peer.SCHEDULES.value] = {"clock": "documented", "max_ms": schedules.LATEST_MS}
    precision |= _real_time(scale, redis)
    say(f"memory of {max(scale.waiting):,} waiting messages")
    memory = _memory(scale, counts, redis)
    redis_bytes = between(memory[Peer.REDIS.value]["memory_bytes"]) if redis else None
    return {
        "stream": _described(scale),
        "delivered": {peer.value: _arrived(run) for peer, run in streams.items()},
        "requests": {peer.value: _lines(counts[peer]) for peer in counts if peer is not Peer.TIDEWHEEL},
        "asked_a_month": {
            str(size): {peer.value: asked_a_month(peer, size, counts) for peer in counts}
            for size in (0, *scale.waiting)
        },
        "tidewheel_requests": {"messages": scale.more, **dict(sorted(streams[Peer.TIDEWHEEL].requests.items()))},
        "precision": precision,
        "waiting": memory,
        "kept_after_kill": _kept(scale) if redis else None,
        "costs": {str(size): _costs(per_day(size), counts, redis_bytes) for size in scale.waiting},
        "idle": _costs(0.0, counts, redis_bytes),
        "cheaper_from": cheaper_from(counts, redis_bytes, SERIES_A_DAY[0], SERIES_A_DAY[-1]),
        "series": [
            {
                "per_day": rate,
                "schedules_free_tier": schedules_with_free_tier(rate),
                **_a_month(_costs(rate, counts, redis_bytes)),
            }
            for rate in SERIES_A_DAY
        ],
        "prices_of": LISTED,
        "redis": _redis_version() if redis else None,
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
    return counted(run([], START_MS + idle_ms), few, more), more


def _lateness(clock: str, run: Run) -> dict[str, Any]:
    return _percentiles(clock, run.outcome.lateness_ms, run.outcome.percentile_ms)


def _percentiles(clock: str, lateness_ms: tuple[int, ...], percentile_ms: Callable[[float], int]) -> dict[str, Any]:
    return {
        "clock": clock,
        "messages": len(lateness_ms),
        "p50_ms": percentile_ms(50),
        "p99_ms": percentile_ms(99),
        "max_ms": lateness_ms[-1],
    }


def _real_time(scale: Scale, redis: bool) -> dict[str, Any]:
    def run(deliver: Callable[[list[Timed]], list[Delivery]]) -> dict[str, Any]:
        # A stack takes seconds to open, a Redis less: what is late because the run was is not the peer's.
        messages = stream(scale.real, first_ms=SystemClock().now_ms() + SOON_MS, span_ms=scale.real_s * 1000)
        found = outcome(messages, deliver(messages))
        if not found.sound:
            raise InvalidValue("run", found, "every message must arrive once and not early")
        return _percentiles("real", found.lateness_ms, found.percentile_ms)

    runs = {"tidewheel_real": run(tidewheel_stack.run_in_real_time)}
    if redis:
        runs["redis_real"] = run(lambda messages: redis_poller.run_in_real_time(messages, interval_s=1.0))
        runs["redis_fast"] = run(lambda messages: redis_poller.run_in_real_time(messages, interval_s=FAST_POLL_S))
    return runs


def _memory(scale: Scale, counts: Mapping[Peer, Counted], redis: bool) -> dict[str, Any]:
    item_bytes = counts[Peer.DYNEIN].stored_a_message_bytes
    assert item_bytes is not None
    found: dict[str, Any] = {
        Peer.TIDEWHEEL.value: waiting.tidewheel_bytes(scale.waiting),
        Peer.DYNEIN.value: {"dynamodb_bytes": {size: round(size * item_bytes) for size in scale.waiting}},
    }
    if redis:
        found[Peer.REDIS.value] = {"memory_bytes": waiting.redis_bytes(scale.waiting)}
    return found


def _kept(scale: Scale) -> dict[str, int]:
    messages = stream(scale.more, first_ms=SystemClock().now_ms() + HOUR_MS, span_ms=scale.span_s * 1000)
    return {
        "sent": len(messages),
        "append_only_file": redis_poller.kept_after_kill(messages, durable=True),
        "snapshots": redis_poller.kept_after_kill(messages, durable=False),
    }


def _costs(
    rate: float, counts: Mapping[Peer, Counted], redis_bytes: Callable[[float], float] | None
) -> dict[str, dict[str, Any] | None]:
    found: dict[str, dict[str, Any] | None] = {}

    def add(name: str, cost: Any) -> None:
        found[name] = cost and {
            "messages": cost.messages,
            "standing": cost.standing,
            "a_month": cost.a_month,
            "a_million": cost.a_million(rate) if rate else None,
            "runs": cost.runs,
        }

    for peer in counts:
        try:
            add(peer.value, cost_of(peer, rate, counts, redis_bytes))
            if peer is Peer.REDIS and redis_bytes is not None:
                add("redis_no_task", redis_cost(redis_bytes, rate, task=False))
                add("redis_replica", redis_cost(redis_bytes, rate, Keeping.REPLICA))
                add("redis_durable", redis_cost(redis_bytes, rate, Keeping.DURABLE))
        except InvalidValue:  # no single node holds so much
            add(peer.value, None)
    add("tidewheel_bare", tidewheel_cost(rate, telemetry=False))
    add("tidewheel_one_by_one", tidewheel_cost(rate, batch=1))
    return found


def _a_month(costs: Mapping[str, dict[str, Any] | None]) -> dict[str, float | None]:
    return {name: None if cost is None else cost["a_month"] for name, cost in costs.items()}


def _arrived(run: Run) -> dict[str, int]:
    found = run.outcome
    return {
        "sent": found.sent,
        "delivered": found.delivered,
        "lost": found.lost,
        "early": found.early,
        "duplicates": found.duplicates,
    }


def _lines(counts: Counted) -> dict[str, Any]:
    return {
        "a_message": dict(counts.requests.a_message),
        "an_hour": dict(counts.requests.an_hour),
        "units_a_message": dict(counts.units.a_message),
        "units_an_hour": dict(counts.units.an_hour),
    }


def _described(scale: Scale) -> dict[str, Any]:
    return {
        "few": scale.few,
        "more": scale.more,
        "span_s": scale.span_s,
        "lead_s": LEAD_MS // 1000,
        "real": scale.real,
        "real_s": scale.real_s,
        "mean_body_bytes": mean_body_bytes(),
        "environment": ENVIRONMENT,
    }


def _redis_version() -> str:
    with redis_server.RedisServer() as server:
        return server.version()
