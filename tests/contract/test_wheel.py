"""Tests the port Wheel in memory and on EventBridge Scheduler, with the exact request to Scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.contract.aws_resources import client
from tidewheel.aws.scheduler_wheel import SchedulerWheel
from tidewheel.clock import ManualClock
from tidewheel.flows.ports import Wheel
from tidewheel.memory import MemoryWheel

NOW_MS = 1_769_817_600_000  # 2026-01-31T00:00:00Z


def scheduler_wheel(
    scheduler: Any, clock: ManualClock | None = None, sleep: Callable[[float], None] = lambda _: None
) -> SchedulerWheel:
    return SchedulerWheel(
        scheduler,
        clock or ManualClock(NOW_MS),
        group="default",
        dispatch_arn="arn:aws:lambda:eu-west-1:123456789012:function:tidewheel-dispatch",
        role_arn="arn:aws:iam::123456789012:role/schedules",
        dead_letter_arn="arn:aws:sqs:eu-west-1:123456789012:schedule-dead-letters",
        sleep=sleep,
    )


@pytest.fixture(params=["memory", "aws"])
def wheel(request: pytest.FixtureRequest) -> tuple[Wheel, Any]:
    """A wheel, and a function to return its schedules by name as (topic, slot)."""
    if request.param == "memory":
        memory = MemoryWheel()
        return memory, lambda: {name: each[:2] for name, each in memory.schedules.items()}
    request.getfixturevalue("aws")
    scheduler = client("scheduler")
    for schedule in scheduler.list_schedules()["Schedules"]:
        scheduler.delete_schedule(Name=schedule["Name"])

    def schedules() -> dict[str, tuple[str, int]]:
        found = {}
        for schedule in scheduler.list_schedules()["Schedules"]:
            event = json.loads(scheduler.get_schedule(Name=schedule["Name"])["Target"]["Input"])
            found[schedule["Name"]] = (event["topic"], event["slot"])
        return found

    return scheduler_wheel(scheduler), schedules


def test_each_slot_that_was_armed_has_one_schedule(wheel: tuple[Wheel, Any]) -> None:
    port, schedules = wheel
    port.schedule("orders", 100, NOW_MS + 60_000)
    port.schedule("orders", 101, NOW_MS + 360_000)
    port.schedule("mail", 100, NOW_MS + 60_000)
    assert schedules() == {"orders.100": ("orders", 100), "orders.101": ("orders", 101), "mail.100": ("mail", 100)}


def test_arming_a_slot_again_is_fine_and_changes_nothing(wheel: tuple[Wheel, Any]) -> None:
    port, schedules = wheel
    port.schedule("orders", 100, NOW_MS + 60_000)
    port.schedule("orders", 100, NOW_MS + 90_000)
    assert schedules() == {"orders.100": ("orders", 100)}


def test_all_schedules_of_a_topic_are_deleted_and_no_others(wheel: tuple[Wheel, Any]) -> None:
    port, schedules = wheel
    for slot in range(100, 103):
        port.schedule("orders", slot, NOW_MS + 60_000)
    port.schedule("orders-2", 100, NOW_MS + 60_000)
    port.schedule("order", 100, NOW_MS + 60_000)
    port.unschedule("orders")
    assert set(schedules()) == {"orders-2.100", "order.100"}
    port.unschedule("orders")
    port.unschedule("unknown")
    assert set(schedules()) == {"orders-2.100", "order.100"}


def test_schedules_that_are_due_are_taken_from_the_fake_in_order_of_time() -> None:
    wheel = MemoryWheel()
    for slot, fires_at_ms in ((3, 300), (1, 100), (2, 200)):
        wheel.schedule("orders", slot, fires_at_ms)
    wheel.schedule("orders", 1, 5000)
    assert wheel.take_due(99) == []
    assert wheel.take_due(200) == [("orders", 1, 100), ("orders", 2, 200)]
    assert wheel.take_due(200) == []
    assert set(wheel.schedules) == {"orders.3"}


# ---- EventBridge Scheduler
@dataclass
class Scheduler:
    """Notes requests. Refuses the first `times` requests if `refusal` is set."""

    refusal: str | None = None
    times: int = 99
    requests: list[dict[str, Any]] = field(default_factory=list)

    def create_schedule(self, **request: Any) -> None:
        self.requests.append(request)
        if self.refusal is not None and len(self.requests) <= self.times:
            raise ClientError({"Error": {"Code": self.refusal, "Message": "no"}}, "CreateSchedule")


def test_a_schedule_is_one_request_that_says_all() -> None:
    scheduler = Scheduler()
    scheduler_wheel(scheduler).schedule("orders", 5899393, NOW_MS + 61_500)
    assert scheduler.requests == [
        {
            "Name": "orders.5899393",
            "GroupName": "default",
            "ScheduleExpression": "at(2026-01-31T00:01:02)",
            "ScheduleExpressionTimezone": "UTC",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "Target": {
                "Arn": "arn:aws:lambda:eu-west-1:123456789012:function:tidewheel-dispatch",
                "RoleArn": "arn:aws:iam::123456789012:role/schedules",
                "Input": '{"topic": "orders", "slot": 5899393}',
                "RetryPolicy": {"MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 3},
                "DeadLetterConfig": {"Arn": "arn:aws:sqs:eu-west-1:123456789012:schedule-dead-letters"},
            },
        }
    ]


def test_a_schedule_whose_time_has_passed_fires_five_seconds_from_now() -> None:
    scheduler = Scheduler()
    scheduler_wheel(scheduler).schedule("orders", 100, NOW_MS - 90_000)
    assert scheduler.requests[0]["ScheduleExpression"] == "at(2026-01-31T00:00:05)"


def test_a_schedule_that_exists_is_fine_and_any_other_refusal_comes_out() -> None:
    scheduler_wheel(Scheduler(refusal="ConflictException")).schedule("orders", 100, NOW_MS)
    with pytest.raises(ClientError, match="ServiceQuotaExceededException"):
        scheduler_wheel(Scheduler(refusal="ServiceQuotaExceededException")).schedule("orders", 100, NOW_MS)


def test_a_refused_schedule_is_asked_for_once_more_after_a_random_wait() -> None:
    waits: list[float] = []
    for _ in range(20):
        scheduler = Scheduler(refusal="ThrottlingException", times=1)
        scheduler_wheel(scheduler, sleep=waits.append).schedule("orders", 100, NOW_MS)
        assert len(scheduler.requests) == 2
    assert len(set(waits)) == 20 and min(waits) >= 0 and max(waits) <= 1
    scheduler = Scheduler(refusal="ThrottlingException")
    with pytest.raises(ClientError, match="ThrottlingException"):
        scheduler_wheel(scheduler).schedule("orders", 100, NOW_MS)
    assert len(scheduler.requests) == 2


def test_a_scheduler_that_does_not_answer_is_asked_once() -> None:
    class Hanging(Scheduler):
        def create_schedule(self, **request: Any) -> None:
            super().create_schedule(**request)
            raise ReadTimeoutError(endpoint_url="scheduler")

    scheduler = Hanging()
    with pytest.raises(ReadTimeoutError):
        scheduler_wheel(scheduler).schedule("orders", 100, NOW_MS)
    assert len(scheduler.requests) == 1


class Fired:
    """Lists two schedules, and refuses their deletion with a given code."""

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def get_paginator(self, name: str) -> Any:
        assert name == "list_schedules"
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        assert request == {"GroupName": "default", "NamePrefix": "orders."}
        return [{"Schedules": [{"Name": "orders.1"}]}, {"Schedules": [{"Name": "orders.2"}]}]

    def delete_schedule(self, **_: Any) -> None:
        raise ClientError({"Error": {"Code": self.refusal, "Message": "no"}}, "DeleteSchedule")


def test_a_schedule_that_fires_before_it_is_deleted_is_fine_and_any_other_refusal_comes_out() -> None:
    scheduler_wheel(Fired("ResourceNotFoundException")).unschedule("orders")
    with pytest.raises(ClientError, match="ThrottlingException"):
        scheduler_wheel(Fired("ThrottlingException")).unschedule("orders")
