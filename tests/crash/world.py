"""The world of a story, with a stack of mortal functions, a topic, a user of a client, and the promises to the user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, TypeVar

import botocore.session

from benchmarks.bench_function_time import stop_daily_work
from tests.conftest import SKEW, TOPIC
from tests.crash.death import CLIENT, FunctionDied, Point, Watch, When
from tests.flows.world import Crash
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel
from tidewheel.local.handlers import Handler
from tidewheel.model.message import Message, Receipt
from tidewheel.model.received import ReceivedMessage

Answer = TypeVar("Answer")

_TRIES = 3


class Promise(Enum):
    """The promised fate of a message."""

    COMES = "comes"
    MAY_COME = "may come"
    NEVER = "never comes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A copy of a message in a subscription's queue.

    Attributes:
        late_ms: from when it was due, or its subscription could have it again, until SQS made it receivable.
        early_ms: how long before it was due SQS made it receivable; none may be above 0.
    """

    subscription: str
    body: str
    late_ms: int
    early_ms: int


class MortalTidewheel(LocalTidewheel):
    """The local stack with the production skew, and with watched functions and client programs."""

    def __init__(self) -> None:
        super().__init__(environment=SKEW)
        self.watch = Watch()

    def open(self) -> MortalTidewheel:
        """Opens the stack."""
        super().open()
        assert self._session is not None
        self.watch.observe(self._session._session)
        for handler in self._handlers:
            self.watch.make_mortal(handler)
        return self

    def handler(self, name: str) -> Handler:
        """Returns a function by name."""
        [found] = [each for each in self._handlers if each.spec.folder == name]
        return found

    def _function_session(self, role_arn: str | None) -> botocore.session.Session:
        session = super()._function_session(role_arn)
        self.watch.observe(session)
        return session


