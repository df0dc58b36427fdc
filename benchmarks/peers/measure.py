"""Measures servers beside Tidewheel, and the requests and dollars of the ways on AWS.

    python -m benchmarks peers

`servers` runs the servers in real time. The ways on AWS, and Redis for its bill, run on a virtual clock: each gets the
same real messages 20 minutes before the first is due, and must deliver each once and none early. What this machine
lacks is left out by name.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers import costs, dynamodb_poller, redis_poller, schedules, servers, tidewheel_stack, waiting
from benchmarks.peers.account import HOUR_MS, START_MS, Run
from benchmarks.peers.costs import Counted
from benchmarks.peers.peer import Peer
from benchmarks.peers.redis_poller import Redis
from benchmarks.peers.stream import Timed, stream
from benchmarks.peers.trial import FULL as FULL_TRIAL
from benchmarks.peers.trial import QUICK as QUICK_TRIAL
from benchmarks.peers.trial import Length

LEAD_MS = 20 * 60_000
"""More than SQS can delay, so that each peer must store the stream."""
AFTER_MS = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured.

    Attributes:
        few, more: messages of two runs.
        span_s: over which they are due.
        idle_hours: length of an idle run.
        waiting: numbers of waiting messages for which bills are made.
        backlogs: numbers of waiting messages that each server gets.
        trial: how long each server is measured.
    """

    few: int = 300
    more: int = 900
    span_s: int = 300
    idle_hours: float = 1.0
    waiting: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    backlogs: tuple[int, ...] = (100_000, 1_000_000)
    trial: Length = FULL_TRIAL


QUICK = Scale(
    few=30, more=90, span_s=60, idle_hours=0.05, waiting=(1_000, 20_000), backlogs=(1_000, 5_000), trial=QUICK_TRIAL
)

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
    signal.signal(signal.SIGTERM, _ended)  # servers end with this process
    present, left_out = servers.found_here()
    for name, what in left_out.items():
        print(f"{name} is left out: {what}", flush=True)
    found = servers.measure(present, scale.backlogs, scale.trial)
    print("Requests and bills, on a virtual clock", flush=True)
    runs = {peer: _count(peer, scale) for peer in Peer if Redis in present or peer is not Peer.REDIS}
    counts = {peer: counted for peer, (counted, _) in runs.items()}
    bills = _bills(counts, _memory_of_redis(found["beside"], scale.backlogs))
    item_bytes = counts[Peer.DYNEIN].stored_a_message_bytes or 0.0
    held = {
        "DynamoDB, items": {size: round(size * item_bytes) for size in scale.waiting},
        **waiting.tidewheel_bytes(scale.waiting),
    }
    return {
        **{name: each for name, each in found.items() if each},
        **({"left_out": left_out} if left_out else {}),
        "requests_a_message_or_an_hour": {peer: _asked(each) for peer, each in counts.items()},
        "tidewheel_requests": dict(sorted(runs[Peer.TIDEWHEEL][1].requests.items())),
        "dollars_a_month_by_waiting": {
            name: {f"{size:,}": a_month(costs.per_day(size)) for size in (0, *scale.waiting)}
            for name, a_month in bills.items()
        },
        "cheaper_below_messages_a_day": {
            name: costs.cheaper_below(a_month) for name, a_month in bills.items() if "Tidewheel" not in name
        },
        "lateness_virtual_clock": {peer: _lateness(run) for peer, (_, run) in runs.items() if peer != Peer.SCHEDULES},
        "bytes_by_waiting": {name: {f"{size:,}": each[size] for size in each} for name, each in held.items()},
    }


def _ended(*_: object) -> None:
    raise KeyboardInterrupt


def _memory_of_redis(beside: Mapping[str, Any], backlogs: Sequence[int]) -> Mapping[int, float] | None:
    own = beside.get(Redis.name)
    return own and {size: size * own[f"{size:,} waiting"]["memory_bytes_a_message"] for size in backlogs}


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
    counts: Mapping[Peer, Counted], redis_bytes: Mapping[int, float] | None
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
