"""The coarse timing wheel: one-time schedules that invoke dispatch, and the sweep that heals lost ones."""

from __future__ import annotations

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk.aws_scheduler_targets import LambdaInvoke
from constructs import Construct

from tidewheel.aws.s3_layout import ASIDE, CHECKPOINTS, COLLECTED, IMPORTS, LEDGERS, PARKED, PAYLOADS, PLANS
from tidewheel.cdk.delivery import Delivery
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import function_name, python_function
from tidewheel.cdk.queues import terminal_queue
from tidewheel.cdk.storage import Storage

DISPATCH_TIMEOUT = Duration.seconds(120)
SWEEP_TIMEOUT = Duration.seconds(240)
SCHEDULER = "scheduler.amazonaws.com"


class TimingWheel(Construct):
    """EventBridge Scheduler as the wheel, with the functions that it turns.

    Attributes:
        group_name: The schedule group, named like the stack.
        dead_letters: Queue of invocations that the scheduler gave up.
        dispatch_arn: ARN of the dispatch function, formatted from its name: dispatch arms the wheel
            for itself, so its own variables hold its ARN, and a reference would be a cycle.
        role: The role with which a schedule invokes its function; it can do nothing else.
        dispatch: Seals, plans and hands out the slots that are due.
        sweep: Does the same for topics whose schedule was lost, and clears up after crashes.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        environment: Environment,
        code: lambda_.Code,
        storage: Storage,
        delivery: Delivery,
    ) -> None:
        """Make the group, the role, both functions and the sweep's schedule."""
        super().__init__(scope, id_)
        self.group_name = Aws.STACK_NAME
        self.dead_letters = terminal_queue(self, "ScheduleDeadLetters")
        self.dispatch_arn = Stack.of(self).format_arn(
            service="lambda",
            resource="function",
            resource_name=function_name("dispatch"),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        group = scheduler.ScheduleGroup(
            self,
            "Group",
            schedule_group_name=self.group_name,
            removal_policy=environment.removal_policy,
        )
        self.role = self._schedule_role()
        self.dispatch = python_function(
            self,
            "dispatch",
            description="Tidewheel: seals, plans and hands out the slots of one topic that are due",
            code=code,
            environment=environment,
            timeout=DISPATCH_TIMEOUT,
            memory_mib=environment.dispatch_memory_mib,
        )
        self.sweep = python_function(
            self,
            "sweep",
            description="Tidewheel: finds work that a lost schedule or a crash left, and does it",
            code=code,
            environment=environment,
            timeout=SWEEP_TIMEOUT,
            memory_mib=environment.sweep_memory_mib,
        )
        self._schedule_sweep(group, environment)
        self._allow_dispatching(storage, delivery)
        self._allow_sweeping(storage)

    def grant_arm(self, grantee: iam.IGrantable) -> None:
        """Allow to make schedules in the group, and to hand the role to the scheduler."""
        schedules = self._scheduler_arn("schedule", f"{self.group_name}/*")
        principal = grantee.grant_principal
        principal.add_to_principal_policy(
            iam.PolicyStatement(actions=["scheduler:CreateSchedule"], resources=[schedules])
        )
        principal.add_to_principal_policy(
            iam.PolicyStatement(
                actions=["iam:PassRole"],
                resources=[self.role.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": SCHEDULER}},
            )
        )

    def _grant_disarm(self, grantee: iam.IGrantable) -> None:
        """Allow to find and delete schedules of the group; listing them knows no resource, so it is allowed on all."""
        schedules = self._scheduler_arn("schedule", f"{self.group_name}/*")
        principal = grantee.grant_principal
        principal.add_to_principal_policy(
            iam.PolicyStatement(actions=["scheduler:DeleteSchedule"], resources=[schedules])
        )
        principal.add_to_principal_policy(iam.PolicyStatement(actions=["scheduler:ListSchedules"], resources=["*"]))

    def _schedule_role(self) -> iam.Role:
        """Make the role; only schedules of this group, in this account, can assume it."""
        group_arn = self._scheduler_arn("schedule-group", self.group_name)
        own = {"aws:SourceAccount": Aws.ACCOUNT_ID, "aws:SourceArn": group_arn}
        return iam.Role(
            self,
            "ScheduleRole",
            assumed_by=iam.ServicePrincipal(SCHEDULER, conditions={"StringEquals": own}),
            description="Lets the schedules of Tidewheel invoke dispatch and sweep",
        )

    def _schedule_sweep(self, group: scheduler.IScheduleGroup, environment: Environment) -> None:
        """Make the recurring schedule. A late sweep is worth nothing once the next one is due."""
        interval = Duration.seconds(environment.sweep_interval_s)
        schedule = scheduler.Schedule(
            self,
            "SweepSchedule",
            schedule_name="sweep",
            schedule_group=group,
            schedule=scheduler.ScheduleExpression.rate(interval),
            description="Tidewheel: heals lost schedules",
            target=LambdaInvoke(
                self.sweep,
                input=scheduler.ScheduleTargetInput.from_object({}),
                role=self.role,
                dead_letter_queue=self.dead_letters,
                max_event_age=interval,
            ),
        )
        # The group's name is the stack's, so naming it is no reference to the group.
        schedule.node.add_dependency(group)

    def _allow_dispatching(self, storage: Storage, delivery: Delivery) -> None:
        """Allow dispatch its work, collecting included, and the sweep the same."""
        self.dispatch.grant_invoke(self.role)
        for function in (self.dispatch, self.sweep):
            storage.grant_items(function)
            storage.grant_item_deletes(function)
            storage.grant_objects(function, "s3:GetObject", "s3:DeleteObject", prefixes=(LEDGERS, PLANS, CHECKPOINTS))
            storage.grant_objects(function, "s3:PutObject", prefixes=(PLANS, CHECKPOINTS))
            self.grant_arm(function)
            delivery.work_queue.grant_send_messages(function)
            delivery.grant_sends(function)

    def _allow_sweeping(self, storage: Storage) -> None:
        """Allow the sweep to find what needs a look, and objects that nothing names any more."""
        storage.grant_wake_queries(self.sweep)
        # Of a topic that was deleted, everything goes.
        storage.grant_objects(self.sweep, "s3:DeleteObject", prefixes=(ASIDE, IMPORTS, PARKED, PAYLOADS))
        # How far each topic's large bodies have been handed out.
        marks = f"{PAYLOADS}*/{COLLECTED}"
        storage.grant_objects(self.sweep, "s3:GetObject", "s3:PutObject", prefixes=(marks,))
        self._grant_disarm(self.sweep)
        for function in (self.dispatch, self.sweep):
            storage.grant_listing(function)

    def _scheduler_arn(self, resource: str, name: str) -> str:
        return Stack.of(self).format_arn(service="scheduler", resource=resource, resource_name=name)
