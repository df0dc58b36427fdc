"""Declares topics and subscriptions in a stack, each subscription with its queue."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Unpack, cast

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidewheel.cdk.encryption import key_of
from tidewheel.cdk.pipe import PipeProperties, SubscriptionPipe
from tidewheel.cdk.subscriber_queue import SubscriberQueue, allow_deliveries
from tidewheel.client.operations.declared import DeclaredSubscription, DeclaredTopic
from tidewheel.client.operations.subscription_queues import reader_of, receives_of
from tidewheel.errors import InvalidValue
from tidewheel.flows.administration.subscribe import check_new_subscription
from tidewheel.model.setting import check_names
from tidewheel.model.settings import (
    ChangeableSubscriptionSettings,
    InitialPosition,
    TopicSettings,
    TuningSettings,
    stored_settings,
)
from tidewheel.model.topic import check_name
from tidewheel.policies import RECEIVE, SENDER_ACTIONS, ConsumerAction, SenderAction

if TYPE_CHECKING:
    from tidewheel.cdk.service import TidewheelService


class TopicProperties(TuningSettings, total=False):
    """The arguments of `Topic` that `add_topic` takes too."""

    slot: Duration | None
    lookahead: Duration | None
    retention: Duration | None
    removal_policy: RemovalPolicy | None


class SubscriptionProperties(ChangeableSubscriptionSettings, total=False):
    """The arguments of `Subscription` that `add_subscription` takes too."""

    queue: sqs.IQueue | None
    initial_position: InitialPosition
    visibility_timeout: Duration | None
    max_receive_count: int | None
    removal_policy: RemovalPolicy | None


class Topic(Construct):
    """A topic of a service, created when the stack is deployed.

    An existing topic with the same settings is adopted, and then never deleted. Another name is another topic. All
    settings except `slot`, `lookahead` and `claims` may change: an update of these is refused and rolled back.

    Attributes:
        service: The service.
        topic_name: The topic's name.
        settings: The topic's settings.
        resource: The custom resource. A resource that sends during its deployment must depend on it.
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
        """Declares the topic.

        Args:
            scope: The construct that the topic belongs to, in the service's stack or in another stack of the app.
            id_: The construct's name in the scope. The id, and the scope within the stack, may change: CloudFormation
                knows the topic by the service's name and the topic's name.
            service: The service.
            topic_name: 1 to 48 letters, digits, '-' or '_'.
            slot: `slot_s` of `TopicSettings`, as a duration.
            lookahead: `lookahead_s`, as a duration.
            retention: `retention_days`, as a duration of whole days.
            removal_policy: RETAIN keeps the topic and its waiting messages when the stack no longer declares the topic,
                or is deleted; DESTROY deletes both. The environment's policy by default.
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
        durations = {"slot_s": slot, "lookahead_s": lookahead, "retention_days": retention}
        wanted = DeclaredTopic(topic=topic_name, settings=_settings(durations, cast("dict[str, Any]", settings)))
        self.settings = wanted.settings
        self.resource = service.declarations().resource(self, wanted, removal_policy=self.removal_policy)

    def add_subscription(self, name: str, **properties: Unpack[SubscriptionProperties]) -> Subscription:
        """Declares a subscription of this topic. See `Subscription`."""
        return Subscription(self, f"Subscription-{name}", topic=self, subscription_name=name, **properties)

    def grant_send(self, grantee: iam.IGrantable, *, actions: Collection[SenderAction] = SENDER_ACTIONS) -> iam.Grant:
        """Allows to send to this topic. See `TidewheelService.grant_send`."""
        return self.service.grant_send(grantee, self, actions=actions)


class Subscription(Construct):
    """A subscription of a declared topic, with its queue.

    An existing subscription with the same queue and filter is adopted, and then never deleted. The filter may change.
    The queue may not change, since messages waiting for the old queue would be lost. So another queue needs another
    name.

    Attributes:
        topic: The topic.
        subscription_name: The subscription's name.
        queue: The queue that gets the messages, for an event source.
        dead_letters: The queue's dead-letter queue; None for an imported queue.
        resource: The custom resource.
        carry: The setting.
        reader: The setting; plain by default with a queue of yours, or with `carry`.
        removal_policy: What becomes of the subscription and its queue when the stack no longer declares it.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        topic: Topic,
        subscription_name: str,
        queue: sqs.IQueue | None = None,
        initial_position: InitialPosition = "latest",
        visibility_timeout: Duration | None = None,
        max_receive_count: int | None = None,
        removal_policy: RemovalPolicy | None = None,
        **settings: Unpack[ChangeableSubscriptionSettings],
    ) -> None:
        """Declares the subscription.

        Args:
            scope: The construct that the subscription belongs to.
            id_: The construct's name in the scope.
            topic: The topic.
            subscription_name: 1 to 48 letters, digits, '-' or '_'.
            queue: A standard queue to use. By default a queue with a dead-letter queue is created, encrypted like the
                service; if the environment has alarms, these dead letters have an alarm.
            initial_position: As for `create_subscription`; has an effect only when the subscription is created.
            visibility_timeout: For a new queue, by default as for `create_subscription`. AWS recommends six times the
                time-out of the function that reads the queue.
            max_receive_count: For a new queue: the receives after which a message is a dead letter. By default 100,
                where the SDK's consumers count to 5; with reader="plain" 10; in a topic with claims="none" 5.
            removal_policy: As for the topic; by default the topic's policy. The same applies to a new queue.
            **settings: Settings such as `filter_policy`, as for `create_subscription`.

        Raises:
            InvalidValue: A value is not usable, including FIFO queues and invalid filters, or the topic already has
                this subscription.
        """
        check_new_subscription(topic.topic_name, subscription_name, initial_position)
        path = f"{topic.topic_name}/{subscription_name}"
        topic.service.declarations().claim(path, "subscription_name", subscription_name)
        super().__init__(scope, id_)
        self.topic = topic
        self.subscription_name = subscription_name
        self.carry = settings.get("carry")
        self.reader = reader_of(settings.get("reader"), self.carry, own_queue=queue is not None)
        self.removal_policy = removal_policy or topic.removal_policy
        if queue is None:
            receives = max_receive_count or receives_of(self.reader, topic.settings)
            made = self._make_queue(visibility_timeout, receives)
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
            subscription=subscription_name,
            queue_url=queue.queue_url,
            initial_position=initial_position,
            **stored_settings({**settings, "reader": self.reader}),
        )
        declarations = topic.service.declarations()
        declarations.allow_check(queue)
        self.resource: CustomResource = declarations.resource(self, wanted, removal_policy=self.removal_policy)
        self.resource.node.add_dependency(topic.resource, queue)

    def grant_consume(self, grantee: iam.IGrantable, *, actions: Collection[ConsumerAction] = RECEIVE) -> iam.Grant:
        """Allows to work on this subscription. See `TidewheelService.grant_consume`."""
        return self.topic.service.grant_consume(grantee, self, actions=actions)

    def pipe_to(self, **properties: Unpack[PipeProperties]) -> SubscriptionPipe:
        """Moves the messages on, to a FIFO queue or an HTTPS endpoint. See `SubscriptionPipe`."""
        return SubscriptionPipe(self, **properties)

    def _make_queue(self, visibility_timeout: Duration | None, max_receive_count: int) -> SubscriberQueue:
        service = self.topic.service
        made = SubscriberQueue(
            self,
            "Messages",
            role_arns=[role.role_arn for role in service.delivery.roles],
            visibility_timeout=visibility_timeout,
            max_receive_count=max_receive_count,
            encryption_key=key_of(service),
            removal_policy=self.removal_policy,
            alarm_topic=service.alarms.topic if service.environment.alarms else None,
            # Names have no dots, so every subscription's alarm has another name.
            alarm_name=f"{service.service_name}-DeadLetters-{self.topic.topic_name}.{self.subscription_name}",
        )
        # The service's stack cannot refer to queues of a stack that waits for it.
        if service.dashboard is not None and Stack.of(self).node.addr == Stack.of(service).node.addr:
            path = f"{self.topic.topic_name}/{self.subscription_name}"
            service.dashboard.show_subscription(path, made.queue, made.dead_letters)
        return made


def _settings(durations: dict[str, Duration | None], settings: dict[str, Any]) -> TopicSettings:
    """Returns a topic's settings.

    Raises:
        InvalidValue: A setting is unknown or not usable.
    """
    check_names(TopicSettings, settings, "a topic")
    for name, value in settings.items():
        if name in durations:
            advice = f"give {name.rpartition('_')[0]}= with a Duration"
            raise InvalidValue(name, value, advice)
    # jsii may return numbers as floats.
    given: dict[str, Any] = {
        name: int(value.to_days() if name.endswith("_days") else value.to_seconds())
        for name, value in durations.items()
        if value is not None
    }
    return TopicSettings(**given, **settings)
