"""Topics and subscriptions that a stack declares, each subscription with its queue."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Unpack, cast

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.encryption import key_of
from tidewheel.cdk.subscriber_queue import SubscriberQueue, allow_deliveries
from tidewheel.client.declared import DeclaredSubscription, DeclaredTopic
from tidewheel.client.policies import RECEIVE, SENDER_ACTIONS, ConsumerAction, SenderAction
from tidewheel.client.subscriptions import FilterDocument, filter_json
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration.subscribe import InitialPosition, check_new_subscription
from tidewheel.model.settings import TopicSettings, TuningSettings
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    from tidewheel.cdk.service import TidewheelService


class Topic(Construct):
    """A topic of a service, created when the stack is deployed.

    One that exists is adopted if it has the same settings, and is never deleted then. Another name is another topic.
    Every setting may change but `slot` and `lookahead`: an update of these is refused, and rolled back.

    Attributes:
        service: The service.
        topic_name: The topic's name.
        resource: The custom resource: what sends when it is deployed depends on it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        service: TidewheelService,
        topic_name: str,
        slot: Duration | None = None,
        lookahead: Duration | None = None,
        retention: Duration | None = None,
        removal_policy: RemovalPolicy | None = None,
        **settings: Unpack[TuningSettings],
    ) -> None:
        """Declare it.

        Args:
            scope: The construct that it belongs to, in the service's stack or in another one of the app.
            id_: Its name there. It may change, and the scope within its stack: CloudFormation knows the topic by the
                service's name and its own.
            service: The service.
            topic_name: 1 to 48 letters, digits, '-' or '_'.
            slot: Length of a slot; 5 minutes by default.
            lookahead: How long before it begins a slot is dispatched; 8 minutes by default.
            retention: How long what was delivered is kept for replays; not at all by default.
            removal_policy: RETAIN keeps the topic and what waits in it when it is declared no more, or its stack is
                deleted; DESTROY deletes both. The environment's by default.
            **settings: The other fields of `TopicSettings`, such as max_waiting=1_000_000.

        Raises:
            InvalidValue: A value is not usable, or the service has this topic already.
        """
        check_name("topic_name", topic_name)
        service.declarations().claim(topic_name, "topic_name", topic_name)
        super().__init__(scope, id_)
        self.service = service
        self.topic_name = topic_name
        self.removal_policy = removal_policy or service.environment.removal_policy
        durations = {"slot_s": slot, "lookahead_s": lookahead, "retention_s": retention}
        wanted = DeclaredTopic(name=topic_name, settings=_settings(durations, cast("dict[str, Any]", settings)))
        self.resource = service.declarations().resource(self, wanted, removal_policy=self.removal_policy)

    def add_subscription(
        self,
        name: str,
        *,
        queue: sqs.IQueue | None = None,
        filter_policy: FilterDocument | None = None,
        initial_position: InitialPosition = "latest",
        visibility_timeout: Duration | None = None,
        max_receive_count: int = 5,
        removal_policy: RemovalPolicy | None = None,
    ) -> Subscription:
        """Declare a subscription of this topic; see `Subscription`."""
        return Subscription(
            self,
            f"Subscription-{name}",
            topic=self,
            subscription_name=name,
            queue=queue,
            filter_policy=filter_policy,
            initial_position=initial_position,
            visibility_timeout=visibility_timeout,
            max_receive_count=max_receive_count,
            removal_policy=removal_policy,
        )

    def grant_send(self, grantee: iam.IGrantable, *, actions: Collection[SenderAction] = SENDER_ACTIONS) -> iam.Grant:
        """Allow to send to this topic; see `TidewheelService.grant_send`."""
        return self.service.grant_send(grantee, self, actions=actions)


