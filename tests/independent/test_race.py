"""The race in memory for a second, and violations found by the record. `make test-independent` uses DynamoDB Local."""

from __future__ import annotations

from typing import Any

import pytest

from tests.independent.claim_race import claim_race
from tests.independent.race import GIVEN_UP, race_in_memory
from tests.independent.record import Record, Sent
from tests.recorded_queues import SentMessage
from tidewheel.model.message import MessageId

SECONDS = 1.5


def test_sixteen_threads_in_memory_lose_and_double_nothing() -> None:
    race = race_in_memory(seed=1)
    assert race.run(SECONDS) == []
    assert race.record.done["batches"] and race.record.done["cancelled"] and race.record.done["dispatches"]
    assert len(race.ports.queues.sent()) > len(race.record.sent) // 2


def test_consumers_and_late_cancels_in_memory_have_one_winner_each() -> None:
    race = race_in_memory(seed=1)
    happened, violations = claim_race(race.ports, race.clock, GIVEN_UP, messages=100, seed=1)
    assert violations == []
    assert happened["handed out"] and happened["cancelled until consumed"]


# ---- the record
def a_sent(id: str = "m1", **fields: Any) -> Sent:
    return Sent(
        **{"id": MessageId(id), "due_ms": 5000, "key": None, "sent_ms": 1, "ingests": 1, "accepted": True, **fields}
    )


def verdict(*sent: Sent, copies: int = 1, early_ms: int = 0) -> list[str]:
    record = Record()
    record.sent = {each.id: each for each in sent}
    message = SentMessage(
        queue_url="q",
        text="",
        attributes={},
        header=f'{{"id": "{sent[0].id}"}}',
        deliver_at_ms=5000,
        sent_at_ms=0,
        visible_at_ms=5000 - early_ms,
    )
    return [violation.partition(":")[0] for violation in record.check(["q"], [message] * copies)]


@pytest.mark.parametrize(
    ("fields", "copies", "expected"),
    [
        ({}, 1, []),
        ({}, 0, ["lost"]),
        ({}, 2, ["doubled"]),
        ({"ingests": 2}, 2, []),
        ({"accepted": False}, 0, []),
        ({"cancelled": {True}}, 0, []),
        ({"cancelled": {True}}, 1, ["cancelled, and came"]),
        ({"cancelled": {False}}, 0, ["lost"]),
        ({"cancelled": {None}}, 0, []),
        ({"key": "k", "superseded": True}, 1, ["superseded in time, and came"]),
        ({"key": "k"}, 0, ["lost"]),
    ],
)
def test_what_a_message_was_promised_is_compared_with_what_came(
    fields: dict[str, Any], copies: int, expected: list[str]
) -> None:
    assert verdict(a_sent(**fields), copies=copies) == expected


def test_only_the_newest_message_of_a_key_must_come() -> None:
    older, newer = a_sent("m1", key="k", sent_ms=1), a_sent("m2", key="k", sent_ms=2)
    assert verdict(newer, older) == []
    assert verdict(older, newer) == ["lost"]
    assert verdict(older, a_sent("m2", key="k", sent_ms=1)) == []


def test_a_message_that_can_be_received_early_is_noticed() -> None:
    assert verdict(a_sent(), early_ms=1) == ["early"]
