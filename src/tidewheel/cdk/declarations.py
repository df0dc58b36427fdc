"""Creates the function behind declared topics and subscriptions.

A stack without declarations does not have the function.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, cast

from aws_cdk import CfnResource, CustomResource, Duration, RemovalPolicy, Stack, Token
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.functions import Foundation, python_function
from tidewheel.cdk.statements import allow
from tidewheel.cdk.storage import ITEM_WRITES, OF_TOPICS
from tidewheel.client.operations.declared import SUBSCRIPTION_TYPE, TOPIC_TYPE, DeclaredTopic
from tidewheel.errors import InvalidValue
from tidewheel.model.object_names import PARKED

if TYPE_CHECKING:
    from tidewheel.cdk.service import TidewheelService
    from tidewheel.client.operations.declared import Declared

ID = "Declarations"

TIMEOUT = Duration.seconds(60)
"""The function's time-out. Most requests take two requests of DynamoDB.

The deletion of a subscription with many parks takes more, and continues if CloudFormation repeats the request.
"""

ANSWER_TIMEOUT = Duration.seconds(180)
"""How long CloudFormation waits for an answer: three times the function's time-out, instead of an hour."""

LATEST_START = Duration.seconds(120)
"""How old a request may be when the function starts: `ANSWER_TIMEOUT` less `TIMEOUT`.

A function that starts later may still run when CloudFormation has given up and rolled back. It could then create a
topic after the topic's deletion.
"""

MEMORY_MIB = 256


class Declarations(Construct):
    """The function that creates, changes and deletes declared topics and subscriptions.

    Attributes:
        declare: The function.
    """

    def __init__(self, service: TidewheelService, foundation: Foundation) -> None:
        """Creates the function and allows it to write topics' items. CloudFormation creates the queues."""
        super().__init__(service, ID)
        self._service = service
        self._paths: set[str] = set()
        does = "creates, changes and deletes what a template declares"
        self.declare = python_function(self, "declare", foundation, TIMEOUT, does, memory_mib=MEMORY_MIB)
        # A retry would come after CloudFormation got the answer, or gave up and rolled back.
        self.declare.configure_async_invoke(retry_attempts=0, max_event_age=LATEST_START)
        # So declared topics are created after the resources that they need, and deleted before these.
        for needed in (service.storage, service.delivery, service.timing_wheel, service.ingestion, service.parameter):
            self.declare.node.add_dependency(needed)
        # All items of topics: topics that a template no longer declares are deleted, so a list would not be enough.
        service.storage.grant_items(self.declare, OF_TOPICS, *ITEM_WRITES, "dynamodb:ConditionCheckItem")
        service.storage.grant_objects(self.declare, "s3:DeleteObject", prefixes=(PARKED,))
        service.configure(self.declare)

    def claim(self, path: str, field: str, value: str) -> None:
        """Records a declaration of a topic or subscription, and rejects the second one.

        Args:
            path: The `path` of `Declared`.
            field: The field that the error names.
            value: The field's value in the error.

        Raises:
            InvalidValue: The path is already declared; two declarations would undo each other's changes.
        """
        if path in self._paths:
            name = self._service.node.path
            raise InvalidValue(field, value, f"service {name} declares it already: use that one, or another name")
        self._paths.add(path)

    def resource(self, scope: Construct, wanted: Declared, *, removal_policy: RemovalPolicy) -> CustomResource:
        """Creates the custom resource of a topic or subscription.

        Args:
            scope: The construct that the resource belongs to.
            wanted: The declared topic or subscription.
            removal_policy: Whether the topic or subscription is deleted when the stack no longer declares it, or is
                deleted.
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
        # The id depends on the declaration, not on its scope. Otherwise a declaration that moves to another scope would
        # be created, which adopts the topic, and then deleted.
        cast(CfnResource, resource.node.default_child).override_logical_id(self._logical_id(wanted))
        return resource

    def allow_check(self, queue: sqs.IQueue) -> None:
        """Allows to check that a subscription's queue exists.

        A queue of another stack of the app needs no check: it is created before the subscription, and a reference would
        be a cycle.
        """
        if isinstance(queue, sqs.Queue) and Stack.of(queue) is not Stack.of(self):
            return
        allow(self.declare, ["sqs:GetQueueAttributes"], [queue.queue_arn])

    def _logical_id(self, wanted: Declared) -> str:
        """Returns a logical id that is unique among the topics and subscriptions of all services."""
        name = self._service.service_name
        if Token.is_unresolved(name):
            name = Stack.of(self._service).stack_name
        kind = "Topic" if isinstance(wanted, DeclaredTopic) else "Subscription"
        told_apart = hashlib.sha256(f"{name}/{wanted.path}".encode()).hexdigest()[:8].upper()
        return f"Declared{kind}{re.sub('[^A-Za-z0-9]', '', wanted.path)}{told_apart}"