class Subscription(Construct):
    """A subscription of a declared topic, with its queue.

    One that exists is adopted if it has the same queue and filter, and is never deleted then. The filter may change.
    The queue may not: what waits for the old one would be lost, so another queue needs another name.

    Attributes:
        topic: The topic.
        subscription_name: Its name.
        queue: The queue that its messages come to: what an event source reads.
        dead_letters: Where the queue puts what was received too often; None of a queue that was made elsewhere.
        resource: The custom resource.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        topic: Topic,
        subscription_name: str,
        queue: sqs.IQueue | None = None,
        filter_policy: FilterDocument | None = None,
        initial_position: InitialPosition = "latest",
        visibility_timeout: Duration | None = None,
        max_receive_count: int = 5,
        removal_policy: RemovalPolicy | None = None,
    ) -> None:
        """Declare it.

        Args:
            scope: The construct that it belongs to.
            id_: Its name there.
            topic: The topic.
            subscription_name: 1 to 48 letters, digits, '-' or '_'.
            queue: A standard queue to use; by default one is made, with a dead-letter queue, encrypted as the service
                is. Where the environment has alarms, there is one on these dead letters.
            filter_policy: Which messages it gets, as for `create_subscription`; by default all.
            initial_position: As for `create_subscription`; it counts when the subscription is created.
            visibility_timeout: Of a queue that is made: six times the time-out of the function that reads it, as AWS
                recommends; a minute by default.
            max_receive_count: Of a queue that is made: receives after which a message is a dead letter.
            removal_policy: As of the topic, whose it is by default. A queue that is made goes or stays with it.

        Raises:
            InvalidValue: A value is not usable, a FIFO queue or a filter that is none among them, or the topic has this
                subscription already.
        """
        check_new_subscription(topic.topic_name, subscription_name, initial_position)
        path = f"{topic.topic_name}/{subscription_name}"
        topic.service.declarations().claim(path, "subscription_name", subscription_name)
        super().__init__(scope, id_)
        self.topic = topic
        self.subscription_name = subscription_name
        policy = removal_policy or topic.removal_policy
        if queue is None:
            made = self._make_queue(visibility_timeout, max_receive_count, policy)
            queue = made.queue
        elif visibility_timeout is not None:
            advice = "it is for a queue that is made here: leave it out, and set it where the queue is made"
            raise InvalidValue("visibility_timeout", visibility_timeout.to_seconds(), advice)
        else:
            allow_deliveries(queue, topic.service.delivery.roles, declared_in=self)
        self.queue = queue
        redrive = queue.dead_letter_queue if isinstance(queue, sqs.Queue) else None
        self.dead_letters: sqs.IQueue | None = None if redrive is None else redrive.queue
        wanted = DeclaredSubscription(
            topic=topic.topic_name,
            name=subscription_name,
            queue_url=queue.queue_url,
            initial_position=initial_position,
            filter_policy=filter_json(filter_policy),
        )
        declarations = topic.service.declarations()
        declarations.allow_check(queue)
        self.resource: CustomResource = declarations.resource(self, wanted, removal_policy=policy)
        self.resource.node.add_dependency(topic.resource, queue)

    def grant_consume(self, grantee: iam.IGrantable, *, actions: Collection[ConsumerAction] = RECEIVE) -> iam.Grant:
        """Allow to work on this subscription; see `TidewheelService.grant_consume`."""
        return self.topic.service.grant_consume(grantee, self, actions=actions)

    def _make_queue(
        self, visibility_timeout: Duration | None, max_receive_count: int, removal_policy: RemovalPolicy
    ) -> SubscriberQueue:
        service = self.topic.service
        made = SubscriberQueue(
            self,
            "Messages",
            role_arns=[role.role_arn for role in service.delivery.roles],
            visibility_timeout=visibility_timeout,
            max_receive_count=max_receive_count,
            encryption_key=key_of(service),
            removal_policy=removal_policy,
            alarm_topic=service.alarms.topic if service.environment.alarms else None,
            # No name has a dot, so no two subscriptions' alarms have one name.
            alarm_name=f"{service.service_name}-DeadLetters-{self.topic.topic_name}.{self.subscription_name}",
            runbook_url=service.environment.runbook_url,
        )
        # The service's stack cannot show what a stack that waits for it makes.
        if service.dashboard is not None and Stack.of(self).node.addr == Stack.of(service).node.addr:
            path = f"{self.topic.topic_name}/{self.subscription_name}"
            service.dashboard.show_subscription(path, made.queue, made.dead_letters)
        return made


def _settings(durations: dict[str, Duration | None], settings: dict[str, Any]) -> TopicSettings:
    """Return a topic's settings.

    Raises:
        InvalidValue: There is no such setting, or one is not usable.
    """
    known = [each.name for each in fields(TopicSettings)]
    for name, value in settings.items():
        if name not in known:
            raise InvalidValue(name, value, f"a topic has no such setting; it has {', '.join(known)}")
        if name in durations:
            advice = f"give {name.removesuffix('_s')}= with a Duration"
            raise InvalidValue(name, value, advice)
    # jsii gives numbers as floats where it gives them at all.
    given: dict[str, Any] = {name: int(value.to_seconds()) for name, value in durations.items() if value is not None}
    return TopicSettings(**given, **settings)
