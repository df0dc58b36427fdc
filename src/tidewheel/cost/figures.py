"""Computes requests, units and function time of each flow, from the measured figures of `figures.toml`.

A run of a flow is described by its measures:

    FLOWS["dispatch"].requests({"call": 1, "subscription": 2, "segment": 1, "sends": 6})

`tests/local/test_request_counts*.py` count the requests. Units are those of small items, up to 1 KB written and 4 KB
read, and of SQS payloads up to 64 KiB. The additional cost of larger payloads depends on the workload: see
`tidewheel.cost.stream`.

Function time in GB-seconds comes from measured CPU time and assumed waits. Lambda gives a function of `vcpu_mib` a full
vCPU, and a function of 1,024 MiB 0.58 of a vCPU. A vCPU of Lambda's Graviton2 is assumed to be slower than the measured
machine's by `arm_factor`. The function waits during each request. Sends and reads of segments run side by side, other
requests in sequence. While a thread waits for its send, other threads compute.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidewheel.cost.workload import DAY_S

FIGURES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
"""The figures of `figures.toml`: flows, billed, functions, latency_ms, assumed."""
ASSUMED: Mapping[str, float] = FIGURES["assumed"]
LATENCY_MS: Mapping[str, float] = FIGURES["latency_ms"]
PATHS: Mapping[str, Mapping[str, float]] = FIGURES["functions"]
"""The functions, and calls of ingest that only forward plain messages -> memory, and measured times."""
FUNCTIONS = {name: its for name, its in PATHS.items() if name != "forward"}


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests and billed units for each unit of a measure.

    Attributes:
        requests: "service.Operation" -> number of requests.
        reads: DynamoDB's read units.
        writes: DynamoDB's write units.
        fair: SQS's requests of messages with a MessageGroupId.
    """

    requests: Mapping[str, int]
    reads: float = 0.0
    writes: float = 0.0
    fair: float = 0.0

    @property
    def units(self) -> dict[str, float]:
        """Kind of bill, as in `tidewheel.model.prices` -> number of units."""
        billed = FIGURES["billed"]
        own = {"dynamodb.read": self.reads, "dynamodb.write": self.writes, "sqs.fair": self.fair}
        return added([(own, 1), *(({billed[name]: 1}, n) for name, n in self.requests.items() if name in billed)])


@dataclass(frozen=True, slots=True)
class Flow:
    """The requests of a flow by measure.

    Attributes:
        function: what runs the flow, in `tidewheel.cost.figures.FUNCTIONS`; None if a client does.
        asked: measure -> requests for each unit of the measure; "call" is a run of the flow.
    """

    function: str | None
    asked: Mapping[str, Asked]

    def requests(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Returns the requests of runs with these measures.

        Raises:
            KeyError: the flow has no such measure.
        """
        return added((self.asked[measure].requests, times) for measure, times in measures.items())

    def units(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Returns the billed units of runs with these measures.

        Raises:
            KeyError: the flow has no such measure.
        """
        return added((self.asked[measure].units, times) for measure, times in measures.items())


def added(parts: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Returns the sum of counts by name, each multiplied by its number. Zeros are left out."""
    total: dict[str, float] = {}
    for counts, times in parts:
        for name, count in counts.items():
            total[name] = total.get(name, 0.0) + count * times
    return {name: count for name, count in total.items() if count}


def _asked(row: Mapping[str, int]) -> Asked:
    units = (row.get(name, 0) for name in ("reads", "writes", "fair"))
    return Asked({name: n for name, n in row.items() if "." in name}, *units)


FLOWS: Mapping[str, Flow] = {
    name: Flow(rows.get("function"), {measure: _asked(row) for measure, row in rows.items() if measure != "function"})
    for name, rows in FIGURES["flows"].items()
}
"""Flow -> its requests and units."""


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
    # Other threads compute while one waits for its send.
    for name, computed_ms in (("sqs.SendMessageBatch", messages_ms * (threads - 1)), ("s3.GetObject", 0.0)):
        if name in waits_ms:
            least_ms = min(requests[name], calls) * LATENCY_MS[name]
            waits_ms[name] = max(least_ms, (waits_ms[name] - computed_ms) / threads)
    return calls * its["call_ms"] * slower + messages_ms + sum(waits_ms.values())


def cold_share(calls: float) -> float:
    """Returns the share of a day's calls that start an environment, whose imports Lambda bills.

    Frequent calls keep an environment alive until its replacement. A rare call finds an environment by chance.
    """
    if not calls:
        return 0.0
    gap_s = DAY_S / calls
    kept_s = ASSUMED["environment_kept_s"]
    return min(1.0, gap_s / ASSUMED["environment_replaced_s"]) if gap_s <= kept_s else math.exp(-kept_s / gap_s)