class World:
    """A topic on a stack, with the actions of a story.

    Attributes:
        promises: body of a message -> what becomes of it, for each subscription.
        copies: (subscription, body) -> how many copies are asked for: one, and one more for each replay.
        deleted: topics of which nothing at all may be left.
        told_by_time: whether messages have a body in common, and "body at 01:20" is what promises call them.
    """

    def __init__(self, stack: MortalTidewheel, subscriptions: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.stack, self.watch = stack, stack.watch
        stop_daily_work(stack)  # the stories do it, at their own times
        self.promises: dict[str, dict[str, Promise]] = {}
        self.copies: defaultdict[tuple[str, str], int] = defaultdict(lambda: 1)
        self.arrivals: list[Arrival] = []
        self.subscriptions: list[str] = []
        self.deleted: list[str] = []
        self.told_by_time = False
        self.last_due_ms = stack.clock.now_ms()
        self._held_until_ms: dict[str, int] = {}
        self._kept: Tidewheel = stack.client()
        if settings is not NO_TOPIC:
            self._kept.create_topic(TOPIC, **settings)
            for name in subscriptions:
                self._kept.create_subscription(TOPIC, name)
                self.subscriptions.append(name)

    @property
    def now_ms(self) -> int:
        return self.stack.clock.now_ms()

    # ---- what may die

    @contextmanager
    def killed(self, victim: str, operation: str) -> Iterator[None]:
        """Kills the victim once within the block, after its first call of an operation, in any exploration."""
        explored = self.watch.visit

        def visit(point: Point) -> bool:
            if point.when is not When.AFTER or point.operation != operation:
                return False
            self.watch.visit = None
            return True

        self.watch.visit, deaths = visit, self.watch.deaths
        with self.watch.mortal(victim):
            yield
        assert self.watch.deaths == deaths + 1, f"{victim} never came to {operation}"
        self.watch.visit, self.watch.calls = explored, []

    def mortal(self, victim: str) -> AbstractContextManager[None]:
        """Lets the victim die at each of its AWS calls within the block, each time in another branch."""
        return self.watch.mortal(victim)

    def user(self, ask: Callable[[Tidewheel], Answer]) -> Answer:
        """Makes a request with a new client. Starts the program again after each death."""
        for _ in range(_TRIES):
            self.watch.begin_program()
            with suppress(Crash):
                return ask(self.stack.client())
        raise AssertionError(f"the program died {_TRIES} times")

    # ---- messages

    def send(self, delays: Mapping[str, str], **options: Any) -> list[Receipt]:
        """Sends a message for each body, promised to all subscriptions."""
        messages = [Message(body=body, delay=delay, **options) for body, delay in delays.items()]
        receipts = self.user(lambda client: client.send_many(TOPIC, messages))
        for body, receipt in zip(delays, receipts, strict=True):
            self.promise(body, receipt.deliver_at_ms)
        return receipts

    def promise(self, body: str, due_ms: int, to: Sequence[str] | None = None) -> None:
        """Promises a message to some subscriptions, by default to all current subscriptions."""
        self.promises[body[:40]] = dict.fromkeys(self.subscriptions if to is None else to, Promise.COMES)
        self.last_due_ms = max(self.last_due_ms, due_ms)

    def change(self, promise: Promise, *bodies: str, of: str | None = None) -> None:
        """Changes the promise of messages, for all subscriptions or for one."""
        for body in bodies:
            for name in self.promises[body]:
                if of is None or name == of:
                    self.promises[body][name] = promise

    def again(self, subscription: str, *bodies: str) -> None:
        """Notes another copy of messages on the way to a subscription."""
        for body in bodies:
            self.copies[subscription, body] += 1

    def held_until_now(self, subscription: str) -> None:
        """Notes the end of a subscription's hold. Lateness of overdue messages counts from now on."""
        self._held_until_ms[subscription] = self.now_ms

    def receive(self) -> None:
        """Takes all receivable messages."""
        for name in self.subscriptions:
            for message in self.stack.receive(TOPIC, name):
                self.arrivals.append(self._arrival(name, message))

    def _arrival(self, name: str, message: ReceivedMessage) -> Arrival:
        assert message.visible_at is not None
        visible_ms = round(message.visible_at.timestamp() * 1000)
        due_ms = round(message.deliver_at.timestamp() * 1000)
        from_ms = max(due_ms, self._held_until_ms.get(name, 0))
        body = f"{message.body} at {message.deliver_at:%H:%M}" if self.told_by_time else message.body[:40]
        return Arrival(subscription=name, body=body, late_ms=visible_ms - from_ms, early_ms=due_ms - visible_ms)

    def forget(self, subscription: str) -> None:
        """Forgets a deleted subscription and its promises."""
        self.subscriptions.remove(subscription)
        for promises in self.promises.values():
            promises.pop(subscription, None)

    # ---- time and triggers

    def advance(self, **duration: float) -> None:
        """Lets time pass, with all work due meanwhile."""
        self.stack.advance(**duration)

    def sweep(self) -> None:
        """Runs a sweep and the work started by the sweep. The local stack leaves out sweeps without work."""
        try:
            self.stack.handler("sweep").invoke({})
        except FunctionDied:
            assert self.watch.deaths, "nothing else fails so"
        self.advance()

    # ---- below the service

    def queue_url(self, subscription: str) -> str:
        [url] = [each.queue_url for each in self._kept.subscriptions(TOPIC) if each.name == subscription]
        return url

    def remove_queue(self, subscription: str) -> None:
        """Deletes a subscription's queue, as its owner may."""
        self.aws("sqs").delete_queue(QueueUrl=self.queue_url(subscription))

    def restore_queue(self, subscription: str) -> None:
        """Creates a deleted queue again."""
        self.aws("sqs").create_queue(QueueName=self.queue_url(subscription).rpartition("/")[2])
        self.held_until_now(subscription)

    def aws(self, service: str) -> Any:
        """An administrator's client, without a count of its calls."""
        return self.stack._emulator.session().client(service)

    def bucket_name(self) -> str:
        [s3_bucket] = self.aws("s3").list_buckets()["Buckets"]
        return str(s3_bucket["Name"])


NO_TOPIC: Mapping[str, Any] = {"no": "topic"}
"""As settings: the story makes its topic itself."""


@contextmanager
def replaced(values: Mapping[str, object]) -> Iterator[None]:
    """Replaces constants, named with their modules, to make rare cases common."""
    before: list[tuple[Any, str, object]] = []
    try:
        for name, value in values.items():
            module_name, _, attribute = name.rpartition(".")
            module = import_module(module_name)
            before.append((module, attribute, getattr(module, attribute)))
            setattr(module, attribute, value)
        yield
    finally:
        for module, attribute, value in reversed(before):
            setattr(module, attribute, value)


__all__ = ["CLIENT", "NO_TOPIC", "Arrival", "MortalTidewheel", "Promise", "World", "replaced"]
