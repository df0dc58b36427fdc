"""Implements the coarse wheel with one-time schedules of EventBridge Scheduler."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidewheel.clock import Clock
from tidewheel.model.wheel import schedule_name, schedule_prefix, schedule_time_s

if TYPE_CHECKING:
    from mypy_boto3_scheduler import EventBridgeSchedulerClient

MAX_EVENT_AGE_S = 300
"""Time for which EventBridge Scheduler tries to invoke dispatch. The sweep finds slots whose invocations failed."""
MAX_RETRIES = 3
_WAIT_S = 1.0
"""The longest wait before the second request for a schedule. All topics' requests of a second are spread over it."""


@dataclass(eq=False)
class SchedulerWheel:
    """Implements the port `Wheel` in an EventBridge schedule group.

    Attributes:
        client: boto3's Scheduler client.
        clock: ensures that no schedule is created in the past.
        group: the schedule group's name.
        dispatch_arn: the function that schedules invoke, with {"topic": ..., "slot": ...}.
        role_arn: the role with which schedules invoke the function.
        dead_letter_arn: the queue of invocations that failed permanently.
        sleep: waits for some seconds before the second request.
    """

    client: EventBridgeSchedulerClient
    clock: Clock
    _: KW_ONLY
    group: str
    dispatch_arn: str
    role_arn: str
    dead_letter_arn: str
    sleep: Callable[[float], None] = time.sleep

    def schedule(self, topic: str, slot: int, fires_at_ms: int) -> None:
        """Creates a schedule, deleted after firing. An existing schedule is no error.

        A refusal leads to a second request after a random wait. A scheduler that does not answer is asked once.
        """
        try:
            self._create(topic, slot, fires_at_ms)
        except ClientError:
            self.sleep(random.uniform(0, _WAIT_S))
            self._create(topic, slot, fires_at_ms)

    def _create(self, topic: str, slot: int, fires_at_ms: int) -> None:
        time_s = schedule_time_s(fires_at_ms, self.clock.now_ms())
        at = datetime.fromtimestamp(time_s, UTC)
        try:
            self.client.create_schedule(
                Name=schedule_name(topic, slot),
                GroupName=self.group,
                ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
                ScheduleExpressionTimezone="UTC",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target={
                    "Arn": self.dispatch_arn,
                    "RoleArn": self.role_arn,
                    "Input": json.dumps({"topic": topic, "slot": slot}),
                    "RetryPolicy": {"MaximumEventAgeInSeconds": MAX_EVENT_AGE_S, "MaximumRetryAttempts": MAX_RETRIES},
                    "DeadLetterConfig": {"Arn": self.dead_letter_arn},
                },
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConflictException":
                raise

    def unschedule(self, topic: str) -> None:
        """Lists the topic's schedules with a request for each hundred, and deletes each with a request."""
        pages = self.client.get_paginator("list_schedules").paginate(
            GroupName=self.group, NamePrefix=schedule_prefix(topic)
        )
        names = [schedule["Name"] for page in pages for schedule in page["Schedules"]]
        for name in names:
            try:
                self.client.delete_schedule(Name=name, GroupName=self.group)
            except ClientError as error:  # The schedule has fired and deleted itself.
                if error.response["Error"]["Code"] != "ResourceNotFoundException":
                    raise
