"""The function behind declared topics and subscriptions; a stack that declares none has none."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, cast

from aws_cdk import CfnResource, CustomResource, Duration, RemovalPolicy, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.aws.s3_layout import PARKED
from tidewheel.cdk.functions import python_function
from tidewheel.cdk.storage import ITEM_WRITES, OF_TOPICS
from tidewheel.client.declared import SUBSCRIPTION_TYPE, TOPIC_TYPE, DeclaredTopic
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from tidewheel.cdk.service import TidewheelService
    from tidewheel.client.declared import Declared

ID = "Declarations"

TIMEOUT = Duration.seconds(60)
"""Two requests of DynamoDB's for most; the deletion of a subscription with many parks takes more, and goes on if it is
asked for again."""

ANSWER_TIMEOUT = Duration.seconds(180)
"""How long CloudFormation waits for an answer, instead of an hour: three times as long as the function may take."""

LATEST_START = Duration.seconds(120)
"""How old a request may be when the function starts: what begins later may still work when CloudFormation has given up
and rolled back, and would create something after its deletion. `ANSWER_TIMEOUT` less `TIMEOUT`."""

MEMORY_MIB = 256


class Declarations(Construct):
    """A function that creates, changes and deletes topics and subscriptions as CloudFormation asks for it.

    Attributes:
        declare: The function.
    """

    def __init__(self, service: TidewheelService, *, code: lambda_.Code) -> None:
        """Make the function, and allow it the items of topics; queues are CloudFormation's."""
        super().__init__(service, ID)
        self._service = service
        self._paths: set[str] = set()
        self.declare = python_function(
            self,
            "declare",
            description="Tidewheel: creates, changes and deletes what a template declares",
            code=code,
            environment=service.environment,
            timeout=TIMEOUT,
            memory_mib=MEMORY_MIB,
        )
        # A repetition would come when CloudFormation has been told, or has given up and rolled back.
        self.declare.configure_async_invoke(retry_attempts=0, max_event_age=LATEST_START)
        # So what is declared comes after all that it needs to live, and goes before that.
        for needed in (service.storage, service.delivery, service.timing_wheel, service.ingestion, service.parameter):
            self.declare.node.add_dependency(needed)
        # All items of topics: what a template does not declare any more is deleted, so no list would do.
        service.storage.grant_items(self.declare, OF_TOPICS, *ITEM_WRITES, "dynamodb:ConditionCheckItem")
        service.storage.grant_objects(self.declare, "s3:DeleteObject", prefixes=(PARKED,))
        service.configure(self.declare)

    def claim(self, path: str, field: str, value: str) -> None:
        """Keep a topic or a subscription for whoever declares it first.

        Args:
            path: What tells it apart, as of `Declared`.
            field: What is told of a second declaration.
            value: Its value.

        Raises:
            InvalidValue: It is declared already; two declarations of one thing would undo each other's.
        """
        if path in self._paths:
            name = self._service.node.path
            raise InvalidValue(field, value, f"service {name} declares it already: use that one, or another name")
        self._paths.add(path)

    def resource(self, scope: Construct, wanted: Declared, *, removal_policy: RemovalPolicy) -> CustomResource:
        """Make the custom resource of a topic or a subscription.

        Args:
            scope: The construct that it belongs to.
            wanted: What is declared.
            removal_policy: Whether what was declared is deleted when it is declared no more, or with its stack.
        """
        resource = CustomResource(
            scope,
            "Resource",
            service_token=self.declare.function_arn,
            resource_type=TOPIC_TYPE if isinstance(wanted, DeclaredTopic) else SUBSCRIPTION_TYPE,
            properties=wanted.properties(),
            removal_policy=removal_policy,
            service_timeout=ANSWER_TIMEOUT,
        )
        # Of what it is, and not of where it stands: moved, it would be created, which adopts, and then deleted.
        cast(CfnResource, resource.node.default_child).override_logical_id(self._logical_id(wanted))
        return resource

    def allow_check(self, queue: sqs.IQueue) -> None:
        """Allow to see whether a subscription's queue is there.

        One that another stack of the app makes is: it comes before the subscription, and a reference would be a cycle.
        """
        if isinstance(queue, sqs.Queue) and Stack.of(queue) is not Stack.of(self):
            return
        self.declare.add_to_role_policy(
            iam.PolicyStatement(actions=["sqs:GetQueueAttributes"], resources=[queue.queue_arn])
        )

    def _logical_id(self, wanted: Declared) -> str:
        """Return a name for the template that tells topics from subscriptions, and one service's from another's."""
        name = self._service.service_name
        if Token.is_unresolved(name):
            name = Stack.of(self._service).stack_name
        kind = "Topic" if isinstance(wanted, DeclaredTopic) else "Subscription"
        told_apart = hashlib.sha256(f"{name}/{wanted.path}".encode()).hexdigest()[:8].upper()
        return f"Declared{kind}{re.sub('[^A-Za-z0-9]', '', wanted.path)}{told_apart}"
