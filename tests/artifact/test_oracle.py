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


def test_a_run_without_messages_proves_nothing() -> None:
    assert not Oracle().verdict().sound


def test_what_was_cancelled_must_not_come() -> None:
    oracle = Oracle()
    oracle.expect([READER], "a", "body", DUE_MS)
    oracle.withdraw("a")
    oracle.arrived(READER, [GOOD])
    assert oracle.verdict().faults.keys() == {"unexpected"}


def test_what_a_pause_held_back_may_be_late_and_not_early() -> None:
    oracle = Oracle()
    oracle.expect([READER], "a", "body", DUE_MS)
    oracle.may_be_late(READER, DUE_MS - 1, DUE_MS + 1_000_000)
    oracle.arrived(READER, [replace(GOOD, earliest_ms=DUE_MS + 900_000, latest_ms=DUE_MS + 900_010)])
    assert oracle.verdict().faults == {}


def test_each_occurrence_of_a_recurring_message_must_come() -> None:
    oracle = Oracle()
    oracle.expect_recurring(READER, "body", [DUE_MS, DUE_MS + 60_000])
    oracle.arrived(READER, [GOOD])
    assert oracle.verdict().faults == {"lost": [f"topic/subscription body at {DUE_MS + 60_000} due {DUE_MS + 60_000}"]}
