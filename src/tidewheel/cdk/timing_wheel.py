"""Deploys the coarse timing wheel and the sweep.

One-time schedules invoke dispatch. A rule of its own starts the sweep, which repairs lost schedules.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Aws, Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk.aws_events_targets import LambdaFunction
from constructs import Construct

from tidewheel.aws.scheduler_wheel import MAX_RETRIES
from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.encryption import grant_key
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import Foundation, limit_asynchronous_calls, python_function
from tidewheel.cdk.nag_suppressions import acknowledge_wildcards
from tidewheel.cdk.names import resource_name, service_name
from tidewheel.cdk.queues import grant_queue_sends, terminal_queue
from tidewheel.cdk.statements import allow
from tidewheel.cdk.storage import DAILY_WORK, ITEM_WRITES, KEYS, LISTED, NOTES, OF_PACKS, TOMBSTONES, TOPICS, Storage
from tidewheel.model.object_names import (
    ASIDE,
    CHECKPOINTS,
    IMPORTS,
    LEDGERS,
    LIVE,
    PARKED,
    PAYLOADS,
    PLANS,
    collections_name,
)
from tidewheel.model.settings import MAX_DELIVERY_S
from tidewheel.model.triggers import RETRIES

DISPATCH_TIMEOUT = Duration.seconds(MAX_DELIVERY_S)
SWEEP_TIMEOUT = Duration.seconds(240)
"""A minute more than `tidewheel.flows.maintenance.sweep.SWEEP_MS`, after which a sweep begins no further work."""
DISPATCH_AGE = Duration.seconds(600)
"""Enough time for both retries of a call that timed out. Within this time, two sweeps have found the topic too."""

SCHEDULER = "scheduler.amazonaws.com"


class TimingWheel(Construct):
    """The schedule group, the dispatch function and the sweep function.

    Attributes:
        group_name: The schedule group, named like the service.
        dead_letters: Queue of invocations that the scheduler gave up.
        dispatch_arn: ARN of the dispatch function, formatted from its name: dispatch creates schedules for itself, so
            its own variables hold its ARN, and a reference would be a cycle.
        role: The role with which a schedule invokes dispatch; the role has no other permissions.
        dispatch: Seals, plans and hands out the slots that are due.
        sweep: Starts dispatch for topics whose schedule was lost, and clears up after crashes.
    """

    def __init__(self, scope: Construct, id_: str, foundation: Foundation, delivery: Delivery) -> None:
        """Creates the group, the role, both functions and the sweep's rule."""
        super().__init__(scope, id_)
        environment = foundation.environment
        self.group_name = service_name(self)
        self.dead_letters = terminal_queue(
            self,
            "ScheduleDeadLetters",
            environment,
            why="It holds dead letters of EventBridge Scheduler and of Lambda, which name it in their own settings.",
        )
        self.dispatch_arn = Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=resource_name(self, "dispatch"),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        scheduler.ScheduleGroup(
            self,
            "Group",
            schedule_group_name=self.group_name,
            # Schedules are not data: if the stack is created again, its sweep starts dispatch in their place.
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = self._schedule_role()
        self.dispatch = python_function(
            self,
            "dispatch",
            foundation,
            DISPATCH_TIMEOUT,
            "seals, plans and hands out the slots of one topic that are due",
        )
        self.sweep = python_function(
            self, "sweep", foundation, SWEEP_TIMEOUT, "finds work that a lost schedule or a crash left, and does it"
        )
        self._limit_calls(environment)
        self._start_sweeps(environment)
        self._allow_dispatching(foundation.storage, delivery)
        self._allow_sweeping(foundation.storage)

    def grant_schedule(self, grantee: iam.IGrantable) -> None:
        """Allows to create schedules in the group, and to pass the role to the scheduler."""
        schedules = self._scheduler_arn("schedule", f"{self.group_name}/*")
        allow(grantee, ["scheduler:CreateSchedule"], [schedules])
        acknowledge_wildcards(grantee, [schedules], "Topics' schedules come and go; the group is the service's own.")
        allow(grantee, ["iam:PassRole"], [self.role.role_arn], {"StringEquals": {"iam:PassedToService": SCHEDULER}})

    def _grant_unschedule(self, grantee: iam.IGrantable) -> None:
        """Allows to list and delete schedules of the group.

        IAM cannot limit the listing to a group, so listing is allowed on all schedules.
        """
        allow(grantee, ["scheduler:DeleteSchedule"], [self._scheduler_arn("schedule", f"{self.group_name}/*")])
        allow(grantee, ["scheduler:ListSchedules"], ["*"])

    def _schedule_role(self) -> iam.Role:
        """Creates the role, which only schedules of this group and account can assume."""
        group_arn = self._scheduler_arn("schedule-group", self.group_name)
        own = {"aws:SourceAccount": Aws.ACCOUNT_ID, "aws:SourceArn": group_arn}
        role = iam.Role(
            self,
            "ScheduleRole",
            assumed_by=iam.ServicePrincipal(SCHEDULER, conditions={"StringEquals": own}),
            description="Lets the schedules of Tidewheel invoke dispatch",
        )
        grant_queue_sends(role, self.dead_letters)
        grant_key(role, self, "sqs")
        return role

    def _limit_calls(self, environment: Environment) -> None:
        """Limits the retries of asynchronous calls, by schedules, the rule and the sweep."""
        limit_asynchronous_calls(
            self.dispatch, max_age=DISPATCH_AGE, retries=RETRIES["dispatch"], dead_letters=self.dead_letters
        )
        interval = Duration.seconds(environment.sweep_interval_s)
        limit_asynchronous_calls(self.sweep, max_age=interval, retries=RETRIES["sweep"], dead_letters=self.dead_letters)

    def _start_sweeps(self, environment: Environment) -> None:
        """Creates the rule that starts the sweep. A late sweep has no value once the next sweep is due.

        EventBridge is another service than EventBridge Scheduler. So an outage of the scheduler does not stop the
        sweep, which does the scheduler's work then.
        """
        interval = Duration.seconds(environment.sweep_interval_s)
        events.Rule(
            self,
            "SweepRule",
            rule_name=resource_name(self, "sweep"),
            schedule=events.Schedule.rate(interval),
            description="Tidewheel: heals lost schedules",
            targets=[
                LambdaFunction(
                    self.sweep,
                    event=events.RuleTargetInput.from_object({}),
                    max_event_age=interval,
                    retry_attempts=MAX_RETRIES,
                )
            ],
        )

    def _allow_dispatching(self, storage: Storage, delivery: Delivery) -> None:
        """Allows dispatch its work, including collecting, and the sweep the same except sending.

        The sweep does not send messages, since it starts dispatch for sending.
        """
        allow(self.role, ["lambda:InvokeFunction"], [self.dispatch.function_arn])
        for function in (self.dispatch, self.sweep):
            storage.grant_items(function, TOPICS, *ITEM_WRITES)  # both also put trash and records of deliveries
            # Tombstones that are needed for longer are put again.
            storage.grant_items(function, TOMBSTONES, "dynamodb:PutItem", "dynamodb:Query")
            storage.grant_items(function, KEYS, "dynamodb:Query")  # a checkpoint has the keys that no ledger has
            storage.grant_objects(function, "s3:GetObject", "s3:PutObject", prefixes=(CHECKPOINTS,))
            storage.grant_objects(function, "s3:DeleteObject", prefixes=(LEDGERS, PLANS, CHECKPOINTS))
            # Strict erasure deletes ledgers in all versions.
            storage.grant_objects(function, "s3:DeleteObjectVersion", prefixes=(LEDGERS,))
            storage.grant_listing(function, versions=True)
            self.grant_schedule(function)
            grant_queue_sends(function, delivery.work_queue)
        storage.grant_objects(self.dispatch, "s3:GetObject", prefixes=(LEDGERS, PLANS))
        storage.grant_objects(self.dispatch, "s3:PutObject", prefixes=(PLANS,))
        delivery.grant_sends(self.dispatch)

    def _allow_sweeping(self, storage: Storage) -> None:
        """Allows the sweep to find topics and deliveries to check, and orphaned objects."""
        storage.grant_check_queries(self.sweep)
        storage.grant_items(self.sweep, DAILY_WORK, "dynamodb:UpdateItem")
        storage.grant_items(self.sweep, LISTED, "dynamodb:DeleteItem")
        allow(self.sweep, ["lambda:InvokeFunction"], [self.dispatch.function_arn])
        # All items of a deleted topic are deleted.
        storage.grant_items(self.sweep, KEYS, "dynamodb:DeleteItem")
        storage.grant_items(self.sweep, TOMBSTONES, "dynamodb:DeleteItem")
        storage.grant_items(self.sweep, OF_PACKS, "dynamodb:DeleteItem", "dynamodb:Query")
        # When a topic was deleted.
        storage.grant_items(self.sweep, NOTES, "dynamodb:PutItem")
        storage.grant_objects(self.sweep, "s3:DeleteObject", prefixes=(ASIDE, IMPORTS, LIVE, PARKED, PAYLOADS))
        # The marks say how far each topic's large bodies have been handed out.
        marks = collections_name("*")
        storage.grant_objects(self.sweep, "s3:GetObject", "s3:PutObject", prefixes=(marks, LIVE))
        self._grant_unschedule(self.sweep)

    def _scheduler_arn(self, resource: str, name: str) -> str:
        return Stack.of(self).format_arn(service="scheduler", resource=resource, resource_name=name)
