"""Grants programs the use of a service, with the statements of `tidewheel.policies`.

`tidewheel policy` prints the same statements, so the documentation of permissions applies to the CDK too, also with a
customer's KMS key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from aws_cdk import Annotations, ArnFormat, Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from tidewheel.cdk.encryption import key_of
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import ServiceSettings
from tidewheel.policies import (
    ConsumerAction,
    Place,
    SenderAction,
    Statement,
    administrator_statements,
    consumer_statements,
    sender_statements,
    shares_queues,
    viewer_statements,
)

if TYPE_CHECKING:
    from tidewheel.cdk.service import TidewheelService
    from tidewheel.cdk.topics import Subscription, Topic


def grant_send(
    service: TidewheelService, grantee: iam.IGrantable, topics: Sequence[str | Topic], actions: Collection[SenderAction]
) -> iam.Grant:
    """Allows to send to topics. See `TidewheelService.grant_send`."""
    names = [topic if isinstance(topic, str) else topic.topic_name for topic in topics]
    if not names:
        raise InvalidValue("topics", names, "name at least one topic")
    settings = settings_of(service)
    statements = [each for name in names for each in sender_statements(settings, name, actions=actions, **_place())]
    for name in names:
        if shares_queues(settings, name):
            Annotations.of(service).add_info(
                f"Topic {name!r} has no ingest queues of its own: who may send to it may send to every topic that has "
                "none. To give it its own, list it in dedicated_topics of the environment."
            )
    return _grant(grantee, statements)


def grant_consume(
    service: TidewheelService,
    grantee: iam.IGrantable,
    subscriptions: Sequence[Subscription],
    actions: Collection[ConsumerAction],
) -> iam.Grant:
    """Allows to work on declared subscriptions. See `TidewheelService.grant_consume`."""
    if not subscriptions:
        raise InvalidValue("subscriptions", subscriptions, "give at least one declared subscription")
    statements = []
    for each in subscriptions:
        dead = None if each.dead_letters is None else queue_arn(each.dead_letters)
        statements += consumer_statements(
            settings_of(service),
            each.topic.topic_name,
            queue_arn(each.queue),
            dead_letter_queue=dead,
            actions=actions,
            **_place(),
        )
        _use_queue_key(service, each.queue, grantee)
    return _grant(grantee, statements)


def grant_view(service: TidewheelService, grantee: iam.IGrantable, queues: Sequence[sqs.IQueue]) -> iam.Grant:
    """Allows to look at all topics. See `TidewheelService.grant_view`."""
    own = [queue_arn(queue) for queue in queues]
    return _grant(grantee, viewer_statements(settings_of(service), queues=own, **_place()))


def grant_administer(service: TidewheelService, grantee: iam.IGrantable) -> iam.Grant:
    """Allows to create, change and delete topics. See `TidewheelService.grant_administer`."""
    read = [*service.ingestion.queues, service.delivery.work_queue]
    dead = [queue_arn(each.dead_letter_queue.queue) for each in read if each.dead_letter_queue is not None]
    statements = administrator_statements(settings_of(service), dead_letter_queues=dead, **_place())
    return _grant(grantee, statements)


def settings_of(service: TidewheelService) -> ServiceSettings:
    """Returns a service's settings for policies, with queues' ARNs instead of URLs."""
    own = {
        "urgent_queue_url": service.ingestion.urgent_queue,
        "bulk_queue_url": service.ingestion.bulk_queue,
        "work_queue_url": service.delivery.work_queue,
        "refused_queue_url": service.delivery.refused_queue,
    }
    topic_queues = service.ingestion.topic_queues
    values = {
        **service.settings,
        **{name: queue_arn(queue) for name, queue in own.items()},
        "topic_queues": {topic: [queue_arn(queue) for queue in queues] for topic, queues in topic_queues.items()},
    }
    return ServiceSettings.from_mapping(values, "the construct of the service")


def queue_arn(queue: sqs.IQueue) -> str:
    """Returns a queue's ARN as text that begins with `arn:`. CDK's `queue_arn` is a single reference.

    The ARN of an imported queue keeps its own Region and account.
    """
    return Stack.of(queue).format_arn(
        service="sqs",
        region=queue.env.region,
        account=queue.env.account,
        resource=queue.queue_name,
        arn_format=ArnFormat.NO_RESOURCE_NAME,
    )


def _place() -> Place:
    """Returns the stack's location as arguments of the functions in `tidewheel.policies`."""
    return Place(partition=Aws.PARTITION, region=Aws.REGION, account=Aws.ACCOUNT_ID, dns_suffix=Aws.URL_SUFFIX)


def _grant(grantee: iam.IGrantable, statements: Iterable[Statement]) -> iam.Grant:
    given = [
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=statement["Action"],
            resource_arns=statement["Resource"],
            conditions=statement.get("Condition"),
        )
        for statement in statements
    ]
    return reduce(lambda one, other: one.combine(other), given)


def _use_queue_key(service: TidewheelService, queue: sqs.IQueue, grantee: iam.IGrantable) -> None:
    """Allows to read a queue that is encrypted with another key than the service's key."""
    key, shared = queue.encryption_master_key, key_of(service)
    if key is not None and (shared is None or key.key_arn != shared.key_arn):
        key.grant_decrypt(grantee)
