"""Finds problems of topics and of the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

from tidewheel.aws.tries import AWS_ERRORS
from tidewheel.client.connection import Connection
from tidewheel.client.operations import damaged
from tidewheel.client.operations.stats import SubscriptionStats, TopicStats, queue_depth, topic_stats
from tidewheel.clock import utc
from tidewheel.errors import CorruptMetadata, NewerRelease, TidewheelError, UnknownTopic, UnsupportedLayout
from tidewheel.model.subscription_state import State
from tidewheel.model.triggers import SWEEP_INTERVAL_S

SWEEP_LATE_S = 3 * SWEEP_INTERVAL_S
"""A sweep takes up to four minutes, and notes its time at the end."""


class Problem(StrEnum):
    """A kind of finding, the worst first, and the page that tells more."""

    page: str

    def __new__(cls, value: str, page: str) -> Self:
        """Makes a kind with its page."""
        made = str.__new__(cls, value)
        made._value_, made.page = value, page
        return made

    DAMAGED = "damaged", "runbook#damaged-data"
    """Messages are held back, because they cannot be read."""
    UNREADABLE = "unreadable", "runbook#damaged-data"
    """Items of the table, plans or ledgers' indexes cannot be read."""
    SWEEP_LATE = "sweep_late", "runbook#sweep-not-running"
    """The sweep has not run for a quarter of an hour, so nothing heals what a crash left."""
    LATE = "late", "runbook#oldest-due-message"
    """Messages are due, and not in a subscription's queue."""
    QUEUE_REFUSES = "queue_refuses", "runbook#broken-subscriptions"
    """A subscription's queue is gone or refuses every message."""
    PACKS_WAIT = "packs_wait", "runbook#queue-age"
    """No function takes the messages of an ingest queue, or the tasks of the work queue."""
    SERVICE_DEAD_LETTERS = "service_dead_letters", "runbook#dead-letters"
    """Packs or tasks are dead letters of the service's own queues."""
    REFUSED = "refused", "runbook#refused-messages"
    """The service or SQS refused messages."""
    PARKED = "parked", "runbook#broken-subscriptions"
    """A subscription's queue did not take some messages, which are tried again."""
    DEAD_LETTERS = "dead_letters", "runbook#dead-letters-of-a-subscription"
    """A subscription has dead letters."""
    NOT_READABLE = "not_readable", "permissions#administrators"
    """A part of the health could not be read, such as for want of permission. The other findings are complete."""
    PAUSED = "paused", "sdk#subscriptions"
    """Somebody paused a subscription."""
    NO_SUBSCRIPTION = "no_subscription", "sdk#subscriptions"
    """Messages wait in a topic without subscriptions, so nobody gets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong.

    Attributes:
        topic, subscription: where. None: all of the topic, or the service.
        what: a sentence.
        since: about when it began, or the due time of the first message that it keeps back. None: unknown.
        count: about how many messages, items or parts. None: unknown.
        remedy: a command, or a sentence that says what to do.
        page: where to read more, as `tidewheel docs` takes it.
    """

    problem: Problem
    topic: str | None
    subscription: str | None
    what: str
    since: datetime | None
    count: int | None
    remedy: str
    page: str


