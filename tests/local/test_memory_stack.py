"""The in-memory service behaves like the real service, and takes almost no time."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from examples import local_test, quickstart
from tests.flows.world import CrashingPorts
from tidewheel import InvalidValue
from tidewheel.flows.ports import Ports
from tidewheel.local import LocalTidewheel, MemoryTidewheel, memory_functions
from tidewheel.memory import MemoryService
from tidewheel.model.message import id_bytes, id_deliver_at_ms
from tidewheel.model.received import ReceivedMessage

TOPIC = "orders"
HOUR_S = 3600
DAY_S = 86_400


def subscribed(stack: Any, *subscriptions: str) -> Any:
    """Creates the topic with subscriptions, by default "billing". Returns the client."""
    client = stack.client()
    client.create_topic(TOPIC)
    for name in subscriptions or ("billing",):
        client.create_subscription(TOPIC, name)
    return client


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"start": "tomorrow"}, "start='tomorrow'"),
        ({"start": 5}, "start=5"),
        ({"start": ""}, "start=''"),
        ({"slot_s": 0}, "slot_s=0"),
        ({"slot_seconds": 60}, "slot_seconds=60: a topic has no such setting"),
        ({"stack_name": "a b"}, "stack_name='a b'"),
    ],
)
@pytest.mark.parametrize("runtime", [LocalTidewheel, MemoryTidewheel])
def test_a_wrong_argument_is_named_with_what_to_give(runtime: Any, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{named}"):
        runtime(**arguments)


@pytest.mark.parametrize("duration", [{"days": -1}, {"days": "x"}, {"fortnights": 1}, {"seconds": float("nan")}])
def test_a_duration_that_time_cannot_advance_by_is_refused(duration: dict[str, Any]) -> None:
    stack = MemoryTidewheel()
    before = stack.now()
    with pytest.raises(InvalidValue, match=r"^duration="):
        stack.advance(**duration)
    assert stack.now() == before


def in_time(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """Returns the messages after a check that each arrived in its due second."""
    for message in messages:
        assert message.visible_at is not None
        assert 0 <= (message.visible_at - message.deliver_at).total_seconds() < 1, message
    return messages


def bodies(messages: list[ReceivedMessage]) -> list[str]:
    """The messages' bodies, in time."""
    return [str(message.body) for message in in_time(messages)]


def assert_well(stack: MemoryTidewheel) -> None:
    assert (stack.failures, stack.logged) == ([], [])


# ---- time


@pytest.mark.parametrize("delay_s", [0, 1, 59, 899, 900, 1000, HOUR_S, HOUR_S + 1, 3 * DAY_S, 400 * DAY_S])
def test_a_message_is_received_at_its_very_second_and_not_before(delay_s: int) -> None:
    with MemoryTidewheel() as stack:
        client = subscribed(stack)
        sent = client.send(TOPIC, {"id": 17}, delay=delay_s, attributes={"kind": "renewal"})
        if delay_s:
            stack.advance(seconds=delay_s - 0.001)
            assert stack.receive(TOPIC, "billing") == []
        stack.advance_to(sent.deliver_at)
        [message] = stack.receive(TOPIC, "billing")
        assert (message.id, message.json(), message.attributes) == (sent.id, {"id": 17}, {"kind": "renewal"})
        assert message.visible_at == message.deliver_at == stack.now()
        assert stack.receive(TOPIC, "billing") == []
        assert_well(stack)


def test_all_that_is_due_far_off_waits_for_the_window_of_the_bulk_queue() -> None:
    for window_s, ingested in ((300, 0), (10, 1)):
        stack = MemoryTidewheel(bulk_window_s=window_s)
        subscribed(stack).send(TOPIC, "far off", delay="1d")
        stack.advance(seconds=20)
        assert stack.invocations["ingest"] == ingested
        stack.advance(seconds=280)
        assert stack.invocations["ingest"] == 1


def test_time_is_told_with_its_zone() -> None:
    stack = MemoryTidewheel(start=dt.datetime(2026, 5, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))))
    assert stack.now() == dt.datetime(2026, 4, 30, 22, tzinfo=dt.UTC)
    with pytest.raises(InvalidValue, match="time zone"):
        stack.advance_to(dt.datetime(2026, 5, 2))
    stack.advance_to(dt.datetime(2026, 4, 1, tzinfo=dt.UTC))
    assert stack.now() == dt.datetime(2026, 4, 30, 22, tzinfo=dt.UTC)


