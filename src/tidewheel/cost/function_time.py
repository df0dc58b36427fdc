"""Calculates function time in GB-seconds from measured CPU time and assumed waits, of `figures.toml`.

Lambda gives a function of `vcpu_mib` a full vCPU, and a function of 1,024 MiB 0.58 of a vCPU. A vCPU of Lambda's
Graviton2 is assumed to be slower than the measured machine's by `arm_factor`.

The function waits during each request. Sends and reads of segments run side by side, other requests in sequence. While
a thread waits for its send, other threads compute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tidewheel.cost.requests import ASSUMED, FIGURES
from tidewheel.cost.workload import DAY_S

LATENCY_MS: Mapping[str, float] = FIGURES["latency_ms"]
PATHS: Mapping[str, Mapping[str, float]] = FIGURES["functions"]
"""The functions, and calls of ingest that only forward plain messages -> memory, and measured times."""
FUNCTIONS = {name: its for name, its in PATHS.items() if name != "forward"}


def gb_seconds(function: str, calls: float, messages: float, requests: Mapping[str, float]) -> float:
    """Returns the GB-seconds of a day's calls of a function.

    Args:
        function: its name in PATHS.
        calls: number of calls.
        messages: messages of all calls together.
        requests: "service.Operation" -> requests of all calls together.

    Raises:
        KeyError: there is no such function, or an operation's latency is unknown.
    """
    its = PATHS[function]
    starts_ms = calls * cold_share(calls) * its["start_ms"] * slowness(function)
    return (starts_ms + warm_ms(function, calls, messages, requests)) / 1000 * its["memory_mib"] / 1024


def slowness(function: str) -> float:
    """Returns how many times longer a function's CPU time takes than the measured time."""
    return ASSUMED["arm_factor"] / min(1.0, PATHS[function]["memory_mib"] / ASSUMED["vcpu_mib"])


def warm_ms(function: str, calls: float, messages: float, requests: Mapping[str, float]) -> float:
    """Returns the duration of all calls of a function together, without starts. See `gb_seconds`."""
    its, slower = PATHS[function], slowness(function)
    messages_ms, threads = messages * its["message_ms"] * slower, ASSUMED["send_threads"]
    waits_ms = {name: count * LATENCY_MS[name] for name, count in requests.items()}
    sends_ms, reads_ms = (waits_ms.pop(name, 0.0) / threads for name in ("sqs.SendMessageBatch", "s3.GetObject"))
    sends_ms = max(0.0, sends_ms - messages_ms * (threads - 1) / threads)
    return calls * its["call_ms"] * slower + messages_ms + sends_ms + reads_ms + sum(waits_ms.values())


def cold_share(calls: float) -> float:
    """Returns the share of a day's calls that start an environment, whose imports Lambda bills.

    Frequent calls keep an environment alive until its replacement. A rare call finds an environment by chance.
    """
    if not calls:
        return 0.0
    gap_s = DAY_S / calls
    kept_s = ASSUMED["environment_kept_s"]
    return min(1.0, gap_s / ASSUMED["environment_replaced_s"]) if gap_s <= kept_s else math.exp(-kept_s / gap_s)
