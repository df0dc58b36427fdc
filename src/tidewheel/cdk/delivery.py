"""Deploys the work queue, and the function that sends messages to subscriptions' queues."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from tidewheel.cdk.functions import Foundation, python_function
from tidewheel.cdk.nag_suppressions import acknowledge_wildcards
from tidewheel.cdk.names import service_name
from tidewheel.cdk.queues import grant_queue_sends, read_queue, source_queue, terminal_queue
from tidewheel.cdk.statements import allow
from tidewheel.cdk.storage import TOMBSTONES, TOPICS
from tidewheel.model.object_names import LEDGERS, PARKED, PLANS, REFUSED
from tidewheel.model.settings import ROLE_TAG, STACK_TAG, SUBSCRIPTION
from tidewheel.model.triggers import WORK_QUEUE

DELIVER_TIMEOUT = Duration.seconds(60)
"""The function's time-out. A part has a thousand messages by default and takes a second or two.

A park may hold all direct messages of an ingest call.
"""


class Delivery(Construct):
    """The delivery of messages to subscriptions' queues.

    Attributes:
        work_queue: Holds parts of deliveries and parks; each is the work of a function call.
        refused_queue: Holds messages that SQS, ingest or deliver refused permanently.
        deliver: The function that sends a part or a park.
        roles: Roles that may send to the subscriptions' queues, in the order of their grants.
    """

    def __init__(self, scope: Construct, id_: str, foundation: Foundation) -> None:
        """Creates the queues and the function, which may read objects and send messages."""
        super().__init__(scope, id_)
        environment, storage = foundation.environment, foundation.storage
        self._subscriber_queue_arns = environment.subscriber_queue_arns
        self.roles: list[iam.IRole] = []
        self.work_queue = source_queue(self, "WorkQueue", environment, WORK_QUEUE)
        self.refused_queue = terminal_queue(
            self, "RefusedQueue", environment, why="It is read by people only: what was refused ends here."
        )
        self.deliver = python_function(
            self, "deliver", foundation, DELIVER_TIMEOUT, "sends one part of a delivery to a subscription's queue"
        )
        read_queue(self.deliver, self.work_queue, WORK_QUEUE, max_concurrency=environment.work_concurrency)
        reads = ("dynamodb:GetItem", "dynamodb:Query")
        writes = ("dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
        # One transaction puts a park and checks the subscription.
        storage.grant_items(self.deliver, TOPICS, *reads, *writes, "dynamodb:ConditionCheckItem")
        storage.grant_items(self.deliver, TOMBSTONES, "dynamodb:Query")  # a plan that is made again needs them
        storage.grant_objects(self.deliver, "s3:GetObject", prefixes=(LEDGERS, PLANS, PARKED))
        storage.grant_objects(self.deliver, "s3:PutObject", "s3:DeleteObject", prefixes=(PARKED,))
        storage.grant_objects(self.deliver, "s3:PutObject", prefixes=(PLANS, REFUSED))
        grant_queue_sends(self.deliver, self.work_queue)
        storage.grant_listing(self.deliver)
        self.grant_sends(self.deliver)

    def grant_sends(self, function: lambda_.Function) -> None:
        """Allows a function to send to subscriptions' queues and to the queue for refused messages.

        Subscriptions come and go without a deployment. So their queues are allowed by name, `<service>-...`, and by the
        tags that clients set. Other queues with such names, such as the service's own, do not have these tags. Queues
        that the environment lists are allowed too. Any other queue of this account can allow the roles by its own
        policy (`tidewheel.cdk.grant_deliveries`). A queue of another account needs both the policy and the listing.
        """
        arn = Stack.of(self).format_arn(service="sqs", resource=f"{service_name(self)}-*")
        tags = {STACK_TAG: service_name(self), ROLE_TAG: SUBSCRIPTION}
        tagged = {"StringEquals": {f"aws:ResourceTag/{tag}": value for tag, value in tags.items()}}
        allow(function, ["sqs:SendMessage"], [arn], tagged)
        if self._subscriber_queue_arns:
            allow(function, ["sqs:SendMessage"], self._subscriber_queue_arns)
        acknowledge_wildcards(
            function,
            [arn],
            "Clients make the queues of subscriptions, each with the service's name in front of its own, and its tags.",
        )
        grant_queue_sends(function, self.refused_queue)
        assert function.role is not None  # python_function gives each function a role
        self.roles.append(function.role)
