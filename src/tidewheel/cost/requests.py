"""Loads the AWS requests of each flow, as `tests/local/test_request_counts*.py` count these, from `figures.toml`.

A run of a flow is described by its measures:

    FLOWS["dispatch"].requests({"call": 1, "subscription": 2, "segment": 1, "sends": 6})

Units are those of small items, up to 1 KB written and 4 KB read, and of SQS payloads up to 64 KiB. The additional cost
of larger payloads depends on the workload: see `tidewheel.cost.stream`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIGURES: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
"""The figures of `figures.toml`: flows, billed, functions, latency_ms, assumed."""
ASSUMED: Mapping[str, float] = FIGURES["assumed"]


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
        function: what runs the flow, in `tidewheel.cost.function_time.FUNCTIONS`; None if a client does.
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
