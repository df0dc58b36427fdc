"""Runs the trial on each server that this machine has, and finds Tidewheel's figures of the same names.

Tidewheel has no server: `back_s` is a fresh process that dispatches 1,000 due messages while the others wait, and
`peak_memory_mb` is that process's. Disk is S3 and DynamoDB, by the bytes that they bill. Its steady stream runs on the
local stack, whose SQS is emulated: `benchmarks.bench_precision`.
Nothing of it is killed here: the tests do that (`test_death_at_every_call.py`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_memory import Case, peak_mib, write_ledgers
from benchmarks.bench_precision import at_rate
from benchmarks.peers.nats_schedules import NatsSchedules
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.rabbitmq import DelayLevels, OneQueue
from benchmarks.peers.redis_poller import Redis
from benchmarks.peers.server import DelayServer
from benchmarks.peers.trial import POLL_S, RATE, Figures, Length, Trial
from benchmarks.peers.waiting import LEDGER_ROWS, tidewheel_bytes
from benchmarks.rounds import spread_figures

SERVERS: tuple[type[DelayServer], ...] = (Redis, Postgres, DelayLevels, NatsSchedules)
POLLED: tuple[type[DelayServer], ...] = (Redis, Postgres)
_MIB = 2**20


def found_here() -> tuple[list[type[DelayServer]], dict[str, str]]:
    """Returns the servers on this machine, and the missing programs of each other server."""
    missing = {each: each.missing() for each in (*SERVERS, OneQueue)}
    left_out = {each.name: f"install it: {what}" for each, what in missing.items() if what is not None}
    return [each for each in SERVERS if missing[each] is None], left_out


def measure(servers: Sequence[type[DelayServer]], sizes: Sequence[int], length: Length) -> dict[str, Any]:
    """Measures Tidewheel and all servers.

    Args:
        servers: which of them.
        sizes: backlogs, the smallest first; streams and sends run beside the smallest one.
        length: of the trial's parts.
    """
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {what}", flush=True)

    beside: dict[str, dict[str, object]] = {}
    seldom: dict[str, Figures] = {}
    for server in servers:
        own: dict[str, object] = {}
        beside[server.name] = own
        for size in sizes:
            say(f"{server.name}: a backlog of {size:,}")
            with server() as running:
                trial = Trial(running, size)
                own[f"{size:,} waiting"] = trial.fill(length.fill_s) | trial.restart(length.rounds)
                if size == sizes[0]:
                    say(f"{server.name}: streams, crashes, sends")
                    own |= trial.steady(length.steady_s, rounds=length.rounds) | trial.crash(length)
                    own |= trial.sends(1, length) | trial.sends(100, length)
                    if server in POLLED:
                        seldom[server.name] = trial.steady(length.steady_s, rounds=1, poll_s=POLL_S)
    say("Tidewheel: backlogs, streams")
    beside["Tidewheel"] = tidewheel(sizes, length)
    return {
        "beside": beside,
        "polled_each_second": seldom,
        "messages_behind_longer_ones": _one_queue(length) if DelayLevels in servers else {},
        "settings": {each.name: each.settings for each in servers},
    }


def tidewheel(sizes: Sequence[int], length: Length) -> dict[str, object]:
    """Returns Tidewheel's figures."""
    stored = tidewheel_bytes(sizes)
    own: dict[str, object] = {
        f"{size:,} waiting": {
            "messages": size,
            "disk_bytes_a_message": sum(each[size] for each in stored.values()) / size,
            **_woken(size, length.rounds),
        }
        for size in sizes
    }
    found = [at_rate(RATE, length.steady_s) for _ in range(length.rounds)]
    for name in ("p50_ms", "p99_ms"):
        own |= spread_figures(name, [float(each[name]) for each in found])
    own["latest_ms"] = max(each["max_ms"] for each in found)
    return own | {name: sum(each[name] for each in found) for name in ("early", "lost", "duplicates")}


def _woken(size: int, rounds: int) -> Figures:
    """Lets fresh processes dispatch beside so many waiting messages."""
    took_s, peaks = [], []
    with tempfile.TemporaryDirectory(prefix="tidewheel-peers-") as folder:
        write_ledgers(Path(folder), Case(says="", waiting=size, ledgers=max(1, size // LEDGER_ROWS)))
        for _ in range(rounds):
            began = time.monotonic()
            peaks.append(peak_mib(Path(folder)) * _MIB / 1e6)
            took_s.append(time.monotonic() - began)
    return {**spread_figures("back_s", took_s), "peak_memory_mb": max(peaks)}


def _one_queue(length: Length) -> Mapping[str, Figures]:
    with OneQueue() as running:
        running.start()
        return {OneQueue.name: Trial(running, 0).steady(length.steady_s, rounds=1)}