def test_two_services_in_memory_share_nothing() -> None:
    one, other = MemoryTidewheel(), MemoryTidewheel()
    subscribed(one).send(TOPIC, "x", delay=5)
    subscribed(other)
    one.advance(seconds=5)
    other.advance(seconds=5)
    assert (len(one.receive(TOPIC, "billing")), len(other.receive(TOPIC, "billing"))) == (1, 0)


# ---- the same as the local stack


def test_the_docs_examples_work_with_it_in_place_of_the_local_stack() -> None:
    local_test.test_a_customer_is_reminded_after_thirty_days(MemoryTidewheel())  # type: ignore[arg-type]
    local_test.test_a_message_arrives_though_its_schedule_is_lost(MemoryTidewheel())  # type: ignore[arg-type]
    quickstart.test_an_order_is_closed_after_three_days_unless_it_is_paid()


def test_neither_moto_nor_a_server_is_loaded() -> None:
    code = (
        "import sys\n"
        "from tidewheel.local import MemoryTidewheel\n"
        "MemoryTidewheel().client().create_topic('orders')\n"
        "heavy = {'moto', 'werkzeug', 'flask', 'aws_cdk', 'aws_lambda_powertools', 'pyspark'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


# ---- what goes wrong


def test_a_function_that_fails_for_a_schedule_is_tried_again_after_a_minute_and_after_two() -> None:
    def wrap(service: MemoryService) -> Ports:
        class TopicStates:
            """Fails whenever dispatch seals."""

            def __getattr__(self, name: str) -> Any:
                if ingested and name == "seal":
                    raise RuntimeError("no seal today")
                return getattr(service.topic_states, name)

        ports: Any = CrashingPorts(service)
        ports.topic_states = TopicStates()
        return ports  # type: ignore[no-any-return]

    ingested = False
    stack = MemoryTidewheel(wrap=wrap)
    client = subscribed(stack)
    for delay in ("2h", "30h"):
        client.send(TOPIC, delay, delay=delay)
    stack.advance(minutes=10)
    ingested = True
    stack.advance(minutes=107)
    failed_at_ms = [failure.at_ms for failure in stack.failures]
    assert {failure.function for failure in stack.failures} == {"dispatch"}
    # A sweep may start the dispatch in between.
    assert {0, 60_000, 180_000} <= {at_ms - failed_at_ms[0] for at_ms in failed_at_ms}
    assert stack.failures[0].event == {"topic": TOPIC}
    ingested = False
    stack.advance(hours=29)  # the sweep finds what was not dispatched
    assert bodies(stack.receive(TOPIC, "billing")) == ["2h", "30h"]


def test_a_sweep_that_fails_is_left_to_the_next_one_as_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no sweep today")

    monkeypatch.setattr(memory_functions.loaded("sweep"), "sweep", fails)
    stack = MemoryTidewheel()
    stack.drop_schedules = True
    subscribed(stack).send(TOPIC, "x", delay="2h")
    stack.advance(hours=3)
    failed_at_ms = [failure.at_ms for failure in stack.failures]
    assert {failure.function for failure in stack.failures} == {"sweep"}
    assert {later - earlier for earlier, later in pairwise(failed_at_ms)} == {300_000}


# ---- inside


def test_a_batch_is_as_large_as_its_event_which_is_json() -> None:
    with MemoryTidewheel() as stack:
        for _ in range(6):
            stack.sqs.send_message(QueueUrl="tidewheel_urgent", MessageBody='"' * 1_000_000)
        stack.advance()
        assert stack.invocations["ingest"] == 2
        assert len(stack.queue("tidewheel_refused").everything) == 6


def test_what_the_service_did_is_there_to_be_looked_at() -> None:
    with MemoryTidewheel(start="2026-01-01") as stack:
        subscribed(stack).send(TOPIC, "x", delay="2h")
        stack.advance(minutes=5)
        [name] = stack.service.objects.names("ledgers/")
        assert name.startswith("ledgers/orders/")
        [(topic, _, fires_at_ms)] = stack.service.wheel.schedules.values()
        assert (topic, fires_at_ms < stack.clock.now_ms() + 2 * HOUR_S * 1000) == (TOPIC, True)
        stack.advance(hours=2)
        [message] = stack.queue("tidewheel-orders-billing").everything
        header = json.loads(message.message_attributes["tidewheel"]["StringValue"])
        assert message.visible_at_ms == id_deliver_at_ms(id_bytes(header["id"]))
