"""Describes the AWS requests and billed units of a flow.

A flow makes some requests once a run, others once for each subscription, segment, ten messages and so on. So a flow has
an `Asked` for each such measure, and a run is described by its measures:

    FLOWS["dispatch"].requests(call=1, subscription=2, segment=1, sends=6)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Requests and billed units for each unit of a measure.

    Attributes:
        requests: "service.Operation" -> number of requests.
        units: kind of bill, as in `tidewheel.cost.prices` -> number of units.
    """

    requests: Mapping[str, int]
    units: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The requests of a flow by measure.

    Attributes:
        function: the function that runs the flow; None if a client does.
        asked: measure -> requests for each unit of the measure; "call" is a run of the flow.
    """

    function: str | None
    asked: Mapping[str, Asked]

    def requests(self, **measures: int) -> Counter[str]:
        """Returns the requests of a run with these measures.

        Raises:
            KeyError: the flow has no such measure.
        """
        total: Counter[str] = Counter()
        for measure, times in measures.items():
            for operation, count in self.asked[measure].requests.items():
                total[operation] += count * times
        return +total

    def units(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Returns the billed units of runs with these measures.

        Raises:
            KeyError: the flow has no such measure.
        """
        total: dict[str, float] = {}
        for measure, times in measures.items():
            for unit, count in self.asked[measure].units.items():
                total[unit] = total.get(unit, 0.0) + count * times
        return {unit: count for unit, count in total.items() if count}
