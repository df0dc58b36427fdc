"""The oracle notices each way in which a message can go wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.artifact.oracle import LATE_MS, Arrival, Oracle, Verdict

READER = ("topic", "subscription")
DUE_MS = 1_000_000
GOOD = Arrival(id="a", body="body", due_ms=DUE_MS, earliest_ms=DUE_MS + 100, latest_ms=DUE_MS + 1100)


def verdict(*arrivals: Arrival) -> Verdict:
    """Returns the verdict on these arrivals of a single sent message."""
    oracle = Oracle()
    oracle.expect([READER], "a", "body", DUE_MS)
    oracle.arrived(READER, arrivals)
    return oracle.verdict()


def test_a_message_that_comes_once_and_in_time_is_sound() -> None:
    assert verdict(GOOD).sound and verdict(GOOD).worst_late_ms == 1100


@pytest.mark.parametrize(
    ("kind", "arrivals"),
    [
        ("lost", ()),
        ("doubled", (GOOD, GOOD)),
        ("early", (replace(GOOD, earliest_ms=DUE_MS - 1),)),
        ("late", (replace(GOOD, latest_ms=DUE_MS + LATE_MS + 1),)),
        ("unexpected", (GOOD, replace(GOOD, id="b"))),
        ("changed", (replace(GOOD, body="other"),)),
    ],
)
def test_what_goes_wrong_is_named(kind: str, arrivals: tuple[Arrival, ...]) -> None:
    assert verdict(*arrivals).faults.keys() == {kind}
