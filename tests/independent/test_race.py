"""The race in memory for a second, and violations found by the record. `make test-independent` uses DynamoDB Local."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.flows.world import TOPIC
from tests.independent.race import Race, RaceClock, race_in_memory
from tests.independent.record import Record, Sent
from tests.recorded_queues import RecordedQueues, SentMessage, recorded_service
from tests.stored import altered
from tidewheel.model.message import MessageId
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState, new_topic_state
from tidewheel.storage.buckets import Buckets, Commit
from tidewheel.storage.tombstones import Tombstones

SECONDS = 1.5


def test_sixteen_threads_in_memory_lose_and_double_nothing() -> None:
    race = race_in_memory(seed=1)
    assert race.run(SECONDS) == []
    assert race.record.done["batches"] and race.record.done["cancelled"] and race.record.done["dispatches"]
    assert len(race.ports.queues.sent()) > len(race.record.sent) // 2


# ---- a race that cannot fail would show nothing
class Forgetful(Buckets):
    """Loses some of the ledgers reported as committed."""

    def commit(self, *arguments: Any, **options: Any) -> Commit:
        if random.random() < 0.2:
            return Commit.COMMITTED
        return super().commit(*arguments, **options)


class Hollow(Tombstones):
    """Reports a cancellation without writing anything."""

    def cancel(self, topic: str, tombstone: Any) -> Any:
        found = super().cancel(topic, tombstone)
        if found.done:
            self.delete_expired(topic, end_slot=10**11, expired_before_s=10**11)
        return found


class Hasty(RecordedQueues):
    """Sends some batches twice."""

    def send(self, queue_url: str, batch: Any) -> Any:
        if random.random() < 0.2:
            super().send(queue_url, batch)
        return super().send(queue_url, batch)


@pytest.mark.parametrize(
    ("broken", "noticed"), [(Forgetful, "lost"), (Hollow, "cancelled, and came"), (Hasty, "doubled")]
)
def test_a_race_notices_a_store_that_is_broken(broken: type[Any], noticed: str) -> None:
    clock = RaceClock()
    service = recorded_service(clock)
    if broken is Hasty:
        service = altered(service, queues=Hasty(clock))
    elif broken is Hollow:
        service = altered(service, tombstones=Hollow)
    else:
        service = altered(service, buckets=Forgetful)
    race = Race(service, clock, random.Random(1))
    assert any(violation.startswith(noticed) for violation in race.run(SECONDS))


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


def test_a_mark_that_goes_back_is_noticed() -> None:
    def state(**marks: int) -> TopicState:
        made = new_topic_state(TOPIC, "g1", TopicSettings(), 3_000_000)
        return TopicState(
            topic=TOPIC,
            generation="g1",
            settings=made.settings,
            **{"sealed": 12, "planned": 11, "collected_until": 10, **marks},
        )

    record = Record()
    record.saw(state())
    record.saw(state())
    assert record.violations == []
    record.saw(state(planned=10))
    record.saw(state(collected_until=12))
    assert [each.partition(" ")[0] for each in record.violations] == ["planned", "not"]
