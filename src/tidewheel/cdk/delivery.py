"""Delivery: the work queue of parts, and the function that sends them to the subscriptions' queues."""

from __future__ import annotations

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_lambda_event_sources import SqsEventSource
from constructs import Construct

from tidewheel.aws.s3_layout import LEDGERS, PARKED, PLANS
from tidewheel.cdk.environment import Environment
from tidewheel.cdk.functions import python_function
from tidewheel.cdk.queues import source_queue, terminal_queue
from tidewheel.cdk.storage import Storage

DELIVER_TIMEOUT = Duration.seconds(120)

WORK_VISIBILITY = Duration.seconds(720)
"""Six times the function's time-out, as AWS recommends for event sources."""


class Delivery(Construct):
    """The last leg of a message's way.

    Attributes:
        work_queue: Holds parts of deliveries and parks; each is one function call's work.
        refused_queue: Holds messages that SQS refused for good.
        deliver: The function that sends a part or a park.
        roles: Roles that may send to the subscriptions' queues, in the order of their grants.
    """

    def __init__(
        self, scope: Construct, id_: str, *, environment: Environment, code: lambda_.Code, storage: Storage
    ) -> None:
        """Make the queues and the function, and allow it to read objects and send messages."""
        super().__init__(scope, id_)
        self._subscriber_queue_arns = environment.subscriber_queue_arns
        self.roles: list[iam.IRole] = []
        self.work_queue = source_queue(self, "WorkQueue", visibility_timeout=WORK_VISIBILITY)
        self.refused_queue = terminal_queue(self, "RefusedQueue")
        self.deliver = python_function(
            self,
            "deliver",
            description="Tidewheel: sends one part of a delivery to a subscription's queue",
            code=code,
            environment=environment,
            timeout=DELIVER_TIMEOUT,
            memory_mib=environment.deliver_memory_mib,
        )
        self.deliver.add_event_source(SqsEventSource(self.work_queue, batch_size=1, report_batch_item_failures=True))
        storage.grant_items(self.deliver)
        storage.grant_item_deletes(self.deliver)
        storage.grant_objects(self.deliver, "s3:GetObject", prefixes=(LEDGERS, PLANS, PARKED))
        storage.grant_objects(self.deliver, "s3:PutObject", "s3:DeleteObject", prefixes=(PARKED,))
        self.work_queue.grant_send_messages(self.deliver)
        storage.grant_listing(self.deliver)
        self.grant_sends(self.deliver)

    def grant_sends(self, function: lambda_.Function) -> None:
        """Allow a function to send to the subscriptions' queues, and to put aside what SQS refuses.

        Subscriptions come and go without a deployment, so their queues are allowed by name: `<stack>-...`
        and those that the environment lists. Any other queue of this account may allow the roles by its own
        policy (`tidewheel.cdk.grant_deliveries`); one of another account needs that and to be listed.
        """
        arn = Stack.of(self).format_arn(service="sqs", resource=f"{Aws.STACK_NAME}-*")
        function.grant_principal.add_to_principal_policy(
            iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[arn, *self._subscriber_queue_arns])
        )
        self.refused_queue.grant_send_messages(function)
        assert function.role is not None  # python_function gives each one
        self.roles.append(function.role)
