"""A small world with a topic, a few messages, and two or three functions, controlled step by step.

What one schedule of it does is decided by few deviations from the plain order, in which one actor after the other runs
to its end:

    an actor moves on instead of the one whose turn it is, which goes on later
    a call goes wrong: the function dies before it, its answer is lost, or it is made twice

Then all that is under way is brought to its end by the sweep alone (no schedule of the wheel fires), time passes, and
`check` says what must be true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.recorded_queues import recorded_service
from tests.simulation.actors import Actor, ActorPorts, require, step, void
from tests.simulation.healing import SECOND, SLOT_S, START_MS, TOPIC, Healing, dispatch_as_function
from tests.simulation.interleaving import Task
from tests.stored import stored
from tidewheel.clock import ManualClock
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.load_index import Indexes
from tidewheel.flows.delivery.planning import make_plan
from tidewheel.model import settings as model_settings
from tidewheel.model.message import IdSource, Message, id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.pack import Pack, decode_pack, packs
from tidewheel.model.settings import StoredSettings, TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import Options, check_message
from tidewheel.model.wheel import open_from


class SmallWorld(Healing):
    """A service with a topic, and the promises about its messages.

    Args:
        subscriptions: names; each has a queue of its name.
        settled: whether a dispatch has raised the next slot, which new subscriptions lower.
        kept_s: how long passed ledgers are kept, which are the world's days.
        settings: of the topic.

    Attributes:
        actors: in the plain order.
        names: message id -> what the world calls it.
        wanted: (subscription, message's name): comes at least once; and only once, if no call goes wrong.
        unwanted: likewise: never comes.
        may_repeat: whether a message may come more than once in any case.
        alarms: whether only schedules bring work, and no sweep runs.
        looks: asked when all actors have ended, before anything heals.
        before_days: done when all is delivered, before days pass in which what is left goes.
        at_end: asked after everything.
    """

    def __init__(self, *subscriptions: str, settled: bool = True, kept_s: int = 0, **settings: Any) -> None:
        self.clock = ManualClock(START_MS)
        self.service = recorded_service(self.clock, max_skew_ms=100)
        self.ids = IdSource()
        self.settings = TopicSettings(
            **{"slot_s": SLOT_S, "lookahead_s": SLOT_S, "collect_interval_s": 600, "redrive_s": 600}
            | {"claims": "none", "retention_days": min(kept_s, 1), **settings}
        )
        if kept_s:
            model_settings.DAY_MS = kept_s * 1000
        self.actors: list[Actor] = []
        self.names: dict[str, str] = {}
        self._last_due_ms = START_MS
        self.wanted: set[tuple[str, str]] = set()
        self.unwanted: set[tuple[str, str]] = set()
        self.may_repeat = False
        self.alarms = False
        self.looks: list[Callable[[], None]] = []
        self.before_days: list[Callable[[], None]] = []
        self.at_end: list[Callable[[], None]] = []
        self._marks: dict[str, TopicState] = {}
        create_topic(self.service, self.clock, TOPIC, self.settings)
        for name in subscriptions:
            self.subscribe(name)
        if settled:
            dispatch(self.service, TOPIC)

    # ---- what a world is made of
    @property
    def state(self) -> TopicState:
        found = self.service.topic_states.read(TOPIC)
        assert found is not None
        return found

    def subscribe(self, name: str) -> None:
        claims = StoredSettings(reader="tidewheel")
        create_subscription(self.service, self.clock, TOPIC, name, f"queue-{name}", settings=claims)

    def slot_ms(self, slot: float) -> int:
        """Returns the start of a slot. Slots are counted from the beginning of the world."""
        return START_MS + round(slot * SLOT_S * SECOND)

    def at(self, slot: float) -> None:
        """Moves the clock to a slot."""
        self.clock.set_ms(self.slot_ms(slot))

    def pack(self, sent_ms: int | None = None, options: Options | None = None, /, **messages: Any) -> Pack:
        """Packs messages, given as name -> due slot, or name -> (due slot, more fields of `Message`)."""
        now_ms = self.clock.now_ms() if sent_ms is None else sent_ms
        checked = []
        for name, asked in messages.items():
            slot, more = asked if isinstance(asked, tuple) else (asked, {})
            due_s = (self.slot_ms(slot) + 500) / 1000
            message = Message(**{"body": "hello", "deliver_at": due_s, **more})
            made = check_message(message, self.ids, now_ms, resend=options)
            checked.append(made)
            self.names[id_text(made.id)] = name
            self._last_due_ms = max(self._last_due_ms, made.deliver_at_ms)
        [(_, data)] = packs(TOPIC, self.state.generation, now_ms, checked)
        return decode_pack(data, now_ms)

    def send(self, **messages: Any) -> Pack:
        """Sends messages through ingest, before anything else happens."""
        sent = self.pack(**messages)
        ingest(self.service, TOPIC, [sent])
        return sent

    def id_of(self, name: str) -> Any:
        """Returns a message's id."""
        return next(id for id, known in self.names.items() if known == name)

    def slot_of(self, name: str) -> int:
        """Returns the slot in which a message is due, as topic states count."""
        return id_deliver_at_ms(id_bytes(self.id_of(name))) // self.settings.slot_ms

    def want(self, *subscriptions: str, messages: Iterable[str]) -> None:
        """Notes messages as wanted."""
        self.wanted |= {(subscription, name) for subscription in subscriptions for name in messages}

    def act(self, name: str, call: Callable[[Any], object], *, skew_ms: int = 0, again: bool = False) -> None:
        """Adds an actor."""
        known = frozenset(stored(self.service).of(TOPIC).buckets)
        actor = Actor(name=name, call=call, skew_ms=skew_ms, again=again, second_page=known)
        ports = ActorPorts(self.service, actor)
        actor.task = Task(name, lambda _: void(actor.call(ports)), START_MS)
        self.actors.append(actor)

    def dispatch(self) -> None:
        """Fires the due schedules, and runs all work that follows."""
        self.service.wheel.take_due(self.clock.now_ms())
        dispatch_as_function(self.service)
        self.run()

    def dies(self, call: Callable[[Any], object], *, before: str) -> None:
        """Runs a function until it dies before a call.

        Args:
            before: such as `storage.buckets.commit`; the first of the name.
        """
        actor = Actor(name="who dies", call=call)
        ports = ActorPorts(self.service, actor)
        actor.task = Task(actor.name, lambda _: void(call(ports)), START_MS)
        while actor.pending != before:
            require(not actor.task.over, f"arranging: {before} was never called; {actor.task.error!r}")
            actor.task.step()
        actor.task.kill()

    def passes(self, duration_ms: int) -> None:
        """Adds an actor to let time pass."""
        self.act("time", lambda ports: step(ports.actor, "time.passes", lambda: self.clock.advance_ms(duration_ms)))

    def plan_only(self) -> None:
        """Leaves the state of a dispatch in single steps after its death between plan and hand-out."""
        storage = self.service
        boundary = open_from(self.clock.now_ms(), self.settings)
        state = storage.topic_states.seal(self.state, boundary)
        assert state is not None
        plan = make_plan(self.service, state, Indexes(storage.buckets.all(TOPIC), []))
        require(storage.plans.commit(state, plan, boundary), "arranging: the plan was refused")

    # ---- while actors move
    def watch(self) -> None:
        """Checks the state after each step.

        Raises:
            Violation: it is not so.
        """
        for topic, items in stored(self.service).topics().items():
            state = items.state
            if state is None or state.deleting_at_ms is not None:
                continue
            before = self._marks.get(topic)
            require(
                state.collected_until <= state.planned <= state.sealed,
                f"collected {state.collected_until}, planned {state.planned}, sealed {state.sealed}: out of order",
            )
            if (
                before is not None
                and before.generation == state.generation
                and before.subscriptions_version <= state.subscriptions_version
            ):
                marks = "sealed", "planned", "collected_until"
                back = [mark for mark in marks if getattr(state, mark) < getattr(before, mark)]
                require(not back, f"{' and '.join(back)} went back")
            self._marks[topic] = state
            gone = [b.object_name for b in items.buckets.values() if b.object_name not in self.service.objects._objects]
            require(not gone, "the ledger of a live bucket is gone")

    # ---- what must be true
    def check(self, *, calm: bool) -> None:
        """Checks all promises.

        Args:
            calm: whether no call went wrong.

        Raises:
            Violation: it is not so.
        """
        copies = Counter(
            (message.queue_url.removeprefix("queue-"), self.names.get(message.id, message.id))
            for message in self.service.queues.sent()
        )
        for subscription, name in sorted(self.wanted):
            count = copies[subscription, name]
            require(count > 0, f"{name} never came to {subscription}")
            require(count == 1 or not calm or self.may_repeat, f"{name} came to {subscription} {count} times")
        for subscription, name in sorted(self.unwanted):
            require(not copies[subscription, name], f"{name} came to {subscription}")
        for message in self.service.queues.sent():
            late_ms = message.visible_at_ms - id_deliver_at_ms(id_bytes(message.id))
            require(late_ms >= 0, f"{self.names.get(message.id)} came {-late_ms} ms early")
            require(not self.alarms or late_ms <= 1100, f"{self.names.get(message.id)} came {late_ms} ms late")
        for each in self.at_end:
            each()
        if not self.alarms:
            self._check_nothing_left()

    def _check_nothing_left(self) -> None:
        for topic, items in stored(self.service).topics().items():
            for kind in ("buckets", "plans", "deliveries", "parks", "trash"):
                left = getattr(items, kind)
                require(not left, f"{len(left)} {kind} of {topic} are left for ever")
            # Tombstones of an idle topic, which has nothing to collect, are deleted by the table's TTL.
            kept = [each for each in items.tombstones.values() if each.ttl_s >= self.clock.now_ms() // 1000]
            require(not kept, f"{len(kept)} tombstones of {topic} are kept")
        left = [name for name in self.service.objects.names() if not name.startswith(("checkpoints/", "payloads/"))]
        require(not left, f"objects are left for ever: {left}")

    def received(self, subscription: str) -> list[str]:
        """Returns the names of the messages in a subscription's queue, in the order of sending."""
        return [self.names.get(each.id, each.id) for each in self.service.queues.sent(f"queue-{subscription}")]
