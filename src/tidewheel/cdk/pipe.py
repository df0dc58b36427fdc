"""Moves a subscription's messages to a FIFO queue or an HTTPS endpoint with EventBridge Pipes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_pipes as pipes
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.alarms import watch_dead_letters
from tidewheel.cdk.encryption import PIPE_LOGS, key_of, make_log_group
from tidewheel.cdk.queues import READS, encrypted_queue
from tidewheel.cdk.statements import allow
from tidewheel.errors import InvalidValue
from tidewheel.model.message import ID_ATTRIBUTE
from tidewheel.policies import KMS_ACTIONS, SOURCE_ARN

if TYPE_CHECKING:
    from tidewheel.cdk.topics import Subscription

MESSAGE_ID = f"$.messageAttributes.{ID_ATTRIBUTE}.stringValue"
GROUP = "$.attributes.MessageGroupId"
BATCH = 10
"""SQS takes so many messages in one request. An API destination gets each message alone.
https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-batching-concurrency.html"""
ID = "Pipe"


class PipeProperties(TypedDict, total=False):
    """The arguments of `SubscriptionPipe`."""

    queue: sqs.IQueue | None
    api_destination: events.IApiDestination | str | None
    id_header: str | None
    batch_size: int
    filter_pattern: Mapping[str, Any] | None
    input_template: str | None


class SubscriptionPipe(Construct):
    """A pipe from a subscription's queue to a FIFO queue or to an API destination.

    A message that the target does not take comes again, until it is a dead letter of the subscription. Pipes has no
    dead letters of its own for a queue: the queue's redrive policy counts.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-error-troubleshooting.html

    Attributes:
        queue: The FIFO queue; None for an API destination.
        role: The pipe's role.
        pipe: The pipe.
    """

    def __init__(self, subscription: Subscription, **properties: Unpack[PipeProperties]) -> None:
        """Creates the pipe, with a log group of its errors.

        Args:
            subscription: The subscription, whose queue has a dead-letter queue. Declared with `carry="id"`, except for
                an API destination without `id_header`.
            **properties: The target and options:
                queue: A FIFO queue. By default, one of high throughput with a dead-letter queue is created, encrypted
                    like the service; if the environment has alarms, its dead letters have an alarm.
                api_destination: Instead of a queue, an API destination or its ARN.
                id_header: The HTTP header that gets the message id, such as "Idempotency-Key".
                batch_size: The most messages in a request to a queue; by default 10.
                filter_pattern: An event pattern. The pipe deletes all messages that do not match it.
                input_template: What the target gets, such as "<$.body>"; by default the SQS record as JSON.

        Raises:
            InvalidValue: A value is not usable, or the subscription has a pipe already.
        """
        _check(subscription, properties)
        super().__init__(subscription, ID)
        self._subscription = subscription
        self._service = subscription.topic.service
        # Names have no dots, so nothing else has the same name.
        self._name = f"{subscription.topic.topic_name}.{subscription.subscription_name}"
        own = {
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
            # CloudFormation names the pipe, after its role.
            "ArnLike": {SOURCE_ARN: Stack.of(self).format_arn(service="pipes", resource="pipe", resource_name="*")},
        }
        principal = iam.ServicePrincipal("pipes.amazonaws.com", conditions=own)
        self.role = iam.Role(self, "Role", assumed_by=principal)
        self._allow(subscription.queue, READS, "kms:Decrypt")
        self.queue: sqs.IQueue | None = None
        destination, pattern = properties.get("api_destination"), properties.get("filter_pattern")
        batch_size = properties.get("batch_size", 1 if destination else BATCH)
        filters = None if pattern is None else {"filters": [{"pattern": json.dumps(pattern)}]}
        if destination is None:
            target, parameters = self._fifo(properties.get("queue") or self._make_queue())
        else:
            target, parameters = self._http(destination, properties.get("id_header"))
        # The CDK passes dicts on as they are, so their names are JavaScript's.
        self.pipe = pipes.CfnPipe(
            self,
            "Resource",
            role_arn=self.role.role_arn,
            source=subscription.queue.queue_arn,
            source_parameters={"sqsQueueParameters": {"batchSize": batch_size}, "filterCriteria": filters},
            target=target,
            target_parameters={**parameters, "inputTemplate": properties.get("input_template")},
            log_configuration={"level": "ERROR", "cloudwatchLogsLogDestination": self._log_destination()},
        )
        # EventBridge checks the role when it creates the pipe.
        self.pipe.node.add_dependency(self.role.node.find_child("DefaultPolicy"))

    def _allow(self, queue: sqs.IQueue, actions: Iterable[str], *key_actions: str) -> None:
        allow(self.role, actions, [queue.queue_arn])
        if queue.encryption_master_key is not None:
            through = {"StringEquals": {"kms:ViaService": f"sqs.{Aws.REGION}.{Aws.URL_SUFFIX}"}}
            allow(self.role, key_actions, [queue.encryption_master_key.key_arn], through)

    def _fifo(self, queue: sqs.IQueue) -> tuple[str, dict[str, Any]]:
        """Allows the pipe to send to a queue. Returns its ARN, and the parameters of the target."""
        self.queue = queue
        self._allow(queue, ["sqs:SendMessage"], *KMS_ACTIONS)
        return queue.queue_arn, {"sqsQueueParameters": {"messageGroupId": GROUP, "messageDeduplicationId": MESSAGE_ID}}

    def _http(self, destination: events.IApiDestination | str, header: str | None) -> tuple[str, dict[str, Any]]:
        """Allows the pipe to call an API destination. Returns its ARN, and the parameters of the target."""
        arn = destination if isinstance(destination, str) else destination.api_destination_arn
        allow(self.role, ["events:InvokeApiDestination"], [arn])
        return arn, {} if header is None else {"httpParameters": {"headerParameters": {header: MESSAGE_ID}}}

    def _make_queue(self) -> sqs.Queue:
        service, key = self._service, key_of(self._service)
        made: dict[str, Any] = {"removal_policy": self._subscription.removal_policy, "fifo": True}
        dead_letters = encrypted_queue(self, "DeadLetters", key, **made)
        if service.environment.alarms:
            name = f"{service.service_name}-DeadLetters-{self._name}.pipe"
            watch_dead_letters(dead_letters, topic=service.alarms.topic, alarm_name=name)
        made |= {
            "dead_letter_queue": sqs.DeadLetterQueue(max_receive_count=5, queue=dead_letters),
            # Six times the time-out of a function that takes half a minute, as AWS recommends.
            "visibility_timeout": Duration.minutes(3),
            # High throughput. Otherwise a FIFO queue takes 300 requests a second.
            "deduplication_scope": sqs.DeduplicationScope.MESSAGE_GROUP,
            "fifo_throughput_limit": sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
        }
        return encrypted_queue(self, "Queue", key, **made)

    def _log_destination(self) -> dict[str, str]:
        """Creates the log group of the pipe's errors, which name no body."""
        name = f"{PIPE_LOGS}/{self._service.service_name}-{self._name}"
        made = make_log_group(self, "Logs", name, self._service.environment, of=self._service)
        return {"logGroupArn": made.log_group_arn}