class Health:
    """Collects findings. A part that cannot be read is a finding, and hides no other."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        self._connection, self._now_ms = connection, now_ms
        self._found: list[Finding] = []

    @property
    def findings(self) -> list[Finding]:
        """All findings so far, the worst first."""
        order, never = list(Problem), utc(1 << 47)
        return sorted(self._found, key=lambda each: (order.index(each.problem), each.since or never))

    def find_in(self, topic: str) -> None:
        """Looks at a topic.

        Raises:
            UnknownTopic: the topic does not exist.
        """
        self._try(f"Topic {topic}", lambda: self._topic(topic), topic)

    def find_in_all(self, topics: Callable[[], Iterable[str]]) -> None:
        """Looks at the service and all its topics."""
        settings = self._connection.settings
        self._try("The time of the last sweep", self._sweep)
        for url in settings.own_queue_urls:
            self._try(f"Queue {_name(url)}", partial(self._own_queue, url))
        self._try("The queue of refused messages", self._refused)
        names: list[str] = []
        self._try("The list of topics", lambda: names.extend(topics()))
        for name in names:
            with suppress(UnknownTopic):  # deleted since
                self.find_in(name)

    def _try(self, what: str, look: Callable[[], None], topic: str | None = None) -> None:
        try:
            look()
        except UnknownTopic:
            raise
        except (CorruptMetadata, UnsupportedLayout) as error:
            newer = isinstance(error, (NewerRelease, UnsupportedLayout))
            remedy = "Upgrade Tidewheel" if newer else f"tidewheel rebuild {topic} --replace"
            self._add(Problem.UNREADABLE, f"{what} cannot be read: {error}", remedy, topic=topic)
        except (*AWS_ERRORS, TidewheelError) as error:
            self._not_readable(what, error, topic)

    def _not_readable(self, what: str, error: object, topic: str | None, subscription: str | None = None) -> None:
        what = f"{what} cannot be read: {error}"
        self._add(Problem.NOT_READABLE, what, "Allow the read, or try again", topic=topic, subscription=subscription)

    def _add(self, problem: Problem, what: str, remedy: str, **others: Any) -> None:
        """Adds a finding. Fields that are not given are None."""
        fields = dict.fromkeys(("topic", "subscription", "since", "count")) | others
        self._found.append(Finding(problem=problem, what=what, remedy=remedy, page=problem.page, **fields))

    # ---- a topic
    def _topic(self, topic: str) -> None:
        storage = self._connection.storage
        state = storage.topic_states.existing(topic)
        stats = topic_stats(storage, self._connection.sqs, state, self._now_ms)
        held: Counter[str] = Counter()
        if stats.damaged:
            remedy = f"tidewheel damaged list {topic}"
            parts = sorted((part for part, _ in damaged.messages(storage, state)), key=attrgetter("name"))
            for name, of_name in groupby(parts, key=attrgetter("name")):
                own = list(of_name)
                count = held[name] = sum(each.messages or 0 for each in own)
                since = min((each.first_seen for each in own if each.first_seen is not None), default=None)
                what = f"{len(own):,} parts of {topic}/{name} cannot be read: about {count:,} messages do not come"
                self._add(Problem.DAMAGED, what, remedy, topic=topic, subscription=name, since=since, count=count)
        self.find_in_stats(stats, held)

    def find_in_stats(self, stats: TopicStats, held: Mapping[str, int] | None = None) -> None:
        """Finds what the statistics of a topic tell.

        Args:
            held: subscription -> messages in parts that cannot be read, which are findings. None: nobody looked.
        """
        topic, held_of = stats.topic, held or {}
        unread = stats.unreadable + (stats.damaged if held is None else 0)
        if unread:
            what, remedy = f"{unread:,} items, plans or parts of topic {topic} cannot be read", "tidewheel damaged list"
            self._add(Problem.UNREADABLE, what, f"{remedy} {topic}", topic=topic, count=unread)
        for each in stats.subscriptions:
            self._subscription(topic, each, held_of.get(each.name, 0))
        if not stats.subscriptions and (count := stats.waiting) > 0:
            what = f"Topic {topic} has no subscription, so nobody gets the messages that wait: about {count:,}"
            remedy = f"tidewheel subscriptions create {topic} NAME, before they are due"
            self._add(Problem.NO_SUBSCRIPTION, what, remedy, topic=topic, count=count)

    def _subscription(self, topic: str, each: SubscriptionStats, held: int) -> None:
        where, resume = f"{topic}/{each.name}", f"tidewheel subscriptions resume {topic} {each.name}"
        add = partial(self._add, topic=topic, subscription=each.name)
        gone = each.queue_error is not None and "NonExistentQueue" in each.queue_error
        if each.state is State.PAUSED:
            what = f"{where} is paused" + (f", and about {each.late:,} messages are due" if each.late else "")
            add(Problem.PAUSED, what, resume, since=each.late_since, count=each.late)
        elif each.state is State.BROKEN or gone:
            what = f"The queue of {where} is gone or refuses messages: {each.parked:,} are parked"
            remedy = f"Create the queue again, or correct its policy, then {resume}"
            add(Problem.QUEUE_REFUSES, what, remedy, since=each.late_since, count=each.parked)
        else:
            if each.parked:
                what = f"The queue of {where} did not take {each.parked:,} messages, which are tried again"
                remedy = "See why in the log of the function deliver"
                add(Problem.PARKED, what, remedy, since=each.late_since, count=each.parked)
            if each.late > each.parked + held:
                what = f"About {each.late:,} messages are due, and not in the queue of {where}"
                remedy = "See why in the logs of the functions dispatch and deliver"
                add(Problem.LATE, what, remedy, since=each.late_since, count=each.late)
        if each.dead:
            remedy = f"Correct the consumer, then tidewheel redrive {topic} {each.name}"
            add(Problem.DEAD_LETTERS, f"Dead letters of {where}: {each.dead:,}", remedy, count=each.dead)
        if each.queue_error is not None and not gone:
            self._not_readable(f"The queue of {where}", each.queue_error, topic, each.name)

    # ---- the service
    def _sweep(self) -> None:
        swept_ms = self._connection.storage.checks.swept_at_ms()
        if swept_ms is not None and swept_ms < self._now_ms - SWEEP_LATE_S * 1000:
            since = utc(swept_ms)
            what = f"The sweep has not run since {since:%Y-%m-%d %H:%M} UTC, so nothing heals what a crash leaves"
            remedy = "See why its rule does not start the function sweep, or why it fails"
            self._add(Problem.SWEEP_LATE, what, remedy, since=since)

    def _own_queue(self, url: str) -> None:
        sqs = self._connection.sqs
        depth, dead_url = queue_depth(sqs, url)
        if depth.visible and not depth.in_flight:
            what = f"{depth.visible:,} packs or tasks wait in queue {_name(url)}, and no function takes them"
            remedy = "See why the queue's event source mapping does not start its function"
            self._add(Problem.PACKS_WAIT, what, remedy, count=depth.visible)
        if dead_url is not None and (dead := queue_depth(sqs, dead_url)[0].total):
            what = f"{dead:,} packs or tasks are in the dead-letter queue {_name(dead_url)}"
            remedy = "Remove the cause, then tidewheel redrive --service"
            self._add(Problem.SERVICE_DEAD_LETTERS, what, remedy, count=dead)

    def _refused(self) -> None:
        depth, _ = queue_depth(self._connection.sqs, self._connection.settings.refused_queue_url)
        if depth.total:
            self._add(Problem.REFUSED, f"Refused messages: {depth.total:,}", "tidewheel refused", count=depth.total)


def _name(queue_url: str) -> str:
    return queue_url.rpartition("/")[2]
