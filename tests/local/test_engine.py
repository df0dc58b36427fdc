"""Queues, event source mappings and schedules of the local runtime, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Condition
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.toy import Toy
from tidewheel.clock import MovedClock
from tidewheel.local import LocalTidewheel, background
from tidewheel.local.background import BackgroundPump
from tidewheel.local.pump import Invocation, Kind, Pump, Trigger


def test_a_delayed_message_is_released_at_its_millisecond(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.stack.advance(milliseconds=123)
        toy.send("late", delay_s=900)
        toy.stack.advance(seconds=899.999)
        assert toy.calls("worker") == [] and toy.count() == (0, 1, 0)
        toy.stack.advance(milliseconds=1)
        assert toy.bodies() == [["late"]] and toy.times("worker") == [900.123]


def test_handled_messages_are_deleted_and_failed_ones_come_again_after_the_visibility_timeout(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.answer("worker", RuntimeError("boom"))
        toy.send("a")
        toy.stack.advance(seconds=59)
        assert toy.count() == (0, 0, 1)
        assert [str(failure.error) for failure in toy.stack.failures] == ["boom"]
        toy.stack.advance(seconds=1)
        assert toy.times("worker") == [0, 60] and toy.count() == (0, 0, 0)


def test_only_the_reported_failures_of_a_batch_come_again(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.send("good", "bad")
        queue = toy.stack.queue(toy.url)
        bad = next(message.id for message in queue.messages if message.body == "bad")
        toy.answer("worker", {"batchItemFailures": [{"itemIdentifier": bad}]})
        toy.stack.advance(minutes=1)
        assert toy.bodies() == [["good", "bad"], ["bad"]]
        assert [str(failure.error) for failure in toy.stack.failures] == ["1 of 2 messages reported as failed"]


def test_an_answer_with_unknown_failures_fails_the_whole_batch(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.answer("worker", {"batchItemFailures": [{"itemIdentifier": "nobody"}]})
        toy.send("a")
        toy.stack.advance()
        assert toy.count() == (0, 0, 1) and len(toy.stack.failures) == 1


def test_without_a_window_all_that_waits_comes_in_batches_of_the_batch_size(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.send(*(str(i) for i in range(25)))
        toy.stack.advance()
        assert [len(batch) for batch in toy.bodies()] == [10, 10, 5]


WINDOW = {"BatchSize": 10_000, "MaximumBatchingWindowInSeconds": 300}


def test_a_batch_window_starts_with_the_first_waiting_message(tmp_path: Path) -> None:
    with Toy(tmp_path, mapping=WINDOW) as toy:
        toy.stack.advance(seconds=100)
        toy.send("first")
        toy.stack.advance(seconds=20)  # the visibility time-out of the toy's queue is shorter than its window
        toy.send("second")
        toy.stack.advance(seconds=279)
        assert toy.calls("worker") == []
        toy.stack.advance(seconds=1)
        assert toy.times("worker") == [400]
        assert {"first", "second"} <= set(toy.bodies()[0])


def test_a_stack_may_shorten_batch_windows(tmp_path: Path) -> None:
    with Toy(tmp_path, mapping=WINDOW, bulk_window_s=1) as toy:
        toy.send("x")
        toy.stack.advance(seconds=1)
        assert toy.times("worker") == [1]


def test_a_window_ends_early_when_the_batch_is_full(tmp_path: Path) -> None:
    with Toy(tmp_path, mapping={**WINDOW, "BatchSize": 3}) as toy:
        toy.send("1", "2", "3", "4")
        toy.stack.advance(seconds=30)
        assert toy.bodies() == [["1", "2", "3"]] and toy.times("worker") == [0]


def test_an_event_stays_below_six_megabytes(tmp_path: Path) -> None:
    with Toy(tmp_path, mapping=WINDOW) as toy:
        toy.send(*("x" * 1_000_000 for _ in range(8)))
        toy.stack.advance(seconds=1)
        assert [len(batch) for batch in toy.bodies()] == [6]


def test_a_schedule_fires_once_at_its_second_and_is_deleted(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.schedule("orders.7", "at(2026-01-01T01:00:00)")
        toy.stack.advance(days=1)
        [(_, event, context)] = toy.calls("timer")
        assert toy.times("timer") == [3600] and event == {"topic": "t"}
        assert context.function_name == "toy-timer"
        assert toy.schedules() == []


def test_a_schedule_without_delete_stays_and_does_not_fire_again(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.schedule("s", "at(2026-01-01T01:00:00)", ActionAfterCompletion="NONE")
        toy.stack.advance(days=1)
        assert len(toy.calls("timer")) == 1 and "s" in toy.schedules()


def test_a_deleted_or_moved_schedule_fires_by_its_new_state(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.schedule("gone", "at(2026-01-01T01:00:00)")
        toy.scheduler.delete_schedule(GroupName="group", Name="gone")
        toy.schedule("moved", "at(2026-01-01T01:00:00)")
        arn = "arn:aws:lambda:us-east-1:123456789012:function:toy-timer"
        toy.scheduler.update_schedule(
            GroupName="group",
            Name="moved",
            ScheduleExpression="at(2026-01-01T02:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": arn, "RoleArn": "arn:aws:iam::123456789012:role/scheduler"},
        )
        toy.stack.advance(days=1)
        assert toy.times("timer") == [7200]


def test_a_failing_schedule_is_retried_twice_and_then_put_on_its_dead_letter_queue(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.answer("timer", *(RuntimeError("down") for _ in range(3)))
        toy.schedule("s", "at(2026-01-01T00:00:10)")
        toy.stack.advance(hours=1)
        assert toy.times("timer") == [10, 70, 190]
        assert toy.count("schedule-dead") == (1, 0, 0)


def test_a_dead_letter_queue_that_is_gone_stops_nothing_else(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.answer("timer", *(RuntimeError("down") for _ in range(3)))
        toy.schedule("s", "at(2026-01-01T00:00:10)")
        toy.schedule("later", "at(2026-01-01T00:30:00)")
        toy.sqs.delete_queue(QueueUrl=toy.sqs.get_queue_url(QueueName="schedule-dead")["QueueUrl"])
        toy.stack.advance(hours=1)
        assert toy.times("timer") == [10, 70, 190, 1800]
        assert [type(each.error).__name__ for each in toy.stack.failures] == [*["RuntimeError"] * 3, "SqsError"]


@pytest.mark.parametrize(
    ("name", "expression", "code"),
    [
        ("past", "at(2025-12-31T23:59:59)", "ValidationException"),
        ("malformed", "at(tomorrow)", "ValidationException"),
        ("malformed", "rate(1 minutes)", "ValidationException"),
        ("no-date", "at(2026-02-30T00:00:00)", "ValidationException"),
        ("taken", "at(2026-02-01T00:00:00)", "ConflictException"),
    ],
)
def test_what_aws_refuses_is_refused(tmp_path: Path, name: str, expression: str, code: str) -> None:
    with Toy(tmp_path) as toy:
        toy.schedule("taken", "at(2026-02-01T00:00:00)")
        with pytest.raises(ClientError) as refused:
            toy.schedule(name, expression)
        assert refused.value.response["Error"]["Code"] == code


def test_a_schedule_of_an_unknown_group_is_refused(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy, pytest.raises(ClientError, match="ResourceNotFoundException"):
        toy.schedule("s", "at(2026-02-01T00:00:00)", GroupName="nowhere")


def _next_work(toy: Toy, look_at_s: int | None) -> None:
    item: dict[str, Any] = {"pk": {"S": "T#t"}, "sk": {"S": "STATE"}}
    if look_at_s is not None:
        item |= {"check_shard": {"S": "0"}, "next_check_ms": {"N": str((1767225600 + look_at_s) * 1000)}}
    toy.table.put_item(TableName="table", Item=item)


def test_sweeps_are_skipped_until_the_wake_index_has_something_to_look_at(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.stack.advance(days=365)
        assert toy.calls("sweep") == []
        year = 365 * 86_400
        _next_work(toy, year + 1000)
        toy.stack.advance(seconds=1800)
        assert toy.times("sweep") == [year + 1200, year + 1500, year + 1800]
        _next_work(toy, None)
        toy.stack.advance(days=1)
        assert len(toy.calls("sweep")) == 3


def test_a_transaction_that_fails_leaves_the_wake_index_and_the_items_as_they_were(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        _next_work(toy, 1000)
        key = {"pk": {"S": "T#t"}, "sk": {"S": "STATE"}}
        with pytest.raises(toy.table.exceptions.TransactionCanceledException) as cancelled:
            toy.table.transact_write_items(
                TransactItems=[
                    {"Delete": {"TableName": "table", "Key": key}},
                    {"Put": {"TableName": "table", "Item": {"pk": {"S": "new"}, "sk": {"S": "new"}}}},
                    {
                        "ConditionCheck": {
                            "TableName": "table",
                            "Key": {"pk": {"S": "x"}, "sk": {"S": "x"}},
                            "ConditionExpression": "attribute_exists(pk)",
                        }
                    },
                ]
            )
        codes = [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]
        assert codes == ["None", "None", "ConditionalCheckFailed"]
        items = toy.table.scan(TableName="table")["Items"]
        assert [item["pk"]["S"] for item in items] == ["T#t"]
        toy.stack.advance(seconds=1200)
        assert toy.times("sweep") == [1200]


def test_events_happen_in_the_order_of_time_and_run_again_the_same(tmp_path: Path) -> None:
    def run(folder: Path) -> list[tuple[float, str]]:
        folder.mkdir()
        with Toy(folder) as toy:
            toy.schedule("b", "at(2026-01-01T00:00:30)")
            toy.send("x", delay_s=20)
            toy.send("y", delay_s=30)
            toy.schedule("a", "at(2026-01-01T00:00:10)")
            toy.stack.advance(minutes=1)
            happened = [(time, "timer") for time in toy.times("timer")]
            return sorted(happened + [(time, "worker") for time in toy.times("worker")])

    assert run(tmp_path / "1") == run(tmp_path / "2") == [(10, "timer"), (20, "worker"), (30, "timer"), (30, "worker")]


def test_requests_are_counted_by_kind_with_their_billed_units(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.stack.requests.clear()
        toy.stack.requests.units.clear()
        toy.send("x" * 100_000)
        toy.schedule("s", "at(2026-01-01T00:00:30)")
        key = {"pk": {"S": "a"}, "sk": {"S": "b"}}
        toy.table.put_item(TableName="table", Item={**key, "data": {"S": "d" * 3000}})
        toy.table.transact_write_items(TransactItems=[{"Delete": {"TableName": "table", "Key": key}}])
        toy.stack.advance(minutes=1)
        assert dict(toy.stack.requests) == {
            "sqs.SendMessage": 1,
            "sqs.ReceiveMessage": 1,
            "sqs.DeleteMessageBatch": 1,
            "scheduler.CreateSchedule": 1,
            "scheduler.Invoke": 1,
            "dynamodb.PutItem": 1,
            "dynamodb.TransactWriteItems": 1,
            "lambda.Invoke": 2,
        }
        assert toy.stack.requests.units["sqs.request"] == 5
        assert toy.stack.requests.units["dynamodb.write"] == 3 + 2


class Busy:
    """Senders whose next message has come before the last one was handled, and a sweep each 300 s."""

    def __init__(self, clock: MovedClock) -> None:
        self.clock, self.swept = clock, clock.now_ms()
        self.sweeps: list[int] = []
        self.sent = 0

    def waiting(self) -> Iterator[Trigger]:
        yield self.clock.now_ms(), Kind.START, lambda: [Invocation(function="ingest", event=None, call=self.send)]
        sweep = Invocation(function="sweep", event=None, call=self.sweep)
        yield self.swept + 300_000, Kind.RECURRING, lambda: [sweep]

    def send(self) -> None:
        self.sent += 1

    def sweep(self) -> None:
        self.swept += 300_000
        self.sweeps.append(self.swept)


def test_skipped_time_comes_to_its_end_while_senders_keep_the_service_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_PATIENCE_S", 0.0)
    clock = MovedClock()
    busy, began_ms = Busy(clock), clock.now_ms()
    pump = BackgroundPump(Pump(clock, busy, [], ["ingest", "sweep"]), Condition(), clock)
    pump.start()
    try:
        pump.skip(3 * 86_400_000)
        assert clock.now_ms() - began_ms >= 3 * 86_400_000
        assert busy.sent > 0 and len(busy.sweeps) == 3 * 288  # all that was due on the way
    finally:
        pump.stop()


def test_a_sweep_that_the_pump_comes_late_to_is_not_left_out_and_those_of_a_slept_night_are_one() -> None:
    def ticks() -> list[int]:
        return [at_ms for at_ms, kind, _ in stack._pump._triggers.waiting() if kind is Kind.RECURRING]

    with LocalTidewheel() as stack:
        stack.drop_schedules = True
        tw = stack.client()
        tw.create_topic("orders")
        tw.send("orders", "hello", delay="1h")
        stack.advance(minutes=46)
        [tick_ms] = ticks()
        for late_ms in (3, 8 * 3_600_000):
            stack.clock.set_ms(tick_ms + late_ms)  # as real time does, while the pump is busy
            assert ticks() == [tick_ms]
        swept = stack.invocations["sweep"]
        stack.advance(seconds=1)
        assert stack.invocations["sweep"] == swept + 1