def _check(subscription: Subscription, properties: PipeProperties) -> None:
    """Raises InvalidValue if the subscription or a property is not usable."""
    own, source, queue = subscription.node, subscription.queue, properties.get("queue")
    header, batch_size = properties.get("id_header"), properties.get("batch_size", BATCH)
    http, path = properties.get("api_destination") is not None, None if queue is None else queue.node.path
    identified = subscription.carry is not None or (http and header is None)
    undying = isinstance(source, sqs.Queue) and source.dead_letter_queue is None
    for wrong, name, value, advice in (
        (own.try_find_child(ID), "subscription", own.path, "it has a pipe: declare a subscription for each pipe"),
        (
            subscription.reader != "plain",
            "subscription",
            own.path,
            'declare one with reader="plain": a pipe claims nothing',
        ),
        (undying, "queue", source.node.path, "give it a dead-letter queue, for what the target refuses"),
        (not identified, "subscription", own.path, 'declare one with carry="id", whose copies carry the id'),
        (queue is not None and not queue.fifo, "queue", path, "give a FIFO queue"),
        (http and queue is not None, "queue", path, "give a queue or an API destination"),
        (header is not None and not http, "id_header", header, "it is for an API destination"),
        (not 1 <= batch_size <= BATCH, "batch_size", batch_size, f"give 1 to {BATCH}"),
        (http and "batch_size" in properties, "batch_size", batch_size, "an API destination gets each message alone"),
    ):
        if wrong:
            raise InvalidValue(name, value, advice)
