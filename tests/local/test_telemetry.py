"""The functions write metrics and logs correctly, once, and only with something to report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import SKEW, TOPIC, Orders
from tests.local.told import TELLING, Point, documents, points, total
from tidewheel.errors import CorruptMetadata, InvalidValue, NewerRelease
from tidewheel.flows.maintenance.health import Health
from tidewheel.flows.maintenance.sweep import SweepResult
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.storage.checks import Due
from tidewheel.telemetry import metrics
from tidewheel.telemetry.watched import Sent, WatchedQueues


@pytest.fixture
def service() -> Iterator[Orders]:
    """A stack with all telemetry enabled, one topic and one subscription."""
    with LocalTidewheel(environment=SKEW | TELLING, log_level="INFO") as stack:
        client = stack.client()
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, "billing")
        yield Orders(stack, client)


def told(capsys: pytest.CaptureFixture[str]) -> list[Point]:
    return points(capsys.readouterr().out)


def test_messages_are_counted_on_their_way(service: Orders, capsys: pytest.CaptureFixture[str]) -> None:
    service.client.send_many(TOPIC, [Message(body="x", delay=delay) for delay in ["2m"] * 3 + ["2h"] * 5])
    gone, expiring = service.client.send_many(
        TOPIC, [Message(body="x", delay="2h"), Message(body="x", delay="2h", expires_in="1s")]
    )
    service.stack.advance(minutes=10)
    service.client.cancel(TOPIC, gone.id)
    service.stack.advance(hours=3)
    found = told(capsys)
    assert total(found, "Accepted") == 10
    assert total(found, "Ledgers") >= 1
    assert total(found, "Planned") >= 6
    assert total(found, "Delivered") == sum(service.ids().values()) == 9
    assert total(found, "Cancelled") == 1
    assert total(found, "Failures") == 0
    late = [value for point in found if point.name == "Lateness" for value in point.values]
    assert late and max(late) <= 1100
    assert total(found, "Requests") > 10
    assert expiring is not None


def test_every_metric_is_of_the_table_with_its_unit_its_emitter_and_the_one_dimension(
    service: Orders, capsys: pytest.CaptureFixture[str]
) -> None:
    service.client.send_many(TOPIC, [Message(body="x", delay=delay) for delay in ("2m", "2h", "3d")])
    service.stack.drop_schedules = True
    service.stack.advance(days=2)
    service.invoke("sweep")
    service.stack.advance(days=2)
    found = told(capsys)
    assert {point.name for point in found} >= {"Accepted", "Ledgers", "Planned", "Delivered", "Lateness", "Backlog"}
    for point in found:
        metric = metrics.BY_NAME[point.name]
        assert point.unit == metric.unit
        assert point.function in metric.emitters
        assert point.dimensions == ((metrics.DIMENSION, "tidewheel"),)
        assert any(point.values)


def test_only_what_an_alarm_reads_is_a_metric_in_cloudwatch(
    service: Orders, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service.client.send_many(TOPIC, [Message(body="x", delay=delay) for delay in ("2m", "2h", "3d")])
    service.stack.advance(days=4)
    assert {point.name for point in told(capsys) if point.billed} == set()
    monkeypatch.setattr(service.function("ingest"), "ingest", lambda *_: 1 / 0)
    service.client.send(TOPIC, "x", delay="2m")
    service.stack.advance(minutes=1)
    assert {point.name for point in told(capsys) if point.billed} == {"Failures"}


def test_the_latest_message_of_a_call_is_its_lateness(
    service: Orders, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = service.function("ingest").handler.telemetry
    queues = WatchedQueues(telemetry.service.queues, service.stack.clock)
    monkeypatch.setattr(queues, "take_account", lambda: Sent(late_ms=[20, 70_000, 3]))
    monkeypatch.setattr(telemetry, "_queues", queues)
    telemetry.flush()
    assert [point.values for point in told(capsys) if point.name == "Lateness"] == [(70_000,)]


def test_each_metric_has_a_name_of_its_own() -> None:
    assert len(metrics.METRICS) == len(metrics.BY_NAME)


def test_an_idle_service_has_no_metrics_at_all(service: Orders, capsys: pytest.CaptureFixture[str]) -> None:
    service.stack.advance(hours=3)
    capsys.readouterr()
    for _ in range(3):
        service.stack.advance(minutes=5)
        service.invoke("sweep")
    assert documents(capsys.readouterr().out) == []


def test_a_function_that_has_metrics_switched_off_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalTidewheel(environment=SKEW) as stack:
        client = stack.client()
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, "billing")
        client.send_many(TOPIC, [Message(body="x", delay="2m")] * 120)
        stack.advance(minutes=5)
        assert len(stack.receive(TOPIC, "billing")) == 120
    assert capsys.readouterr().out == ""


def test_a_value_that_an_errors_cause_quotes_is_not_logged(service: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    module, logged = service.function("ingest"), []

    def failing(*_: object) -> None:
        try:
            raise InvalidValue("body", "a secret", "give another")
        except InvalidValue as error:
            raise ValueError("not ingested") from error

    monkeypatch.setattr(module, "ingest", failing)
    monkeypatch.setattr(
        module.handler.telemetry.logger, "error", lambda message, **given: logged.append((message, given))
    )
    service.client.send(TOPIC, "x", delay="2m")
    service.stack.advance(seconds=10)
    [(message, given)] = logged
    assert (message, given["extra"]["field"]) == ("topic not ingested", "body")
    assert "exc_info" not in given and "a secret" not in str(given)


def test_an_item_that_cannot_be_read_is_counted_by_each_sweep_and_told_once(
    service: Orders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, logged, failures = service.function("sweep"), [], {}

    def failing(_: object, tell_health: Callable[..., None]) -> SweepResult:
        tell_health(Due([], [], []), {})
        return SweepResult(failures=dict(failures))

    monkeypatch.setattr(module, "sweep", failing)
    monkeypatch.setattr(module, "health", lambda *_: Health(failures=dict(failures)))
    monkeypatch.setattr(
        module.handler.telemetry.logger, "error", lambda message, **given: logged.append((message, given))
    )

    def sweep_with(error: Exception | None) -> None:
        failures.clear()
        failures.update({} if error is None else {"a delivery": error})
        service.invoke("sweep")

    damage = CorruptMetadata("item DELIVERY#x is not readable")
    sweep_with(damage)
    sweep_with(damage)
    sweep_with(None)
    sweep_with(damage)
    assert [(message, given["extra"]["what"]) for message, given in logged] == [("not readable", "a delivery")] * 2
    found = told(capsys)
    assert (total(found, "Damaged"), total(found, "Failures")) == (3, 0)
    sweep_with(NewerRelease("a newer release"))
    sweep_with(ValueError())
    assert [message for message, _ in logged[2:]] == ["not readable", "not looked after"] * 2
    found = told(capsys)
    assert (total(found, "Damaged"), total(found, "Failures")) == (0, 4)


def test_a_replay_and_a_drained_park_are_delivered_but_not_late(
    service: Orders, capsys: pytest.CaptureFixture[str]
) -> None:
    service.client.pause(TOPIC, "billing")
    service.client.send(TOPIC, "x", delay="2m")
    service.stack.advance(hours=5)
    service.client.resume(TOPIC, "billing")
    service.stack.advance(minutes=10)
    found = told(capsys)
    assert total(found, "Parked") == total(found, "Delivered") == 1
    assert "Lateness" not in {point.name for point in found}


def test_a_record_of_metrics_names_the_requests_behind_it(service: Orders, capsys: pytest.CaptureFixture[str]) -> None:
    service.stack.advance(hours=1, minutes=1)
    service.client.send(TOPIC, "x", delay="25m")
    sent = Counter(dict(service.stack.requests))
    service.stack.advance()
    [record] = [each for each in documents(capsys.readouterr().out) if each.get("function") == "ingest"]
    asked = Counter(dict(service.stack.requests)) - sent
    of_lambda = {"lambda.Invoke", "sqs.ReceiveMessage", "sqs.DeleteMessageBatch"}
    assert record["requests"] == {name: count for name, count in asked.items() if name not in of_lambda}
    assert record["requests"]["s3.PutObject"] == 1
    assert record["Requests"] == sum(record["requests"].values())


def test_the_sweep_names_the_late_topics_the_latest_first_and_no_topic_if_none_is_late(
    service: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, logged = service.function("sweep"), []
    monkeypatch.setattr(
        module.handler.telemetry.logger, "warning", lambda message, **given: logged.append((message, given))
    )
    service.invoke("sweep")
    assert logged == []
    late_ms = {"carts": 400_000, TOPIC: 1_000_000, **{f"topic-{n}": 1000 for n in range(100)}}
    monkeypatch.setattr(module, "health", lambda *_: Health(late_ms=late_ms))
    service.invoke("sweep")
    [(message, given)] = logged
    seconds = given["extra"]["seconds"]
    assert (message, list(seconds.items())[:2]) == ("overdue", [(TOPIC, 1000), ("carts", 400)])
    assert len(seconds) == module.MOST_TOLD
