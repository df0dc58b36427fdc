"""Topics and subscriptions that a CloudFormation template declares: created, changed and deleted as its stack is.

| the stack | a topic, a subscription |
|---|---|
| creates it | is created; one that exists is adopted if it agrees in everything, else it is an error |
| updates it | is changed in what can change; created again if somebody has deleted it |
| deletes it | is deleted if this resource of the stack created it and no other declares it; if adopted, it stays |

What a Delete takes away, three marks tell together:

| the physical id | is deleted if the generation (`subscribe.owner_of`) says |
|---|---|
| `<service>/<topic>`, `<service>/<topic>/<subscription>` | the same logical resource of the same stack created it |
| the same with `:adopted` behind it | never: it was there before |
| a request's, whose creation was answered with FAILED | that very request created it all the same |
| another: CloudFormation's own, of a creation without an answer | never |

So no rollback takes away what was there before its deployment, were it of another resource of the same stack; and a
topic that somebody else deleted and created again is theirs. Rather something is left behind than lost.

What adopts also claims (`tidewheel.aws.claims`), and the one that created it deletes nothing that others claim. So a
declaration moves to another stack with all that waits, whatever the removal policies say, if the new stack is deployed
before the old one lets go. Only if both ask in the same few milliseconds the old one may not see the claim; if the new
one finds it gone behind its claim, it creates it anew, or fails while a topic is being deleted.

Everything here may be done twice. Each change of the table is one write; a repetition goes on from wherever it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from tidewheel.aws.custom_resource import Check, Kind, Request
from tidewheel.client.connection import Connection
from tidewheel.client.subscription_queues import check_given_queue
from tidewheel.client.subscriptions import filter_json
from tidewheel.errors import AlreadyExists, InvalidValue, UnknownSubscription, UnknownTopic
from tidewheel.flows.administration import delete_topic as deletion
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration import subscribe
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    from tidewheel.clock import Clock
    from tidewheel.flows.administration.subscribe import InitialPosition

TOPIC_TYPE = "Custom::TidewheelTopic"
SUBSCRIPTION_TYPE = "Custom::TidewheelSubscription"
ADOPTED = ":adopted"
"""Ends the physical id of what was there before; no name has a colon."""
CLAIMS = "1"
"""A property that nothing reads. CloudFormation asks only for what changes, so what earlier releases adopted, without a
claim, is asked for once when this comes in, and claimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """A topic as a template declares it."""

    name: str
    settings: TopicSettings

    @property
    def topic(self) -> str:
        """The topic's name, as a subscription calls it."""
        return self.name

    @property
    def subscription(self) -> None:
        """No subscription."""

    @property
    def path(self) -> str:
        """What tells it apart from everything else that is declared of one service."""
        return self.name

    def properties(self) -> dict[str, str]:
        """Returns it as properties of a resource: CloudFormation makes every value a text, so the settings are one."""
        return {"Topic": self.name, "Settings": self.settings.to_json(), "Claims": CLAIMS}

    def create(self, connection: Connection, clock: Clock, owner: str) -> str:
        """Creates it, or adopts the one that there is, if it has what is asked for; returns its generation.

        Raises:
            AlreadyExists: the topic has other settings than those asked for.
            TopicDeleting: the last topic of this name is not gone yet.
        """
        return subscribe.create_topic(connection.topics, clock, self.name, self.settings, owner=owner).generation

    def update(self, connection: Connection, clock: Clock, owner: str) -> None:
        """Gives it the settings that differ, in one write.

        Raises:
            InvalidValue: a setting that differs cannot change; nothing was changed.
        """
        state = connection.topics.state(self.name)
        if state is None:
            self.create(connection, clock, owner)
            return
        there = asdict(state.settings)
        changes = {name: value for name, value in asdict(self.settings).items() if value != there[name]}
        if changes:
            update_topic(connection.topics, clock, self.name, changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSubscription:
    """A subscription as a template declares it, with a queue that exists.

    Attributes:
        filter_policy: JSON of the `FilterPolicy` of what it takes; None: everything.
    """

    topic: str
    name: str
    queue_url: str
    initial_position: InitialPosition = "latest"
    filter_policy: str | None = None

    @property
    def subscription(self) -> str:
        """The subscription's name."""
        return self.name

    @property
    def path(self) -> str:
        """What tells it apart from everything else that is declared of one service."""
        return f"{self.topic}/{self.name}"

    def properties(self) -> dict[str, str]:
        """Returns it as properties of a resource."""
        found = {
            "Topic": self.topic,
            "Subscription": self.name,
            "QueueUrl": self.queue_url,
            "InitialPosition": self.initial_position,
            "Claims": CLAIMS,
        }
        return found if self.filter_policy is None else {**found, "FilterPolicy": self.filter_policy}

    def create(self, connection: Connection, clock: Clock, owner: str) -> str:
        """Creates it, or adopts the one that has this queue and this filter; returns its generation.

        Raises:
            AlreadyExists: the subscription has another queue or another filter.
            QueueUnavailable: there is no such queue.
            UnknownTopic: there is no such topic.
        """
        check_given_queue(connection.sqs, self.queue_url)
        found = subscribe.create_subscription(
            connection.topics,
            clock,
            self.topic,
            self.name,
            self.queue_url,
            self.initial_position,
            filter_policy=self.filter_policy,
            owner=owner,
        )
        if found.filter_policy != self.filter_policy:
            raise AlreadyExists("subscription", self.name, f"filter {found.filter_policy} (asked for none)")
        return found.generation

    def update(self, connection: Connection, clock: Clock, owner: str) -> None:
        """Gives it the filter; where it began does not matter any more.

        Raises:
            AlreadyExists: it has another queue. What waits in that one would not move, so it takes another name.
        """
        existing = connection.topics.subscription(self.topic, self.name)
        if existing is None:
            self.create(connection, clock, owner)
            return
        subscribe.check_same_queue(existing, self.queue_url)
        if existing.filter_policy != self.filter_policy:
            states.set_filter(connection.topics, self.topic, self.name, self.filter_policy)


Declared = DeclaredTopic | DeclaredSubscription


def declared(resource_type: str, properties: Mapping[str, Any]) -> Declared:
    """Reads what a resource of a template declares.

    Raises:
        InvalidValue: the type is none of ours, or a property is missing or cannot be used.
    """
    if resource_type not in (TOPIC_TYPE, SUBSCRIPTION_TYPE):
        raise InvalidValue("ResourceType", resource_type, f"use {TOPIC_TYPE} or {SUBSCRIPTION_TYPE}")
    topic = check_name("Topic", properties.get("Topic"))
    if resource_type == TOPIC_TYPE:
        return DeclaredTopic(name=topic, settings=TopicSettings.from_json(str(properties.get("Settings", "{}"))))
    name = check_name("Subscription", properties.get("Subscription"))
    position = str(properties.get("InitialPosition", "latest"))
    subscribe.check_new_subscription(topic, name, position)
    return DeclaredSubscription(
        topic=topic,
        name=name,
        queue_url=str(properties.get("QueueUrl", "")),
        initial_position=cast("InitialPosition", position),
        filter_policy=filter_json(properties.get("FilterPolicy")),
    )


def fulfil(connection: Connection, clock: Clock, request: Request, check: Check) -> str:
    """Does what CloudFormation asks for; returns the physical id.

    Another name has another one, and so is a replacement: the new one is created first, and the old one deleted when
    everything else of the stack is updated.

    Args:
        check: called before each request to AWS; what it raises ends the work.

    Raises:
        TidewheelError: as of the resource's `create`, `update` and `delete`.
    """
    with connection.checked(check):
        if request.kind is Kind.DELETE:
            return _deleted(connection, clock, request)
        return _declared(connection, clock, request)


def _declared(connection: Connection, clock: Clock, request: Request) -> str:
    wanted = declared(request.resource_type, request.properties)
    found = _settled(connection, clock, request, wanted)
    if found.endswith(ADOPTED):
        connection.claims.put(wanted.topic, wanted.subscription, _owner(request))
        # Whoever created it may have deleted it before it could see the claim: then it is created anew, or refused.
        found = _settled(connection, clock, request, wanted)
    return found


def _settled(connection: Connection, clock: Clock, request: Request, wanted: Declared) -> str:
    """Makes what there is what is wanted; returns the physical id. Twice for one request is once."""
    physical_id = f"{connection.settings.stack}/{wanted.path}"
    owner = _owner(request)
    attempt = subscribe.attempt_of(owner, request.request_id)
    updates = request.kind is Kind.UPDATE
    if updates and request.physical_id in (physical_id, physical_id + ADOPTED):
        wanted.update(connection, clock, attempt)
        return request.physical_id
    generation = wanted.create(connection, clock, attempt)
    # An update to another name that is rolled back comes back to what the resource created under the first name.
    created = subscribe.owns(owner if updates else attempt, generation)
    return physical_id if created else physical_id + ADOPTED


def _deleted(connection: Connection, clock: Clock, request: Request) -> str:
    service = connection.settings.stack
    physical_id = request.physical_id or service
    owner = _owner(request)
    names = _names(service, physical_id)
    if names is None:
        owner = subscribe.attempt_of(owner, physical_id)
        names = _wanted_names(request)
    if names is not None:
        claimant = _owner(request)
        connection.claims.release(*names, claimant)
        if not physical_id.endswith(ADOPTED) and not connection.claims.of_others(*names, claimant):
            delete(connection, clock, owner, *names)
    return physical_id


def delete(connection: Connection, clock: Clock, owner: str, topic: str, subscription: str | None) -> bool:
    """Deletes a subscription, or else a topic, with all that waits, if it is the owner's; returns whether it did.

    What its queue holds stays.
    """
    topics = connection.topics
    found = topics.state(topic) if subscription is None else topics.subscription(topic, subscription)
    if found is None or not subscribe.owns(owner, found.generation):
        return False
    try:
        if subscription is None:
            deletion.delete_topic(topics, clock, topic)
        else:
            states.delete_subscription(topics, connection.objects, topic, subscription)
    except (UnknownTopic, UnknownSubscription):  # somebody was faster
        return False
    return True


def _owner(request: Request) -> str:
    return subscribe.owner_of(f"{request.stack_id}/{request.logical_id}")


def _names(service: str, physical_id: str) -> tuple[str, str | None] | None:
    """Returns the topic, and the subscription, that a physical id of ours means; None if it is none."""
    head, *path = physical_id.removesuffix(ADOPTED).split("/")
    if head == service and len(path) in (1, 2):
        return path[0], path[1] if len(path) > 1 else None
    return None


def _wanted_names(request: Request) -> tuple[str, str | None] | None:
    """Returns what a creation that failed was to create, which may have come far; None if that could never be."""
    try:
        unwanted = declared(request.resource_type, request.properties)
    except ValueError:
        return None
    return unwanted.topic, unwanted.subscription
