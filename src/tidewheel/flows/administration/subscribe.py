"""Creates topics and subscriptions.

A new subscription's place among the slots:

             collected_until            planned         sealed
                |                   |               |
    ------------+-------------------+---------------+-----------> slots
    earliest:   ^ cursor            |               |              start = 0: all ledgers that are still kept
    latest:                         ^ cursor        ^ start        all slots that are still open

The cursor of *latest* is `planned` and not `sealed`, because a cursor inside a plan would skip the plan. The seal is a
condition of the creation: whoever cancels a message of an open slot later knows the subscription.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from dataclasses import asdict

from tidewheel.clock import Clock
from tidewheel.errors import AlreadyExists, ConcurrentModification, TopicDeleting
from tidewheel.flows.administration.update_topic import FIXED
from tidewheel.model.setting import settings_of
from tidewheel.model.settings import (
    STORED_SETTINGS,
    InitialPosition,
    StoredSettings,
    SubscriptionSettings,
    TopicSettings,
)
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic import check_name
from tidewheel.model.topic_state import TopicState, new_topic_state
from tidewheel.storage.storage import Storage
from tidewheel.storage.topic_states import check_again_at

_ATTEMPTS = 50
_DEFAULTS = StoredSettings()
_OWNER_DIGITS = 8
_ATTEMPT_DIGITS = 4


def create_topic(
    storage: Storage,
    clock: Clock,
    name: str,
    settings: TopicSettings,
    *,
    given: Collection[str] | None = None,
    owner: str | None = None,
) -> TopicState:
    """Creates a topic, or returns the existing topic if the requested settings match.

    Args:
        name: the topic's.
        settings: the topic's, if it is created.
        given: names of the requested settings, which must match; an existing topic keeps all others. None: the slot,
            the lookahead, and all values other than defaults, because a topic keeps the defaults of the release that
            created it.
        owner: a mark from `owner_of`, with or without `attempt_of`. The new topic's generation begins with the mark, so
            that `owns` recognizes the owner.

    Raises:
        InvalidValue: the name is not a valid topic name.
        AlreadyExists: the topic has other settings; the message lists the differences.
        TopicDeleting: the last topic of this name is not gone yet.
    """
    check_name("topic", name)
    for _ in range(_ATTEMPTS):
        existing = storage.topic_states.read(name)
        if existing is not None:
            difference = _difference(existing.settings, settings, given)
            if difference:
                raise AlreadyExists("topic", name, difference)
            return existing
        if storage.deletions.read(name) is not None:
            raise TopicDeleting(name)
        state = new_topic_state(name, _generation(owner), settings, clock.now_ms())
        storage.topic_list.add(name)
        if storage.topic_states.create(state):
            return state
    raise ConcurrentModification("create", name, _ATTEMPTS)


def create_subscription(
    storage: Storage,
    clock: Clock,
    topic: str,
    name: str,
    queue_url: str,
    initial_position: InitialPosition = "latest",
    *,
    settings: StoredSettings = _DEFAULTS,
    owner: str | None = None,
) -> SubscriptionState:
    """Creates a subscription, or returns the existing subscription with this queue and these settings.

    Args:
        queue_url: where its messages go.
        initial_position: "latest" for all messages sent from now on and all messages that wait in open slots;
            "earliest" for all ledgers still kept, past ledgers included, which arrive with the next dispatch or sweep.
        settings: of the new subscription, as `SubscriptionSettings` checks them; an existing subscription keeps its own
            where these have the default.
        owner: as of `create_topic`.

    Raises:
        InvalidValue: a name or the position is invalid.
        UnknownTopic: the topic does not exist.
        AlreadyExists: the subscription has another queue or other settings.
        ConcurrentModification: other changes of the topic came first each time.
    """
    check_new_subscription(topic, name, initial_position)
    for _ in range(_ATTEMPTS):
        state = storage.topic_states.existing(topic)
        existing = storage.subscriptions.read(topic, name)
        if existing is not None:
            check_same_queue(existing, queue_url)
            check_same_settings(existing, settings)
            return existing
        earliest = initial_position == "earliest"
        subscription = SubscriptionState(
            topic=topic,
            name=name,
            generation=_generation(owner),
            queue_url=queue_url,
            cursor=state.collected_until if earliest else state.planned,
            start=0 if earliest else state.sealed,
            created_at_ms=clock.now_ms(),
            created_slot=state.sealed,
            **settings.stored(),
        )
        if storage.subscriptions.create(state, subscription):
            return subscription
    raise ConcurrentModification("subscribe", topic, _ATTEMPTS)


def collect_soon(storage: Storage, clock: Clock, topic: str) -> None:
    """Has the next sweep collect, and so write a checkpoint with a new subscription.

    A rebuild from an older checkpoint would not know the subscription. If it stops before, a day may pass until a
    checkpoint has the subscription.
    """
    for _ in range(_ATTEMPTS):
        state = storage.topic_states.read(topic)
        if state is None:
            return
        # The sweep collects what is due for an interval.
        at_ms = clock.now_ms() - state.settings.collect_interval_s * 1000
        if storage.topic_states.set_collect_at(state, at_ms, check_again_at(state, at_ms)):
            return


def check_new_subscription(topic: str, name: str, initial_position: str) -> None:
    """Raises InvalidValue if a name or the initial position is invalid."""
    check_name("topic", topic)
    check_name("subscription", name)
    settings_of(SubscriptionSettings)["initial_position"].check(initial_position)


def check_same_queue(existing: SubscriptionState, queue_url: str) -> None:
    """Raises AlreadyExists if an existing subscription has another queue."""
    if existing.queue_url != queue_url:
        difference = f"queue {existing.queue_url} (asked for {queue_url})"
        raise AlreadyExists("subscription", existing.name, difference)


def check_same_settings(
    existing: SubscriptionState, asked: StoredSettings, *, exactly: bool = False, fixed: bool = False
) -> None:
    """Raises AlreadyExists if an existing subscription has other settings.

    Args:
        exactly: whether settings with the default count, too.
        fixed: whether only settings that cannot change count.
    """
    default, there = _DEFAULTS.stored(), existing.stored()
    for name, value in asked.stored().items():
        stays = STORED_SETTINGS[name].setting.fixed
        if there[name] != value and (exactly or value != default[name]) and (stays or not fixed):
            there_is, asked_for = ("none" if each is None else each for each in (there[name], value))
            advice = "it cannot change" if stays else "change it with set_filter"
            difference = f"{name} {there_is} (asked for {asked_for}); {advice}"
            raise AlreadyExists("subscription", existing.name, difference)


def _difference(existing: TopicSettings, asked: TopicSettings, given: Collection[str] | None) -> str:
    """Lists the settings that differ from the requested settings. Empty if all match."""
    found, default = asdict(existing), asdict(TopicSettings())
    return ", ".join(
        f"{name}={found[name]} (asked for {value})"
        for name, value in asdict(asked).items()
        if found[name] != value and (name in given if given is not None else name in FIXED or value != default[name])
    )


def owner_of(name: str) -> str:
    """Returns the mark of an owner, who creates and deletes only its own topics and subscriptions.

    Args:
        name: a unique name, such as a stack's ARN.
    """
    return hashlib.sha256(name.encode()).hexdigest()[:_OWNER_DIGITS]


def attempt_of(owner: str, attempt: str) -> str:
    """Returns the mark of one attempt of an owner. The mark is an owner, too.

    The mark owns the topics and subscriptions that this attempt created.
    """
    return owner + hashlib.sha256(attempt.encode()).hexdigest()[:_ATTEMPT_DIGITS]


def owns(owner: str, generation: str) -> bool:
    """Whether a topic or a subscription of this generation was created by an owner.

    Two owners have the same mark by chance once in four billion. A generation without an owner begins at random.
    """
    return generation.startswith(owner)


def _generation(owner: str | None) -> str:
    """Returns a new generation of 16 hexadecimal digits.

    All digits are random, or all behind the owner's.
    """
    begin = owner or ""
    return begin + secrets.token_hex((16 - len(begin)) // 2)
