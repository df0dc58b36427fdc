"""A month's bills of the peers, from counted requests and list prices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.peers.account import Run
from benchmarks.peers.costs import counted
from benchmarks.peers.stream import Outcome
from tidewheel.errors import InvalidValue


def run(sent: int, requests: Mapping[str, float], *, lost: int = 0, hours: float = 1.0) -> Run:
    arrived = Outcome(
        sent=sent, delivered=sent - lost, lost=lost, early=0, duplicates=0, lateness_ms=tuple([500] * (sent - lost))
    )
    return Run(outcome=arrived, requests=requests, units=requests, hours=hours, stored_bytes=sent * 400)


def test_requests_are_divided_into_those_of_each_message_and_those_of_each_hour() -> None:
    found = counted(
        run(0, {"Query": 1800}, hours=0.5),
        run(100, {"Query": 300, "PutItem": 100, "Send": 30}),
        run(300, {"Query": 300, "PutItem": 300, "Send": 50}),
    )

    assert found.requests.a_message == {"PutItem": 1.0, "Send": 0.1}
    assert found.requests.an_hour == {"Query": 3600.0}
    assert found.requests.at(1000, 24) == {"PutItem": 1000.0, "Send": 100.0, "Query": 86_400.0}
    assert found.stored_a_message_bytes == 400.0


def test_a_run_that_lost_a_message_is_not_counted() -> None:
    with pytest.raises(InvalidValue, match="arrive once and not early"):
        counted(run(0, {}), run(10, {"a": 10}), run(20, {"a": 19}, lost=1))
