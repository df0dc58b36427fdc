"""Creates, changes and deletes the topics and subscriptions that CloudFormation templates declare.

| the stack's operation | effect on the topic or subscription |
|---|---|
| create | is created; an existing topic or subscription is adopted if all settings agree, else the operation fails |
| update | is changed where it can change; is created again if somebody has deleted it |
| delete | is deleted if this resource of the stack created it and no other declares it; if adopted, it stays |

Three marks decide together whether a Delete request deletes:

| the physical id | deleted if the generation (`subscribe.owner_of`) says |
|---|---|
| `<service>/<topic>`, `<service>/<topic>/<subscription>` | the same logical resource of the same stack created it |
| the same, ending in `:adopted` | never: it existed before |
| the id of a request whose creation was answered with FAILED | this request created it nevertheless |
| any other: CloudFormation's own id of a creation without an answer | never |

So a rollback never deletes a topic that existed before the deployment, even if another resource of the same stack
created it. A topic that somebody else deleted and created again belongs to the second creator. In doubt, topics are
left behind rather than lost.

A resource that adopts a topic also marks it (`storage.subscriptions.Adoptions`). The resource that created the topic
does not delete it while others have marked it. So a declaration can move to another stack with all waiting messages,
whatever the removal policies say, if the new stack is deployed before the old stack drops its declaration. If both act
within the same few milliseconds, the old stack may not see the mark. If the new stack then finds the topic gone after
it, it creates the topic again, or fails while the topic is being deleted.

Every operation may be repeated. Each change of the table is one write; a repetition continues where the first stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

from tidewheel.aws.custom_resource import Kind, Request
from tidewheel.client.connection import Connection
from tidewheel.client.operations.subscription_queues import check_given_queue
from tidewheel.clock import Clock
from tidewheel.errors import InvalidValue, UnknownSubscription, UnknownTopic
from tidewheel.flows.administration import delete_topic as deletion
from tidewheel.flows.administration import pause as states
from tidewheel.flows.administration import subscribe
from tidewheel.flows.administration.update_topic import update_topic
from tidewheel.model.settings import (
    STORED_SETTINGS,
    InitialPosition,
    StoredSettings,
    TopicSettings,
    read_setting,
    stored_settings,
)
from tidewheel.model.topic import check_name

TOPIC_TYPE = "Custom::TidewheelTopic"
SUBSCRIPTION_TYPE = "Custom::TidewheelSubscription"
ADOPTED = ":adopted"
"""Ends the physical id of an adopted topic or subscription. No name has a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """A topic declared in a template."""

    topic: str
    settings: TopicSettings
    subscription: ClassVar[None] = None

    @property
    def path(self) -> str:
        """The path, unique among all declarations for a service."""
        return self.topic

    def properties(self) -> dict[str, str]:
        """Returns the topic as resource properties. CloudFormation only has text values, so the settings are JSON."""
        return {"Topic": self.topic, "Settings": self.settings.to_json()}

    def create(self, connection: Connection, clock: Clock, owner: str) -> str:
        """Creates the topic, or adopts the existing topic if the settings agree. Returns the generation.

        Raises:
            AlreadyExists: the topic exists with other settings.
            TopicDeleting: an earlier topic of this name is still being deleted.
        """
        return subscribe.create_topic(connection.storage, clock, self.topic, self.settings, owner=owner).generation

    def update(self, connection: Connection, clock: Clock, owner: str) -> None:
        """Changes the differing settings, all in a single write.

        Raises:
            InvalidValue: a setting that differs cannot change; nothing was changed.
        """
        state = connection.storage.topic_states.read(self.topic)
        if state is None:
            self.create(connection, clock, owner)
            return
        there = asdict(state.settings)
        changes = {name: value for name, value in asdict(self.settings).items() if value != there[name]}
        if changes:
            update_topic(connection.storage, clock, self.topic, changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSubscription(StoredSettings):
    """A subscription declared in a template, with an existing queue and its settings."""

    topic: str
    subscription: str
    queue_url: str
    initial_position: InitialPosition = "latest"

    @property
    def path(self) -> str:
        """The path, unique among all declarations for a service."""
        return f"{self.topic}/{self.subscription}"

    def properties(self) -> dict[str, str]:
        """Returns the subscription as resource properties. A setting has its name in camel case."""
        settings = {_property(name): str(value) for name, value in self.stored().items() if value is not None}
        return {
            "Topic": self.topic,
            "Subscription": self.subscription,
            "QueueUrl": self.queue_url,
            "InitialPosition": self.initial_position,
            **settings,
        }

    def create(self, connection: Connection, clock: Clock, owner: str) -> str:
        """Creates the subscription, or adopts an existing subscription with this queue and these settings.

        Returns:
            The generation.

        Raises:
            AlreadyExists: the subscription has another queue or other settings.
            QueueUnavailable: the queue does not exist.
            UnknownTopic: the topic does not exist.
        """
        check_given_queue(connection.sqs, self.queue_url)
        found = subscribe.create_subscription(
            connection.storage,
            clock,
            self.topic,
            self.subscription,
            self.queue_url,
            self.initial_position,
            settings=self,
            owner=owner,
        )
        subscribe.collect_soon(connection.storage, clock, self.topic)
        subscribe.check_same_settings(found, self, exactly=True)
        return found.generation

    def update(self, connection: Connection, clock: Clock, owner: str) -> None:
        """Changes the settings that can change. The initial position does not change.

        Raises:
            AlreadyExists: the subscription has another queue. Messages in that queue would not move, so a subscription
                with another queue needs another name. Or a fixed setting differs.
        """
        existing = connection.storage.subscriptions.read(self.topic, self.subscription)
        if existing is None:
            self.create(connection, clock, owner)
            return
        subscribe.check_same_queue(existing, self.queue_url)
        subscribe.check_same_settings(existing, self, exactly=True, fixed=True)
        states.update_subscription(connection.storage, self.topic, self.subscription, self.stored())


Declared = DeclaredTopic | DeclaredSubscription


def declared(resource_type: str, properties: Mapping[str, Any]) -> Declared:
    """Parses the properties of a template's resource.

    Raises:
        InvalidValue: the resource type is unknown, or a property is missing or not usable.
    """
    if resource_type not in (TOPIC_TYPE, SUBSCRIPTION_TYPE):
        raise InvalidValue("ResourceType", resource_type, f"use {TOPIC_TYPE} or {SUBSCRIPTION_TYPE}")
    topic = check_name("Topic", properties.get("Topic"))
    if resource_type == TOPIC_TYPE:
        return DeclaredTopic(topic=topic, settings=TopicSettings.from_json(str(properties.get("Settings", "{}"))))
    name = check_name("Subscription", properties.get("Subscription"))
    position = str(properties.get("InitialPosition", "latest"))
    subscribe.check_new_subscription(topic, name, position)
    texts = [(each, properties.get(_property(each.name))) for each in STORED_SETTINGS.values()]
    return DeclaredSubscription(
        topic=topic,
        subscription=name,
        queue_url=str(properties.get("QueueUrl", "")),
        initial_position=cast("InitialPosition", position),
        **stored_settings({each.name: read_setting(each, text) for each, text in texts if text is not None}),
    )


def _property(setting: str) -> str:
    return setting.title().replace("_", "")


def fulfil(connection: Connection, clock: Clock, request: Request) -> str:
    """Fulfils a request of CloudFormation. Returns the physical id.

    A new name gives a new physical id, so CloudFormation treats the update as a replacement: the new topic is created
    first, and the old topic is deleted after the rest of the stack is updated.

    Raises:
        TidewheelError: as for the resource's `create`, `update` and `delete`.
    """
    return (_deleted if request.kind is Kind.DELETE else _declared)(connection, clock, request)


def _declared(connection: Connection, clock: Clock, request: Request) -> str:
    wanted = declared(request.resource_type, request.properties)
    found = _settled(connection, clock, request, wanted)
    if found.endswith(ADOPTED):
        connection.storage.adoptions.put(wanted.topic, wanted.subscription, _owner(request))
        # The creator may have deleted the topic before it could see the mark. Then this creates it again, or fails.
        found = _settled(connection, clock, request, wanted)
    return found


def _settled(connection: Connection, clock: Clock, request: Request, wanted: Declared) -> str:
    """Creates or updates the declared topic or subscription. Returns the physical id. Repeating a request is safe."""
    physical_id = f"{connection.settings.stack}/{wanted.path}"
    owner = _owner(request)
    attempt = subscribe.attempt_of(owner, request.request_id)
    updates = request.kind is Kind.UPDATE
    if updates and request.physical_id in (physical_id, physical_id + ADOPTED):
        wanted.update(connection, clock, attempt)
        return request.physical_id
    generation = wanted.create(connection, clock, attempt)
    # The rollback of a rename finds the topic that the resource created under the first name.
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
        connection.storage.adoptions.release(*names, claimant)
        if not physical_id.endswith(ADOPTED) and not connection.storage.adoptions.of_others(*names, claimant):
            delete(connection, clock, owner, *names)
    return physical_id


def delete(connection: Connection, clock: Clock, owner: str, topic: str, subscription: str | None) -> bool:
    """Deletes the owner's subscription, or else topic, with its waiting messages. Returns whether it was deleted.

    Messages in the subscription's queue stay.
    """
    storage = connection.storage
    found = (
        storage.topic_states.read(topic) if subscription is None else storage.subscriptions.read(topic, subscription)
    )
    if found is None or not subscribe.owns(owner, found.generation):
        return False
    try:
        if subscription is None:
            deletion.delete_topic(storage, clock, topic)
        else:
            states.delete_subscription(storage, topic, subscription)
    except (UnknownTopic, UnknownSubscription):  # somebody was faster
        return False
    return True


def _owner(request: Request) -> str:
    return subscribe.owner_of(f"{request.stack_id}/{request.logical_id}")


def _names(service: str, physical_id: str) -> tuple[str, str | None] | None:
    """Returns the topic and subscription names in a physical id. None for any other id."""
    head, *path = physical_id.removesuffix(ADOPTED).split("/")
    if head == service and len(path) in (1, 2):
        return path[0], path[1] if len(path) > 1 else None
    return None


def _wanted_names(request: Request) -> tuple[str, str | None] | None:
    """Returns the names for which a failed creation may have left something. None if the properties are not usable."""
    try:
        unwanted = declared(request.resource_type, request.properties)
    except ValueError:
        return None
    return unwanted.topic, unwanted.subscription
