"""Runs the service's real flows under one seed, with all actors interleaved at every call of a port.

    clients     send, cancel, move, pause, filter, purge, replay; topics, subscriptions and rules come and go
    triggers    each may come late, twice or never: SQS's batches, schedules, asynchronous invocations, the sweep
    functions   ingest, dispatch, deliver, sweep, merge: each a task with a clock of its own; each call of a port is a
                step, and may fail before or after its effect, or be the last one

When all has been sent, everything is healed: no failures any more, every trigger comes. Then what was promised must be
true: `promises` says what, `watching` looks while it runs, `checks` at the end.
"""

from __future__ import annotations

import os
import random as random_module
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from unittest.mock import patch

from tests.recorded_queues import recorded_service
from tests.simulation.administrators import LASTING, REBUILD_LEASE_S, Administrators
from tests.simulation.checks import Checks
from tests.simulation.clients import UNSENDABLE, Clients
from tests.simulation.consumers import Consumers
from tests.simulation.lasting import LastingFaults
from tests.simulation.latency import Latency
from tests.simulation.modes import MODES, NO_FAULTS, Mode
from tests.simulation.plain_senders import PlainSenders
from tests.simulation.promises import Promises, TopicLife, Violation
from tests.simulation.rules import Rules
from tests.simulation.thresholds import SLACKS, drawn
from tests.simulation.trace import story
from tests.simulation.triggers import SWEEP_MS, Triggers
from tests.simulation.watching import Watch
from tests.simulation.world import CALM_MS, MAX_SKEW_MS, START_MS, Running, World
from tests.stored import stored
from tidewheel.clock import ManualClock
from tidewheel.errors import UnknownSubscription
from tidewheel.flows.administration.pause import resume
from tidewheel.flows.maintenance import retention
from tidewheel.flows.ports import MergeSize
from tidewheel.ledger import ledger
from tidewheel.model import settings
from tidewheel.model.settings import TopicSettings
from tidewheel.storage.topic_states import AT_ONCE_MS

__all__ = ["Simulation", "Violation"]

DAY_MS = 86_400_000
TOPICS = ("orders", "trials", "alarms")
STEPS = 2500
LIVELY_MS = 610_000 + CALM_MS
"""How long a message waits at most after the last fault has ended, beside the time that functions take."""
_HEALED_MS = 8 * 3_600_000
"""From the last message that is due: some sweeps find what is left, and what they start may find more."""
_RULES_MS = 1_800_000
"""How long recurring messages go on while all is well."""
_CROWDS = (*[0] * 20, 3, 12, 47, 60)
_MANY = (*[0] * 30, *_CROWDS, 120, 198)
"""Subscriptions besides the others. A dispatch hands out to 49 in one transaction."""
_REBUILDS = 3
"""Of a topic whose rebuild has died, when nothing goes wrong any more: the first waits for a lease at most."""
_EXPIRES = 0.7
"""How likely the table's TTL deletes an item that it may: the others go some days later."""
_RARE_SWEEP_MS = 3_600_000
"""How often the sweep comes while there is nothing but time to pass: none is needed more often."""
_DAYS = {0: 1, 5: 30}
"""A seed modulo eight -> so many days ahead its messages are due at most. In all other runs it is hours."""
_REWRITTEN_MS = 2 * DAY_MS
"""How long dead bytes may stay: a day until a sweep finds them, and a day until they are gone."""
_HEALED_DAYS = (1, 1, 28, 1, 28, 1, 1)
"""Orphans are kept for a day, tombstones for 28, large bodies for 28 once a collection has passed them."""

_DAY_MS = 7_200_000
"""The days of a retention, which are too long for a simulation."""
_READ_ONCE = lru_cache(maxsize=1_000)(ledger._read)
"""The same bytes are read for each of many subscriptions."""


@dataclass(slots=True, kw_only=True)
class Simulation:
    """A run of the simulation.

    Args:
        seed: decides everything.
        mode: what goes wrong. If nothing does, every message must come exactly once.
        steps: after so many everything is healed.
    """

    seed: int
    mode: Mode = MODES["late"]
    steps: int = STEPS
    random: Random = field(init=False)
    world: World = field(init=False)
    triggers: Triggers = field(init=False)
    clients: Clients = field(init=False)
    plain: PlainSenders = field(init=False)
    consumers: Consumers | None = field(init=False)
    administrators: Administrators = field(init=False)
    rules: Rules = field(init=False)
    watch: Watch = field(init=False)
    checks: Checks = field(init=False)
    at_once: int = field(init=False)
    slack_bytes: int = field(init=False)
    wheel_alone: bool = field(init=False)
    unasked: bool = field(init=False)
    rebuilds: float = field(init=False)

    def __post_init__(self) -> None:
        random = self.random = Random(self.seed)
        clock = ManualClock(START_MS)
        service = recorded_service(clock, max_skew_ms=MAX_SKEW_MS)
        service.queues.refuse_if(lambda release: release.text == UNSENDABLE, permanent=True)
        least_ms = random.choice([-MAX_SKEW_MS, -MAX_SKEW_MS // 2, 0])
        self.world = World(
            odds=self.mode.odds,
            unreliable=self.mode.unreliable,
            lasting=self._lasting(),
            latency=self._latency(clock),
            random=random,
            clock=clock,
            service=service,
            # No two clocks differ by more, SQS's, which is right, among them.
            skews_ms=(least_ms, least_ms + MAX_SKEW_MS),
        )
        # What is in time where all is calm is so by the wheel alone: the sweep, and whoever dispatches without being
        # asked to, would hide that a schedule is missing.
        self.wheel_alone = self.world.calm and self.seed % 2 == 1
        self.unasked = self.wheel_alone or (self.mode.lasting and self.seed % 2 == 1)
        self.triggers = Triggers(self.world, _RARE_SWEEP_MS if self.wheel_alone else SWEEP_MS)
        # What is rebuilt comes late, and some of it again: most runs do without, so that they can be exact.
        self.rebuilds = 1 if self.seed % 8 == 2 else 0
        self.clients = Clients(self.world, self.triggers, days=_DAYS.get(self.seed % 8, 0))
        one_of_three = self.world.lasting is not None and self.world.lasting.family == "topic"
        topics = TOPICS[: 3 if one_of_three else random.choice([1, 1, 2, 3])]
        self.plain = PlainSenders(self.world, self.clients)
        self.consumers = Consumers(self.world) if self.mode.claims != "none" else None
        self.clients.consumers = self.consumers
        self.world.promises.claimed = self.mode.claims != "none"
        self.triggers.sources += [self.plain] if self.consumers is None else [self.plain, self.consumers]
        settings = {each: self._settings() for each in topics}
        crowd = random.choice(_MANY if self.mode.lasting else _CROWDS)
        self.administrators = Administrators(self.world, settings, crowd=crowd)
        self.rules = Rules(self.world, self.clients)
        self.watch = Watch(self.world, self.consumers)
        self.checks = Checks(self.world, calm=self.world.calm)
        self.at_once = random.randint(3, 8)
        # Apart from the run's chance, so that a seed's story stays.
        self.slack_bytes = Random(f"slack {self.seed}").choice(SLACKS)

    @property
    def calls(self) -> int:
        """Returns the number of calls and events until now."""
        return self.world.step

    @property
    def trace(self) -> list[str]:
        """Every step so far."""
        return self.world.trace

    @property
    def exercised(self) -> Counter[str]:
        """The counted events of the run."""
        return self.world.exercised

    @property
    def promises(self) -> Promises:
        """The promises of the run."""
        return self.world.promises

    # ---- a run
    def run(self) -> None:
        """Runs and checks the simulation.

        Raises:
            Violation: a promise was broken; a note says how to see it again.
        """
        with ExitStack() as stack:
            stack.enter_context(patch.object(os, "urandom", self.random.randbytes))
            stack.enter_context(patch.object(secrets, "token_hex", self._hex))
            stack.enter_context(patch.object(ledger, "_read", _READ_ONCE))
            stack.enter_context(patch.object(retention, "SLACK_BYTES", self.slack_bytes))
            stack.enter_context(patch.object(settings, "DAY_MS", _DAY_MS))
            if self.world.lasting is not None:
                stack.enter_context(drawn(self.seed))
            if self.world.latency is not None:  # the waits between tries
                stack.enter_context(patch.object(random_module, "uniform", Random(f"waits {self.seed}").uniform))
            try:
                self.administrators.prepare()
                for _ in range(self.steps):
                    self._move()
                self.heal()
                self.checks.all()
            except Violation as error:
                error.add_note(story(self.command(), self.trace, error))
                raise
            finally:
                self.world.end_all()

    def command(self) -> str:
        """Returns the command that repeats this run."""
        mode = next((name for name, kind in MODES.items() if kind == self.mode), "faults")
        steps = "" if self.steps == STEPS else f" --steps {self.steps}"
        return f"python -m tests.simulation --seed {self.seed} --mode {mode}{steps}"

    def _hex(self, length: int = 16) -> str:
        return self.random.randbytes(length).hex()

    def _lasting(self) -> LastingFaults | None:
        return LastingFaults(self.random, self.mode.family) if self.mode.lasting else None

    def _latency(self, clock: ManualClock) -> Latency | None:
        timed = self.mode.timed
        return Latency(Random(f"latency {self.seed}"), clock.now_ms, unreliable=self.mode.unreliable) if timed else None

    def _settings(self) -> TopicSettings:
        random = self.random
        return TopicSettings(
            slot_s=random.choice([10, 60, 300]),
            lookahead_s=random.choice([60, 300, 480]),
            segment_rows=random.choice([1, 2, random.randint(3, 20), 5000]),
            inline_rows=random.choice([1, 3, random.randint(4, 60), 2000]),
            part_rows=random.choice([1, 2, random.randint(3, 20), 1000]),
            max_buckets=random.choice([2, 3, 64]),
            collect_interval_s=random.choice([60, 1800]),
            retention_days=random.choice([0, 0, 1]),
            redrive_s=1800,
            claims=self.mode.claims,
        )

    def _move(self) -> None:
        """Makes one step of a function or of the clock, or begins something new."""
        running, choice = self.world.running, self.random.random()
        room = len(running) < self.at_once
        if running and (choice < 0.75 or not room):
            if self._pass_a_call(room):
                self._step(self._first())
        elif choice < 0.82:
            self._client()
        elif not self.triggers.start_one():
            self._pass(self.random.choice([1_000, 5_000, 60_000]) if running else None)
        elif choice > 0.97:
            self._pass(self.random.choice([1_000, 30_000, 100_000]))

    def _first(self) -> Running:
        """Returns the task that runs next, the first in line. Sometimes a task goes to the end of the line.

        So a function often runs through while another stands still at one place, which finds more than fair turns do.
        """
        running = self.world.running
        if self.random.random() < 0.15:
            running.append(running.pop(0))
        return running[0] if self.world.latency is None else self.world.ready()[0]

    def _step(self, running: Running) -> None:
        if self.world.lasting is not None:
            for fault in self.world.lasting.ended(self.world.now_ms):
                self.world.note(f"{fault.kind} {fault.queue_url or ''} work again")
        self.world.advance(running)
        self.watch.marks()

    def _pass(self, duration_ms: int | None) -> None:
        """Lets time pass, for a while or until the next event. In a calm run, functions take little time.

        There, all that is due begins before more time passes: in the service, hundreds of functions run side by side.
        """
        now_ms, oldest_ms = self.world.now_ms, self.world.oldest_ms()
        if self.world.latency is not None and self.world.running:
            return  # `_pass_a_call` lets it pass
        if self.world.brisk and duration_ms is not None and self.triggers.next_ms() <= now_ms:
            return
        if (
            self.world.brisk
            and duration_ms is not None
            and oldest_ms is not None
            and now_ms + duration_ms - oldest_ms > CALM_MS
        ):
            return
        until_ms = now_ms + duration_ms if duration_ms is not None else max(now_ms, self.triggers.next_ms())
        self._pass_to(until_ms)

    def _pass_a_call(self, room: bool) -> bool:
        """Where calls take time, lets it pass until one is answered. Returns False if a trigger comes first."""
        if self.world.latency is None:
            return True
        now_ms, next_ms = self.world.now_ms, max(self.world.now_ms, self.world.next_ms())
        comes_ms = self.triggers.next_ms()
        if room and now_ms < comes_ms < next_ms:
            self._pass_to(comes_ms)
            return False
        self._pass_to(next_ms)
        return True

    def _pass_to(self, until_ms: int) -> None:
        self.world.clock.set_ms(until_ms)

    def _client(self) -> None:
        life = self.promises.life(self.random.choice(list(self.administrators.settings)))
        assert life is not None
        clients, administrators = self.clients, self.administrators
        if life.name in self.world.at_rest:
            # Its index is being made anew: whoever administers it waits, or begins again what has died.
            action = self.random.choice([clients.send, clients.cancel, clients.cancel_key, administrators.rebuild])
            action(life)
            return
        actions: list[tuple[float, Callable[[TopicLife], None]]] = [
            (10, clients.send),
            (4, self.plain.send),
            (3, clients.cancel),
            (1, clients.cancel_key),
            (2, clients.reschedule),
            (3, clients.look),
            (2, administrators.pause_or_resume),
            (1, administrators.queue_comes_and_goes),
            (1, administrators.subscribe_or_not),
            (0.5, administrators.set_filter),
            (0.4, administrators.purge),
            (0.4, administrators.change_settings),
            (1, administrators.replay),
            (0.7, self.rules.make_or_end),
            (1 if life.ending else 0.1, administrators.delete_topic),
            (self.rebuilds, administrators.rebuild),
            (2, self._merge),
            (0 if self.unasked else 4, lambda life: self.triggers.dispatch_now(life.name)),
        ]
        if self.world.lasting is not None:
            actions.append((3, self.administrators.something_lasts))
        weights = [weight for weight, _ in actions]
        self.random.choices([action for _, action in actions], weights)[0](life)

    def _merge(self, life: TopicLife) -> None:
        self.triggers.merge(life.name, MergeSize.LARGE, everything=self.random.random() < 0.7)

    # ---- the end
    def heal(self) -> None:
        """Heals the world without failures. Running work ends, waiting work is done, and time passes."""
        world = self.world
        world.note("healed")
        if world.lasting is not None:
            world.lasting.heal()
        world.odds, world.unreliable = NO_FAULTS, False
        if world.latency is not None:
            world.latency.over = True
        while world.running:  # what they have in hands may come as late as before
            self._step(world.running[0])
        world.healed_ms = world.now_ms
        for queue in self.administrators.queues_gone:
            world.service.queues.restore(queue)
        self._rebuild_what_is_at_rest()
        if world.lasting is not None:
            self._all_comes_soon(world.healed_ms)
        self.administrators.subscribe_where_nobody_is()
        self._until_ms(world.now_ms + _RULES_MS)
        self._end_all_rules()
        self._resume_all()
        if self.clients.days > 1:
            self._until_ms(world.now_ms + _REWRITTEN_MS)
            self.checks.few_dead_bytes(world.now_ms - _REWRITTEN_MS, self.slack_bytes)
        last_ms = max((each.deliver_at_ms for each in self.promises.sent.values()), default=0)
        self._until_ms(max(last_ms, world.now_ms) + _HEALED_MS)
        self.plain.check()
        if self.consumers is not None:
            self.consumers.check()
        for days in _HEALED_DAYS:
            for _ in range(2):
                self._long(days * DAY_MS // 2)

    def _all_comes_soon(self, healed_ms: int) -> None:
        """Lets the longest pause of a drain and two sweeps pass. Then checks that all due messages have come.

        Raises:
            Violation: something waits for longer.
        """
        self._until_idle()
        while self.world.now_ms < healed_ms + LIVELY_MS:
            self._pass(None)
            self._until_idle()
        self.checks.came(healed_ms)

    def _long(self, duration_ms: int) -> None:
        """Lets days pass. Packs come back from dead letters, and the table's TTL deletes expired items."""
        world = self.world
        until_ms = world.now_ms + duration_ms
        back = {each.visible_ms for each in self.triggers.packs}
        for at_ms in sorted(each for each in {*back, until_ms} if world.now_ms <= each <= until_ms):
            world.clock.set_ms(at_ms)
            stored(world.service).expire(world.now_ms // 1000, lambda: self.random.random() < _EXPIRES)
            self._until_idle()

    def _until_ms(self, until_ms: int) -> None:
        """Lets time pass, with all events of the time."""
        self._until_idle()
        while self.world.now_ms < until_ms:
            self._skip_sweeps()
            self._pass(None)
            self._until_idle()

    def _rebuild_what_is_at_rest(self) -> None:
        """Begins dead rebuilds again when their leases have run out."""
        self._until_idle()
        for topic in sorted(self.world.at_rest):
            life = self.promises.life(topic)
            assert life is not None
            for _ in range(_REBUILDS):
                if topic not in self.world.at_rest:
                    break
                self.world.clock.advance_ms(REBUILD_LEASE_S * 1000)
                self.administrators.rebuild(life)
                self._until_idle()
            if topic in self.world.at_rest:
                raise Violation(f"{topic} cannot be rebuilt", topic)

    def _end_all_rules(self) -> None:
        for life in self.promises.lives:
            for rule in life.repeated.values():
                if life is self.promises.life(life.name):
                    self.rules.end(life, rule)
        self._until_idle()

    def _resume_all(self) -> None:
        service = self.world.service
        for topic in self.administrators.settings:
            for subscription in service.subscriptions.all(topic):
                owner = self.promises.reader_of(subscription.queue_url)
                if owner is not None:
                    owner[1].pause = None
                if subscription.name in LASTING and service.topic_states.read(topic) is not None:
                    try:
                        resume(service, service.queues, service.clock, topic, subscription.name)
                    except UnknownSubscription:
                        continue

    def _skip_sweeps(self) -> None:
        """Skips sweeps without work, and some others, but never a requested sweep."""
        items = stored(self.world.service).topics().values()
        looks = [each.next_check_ms for of in items for each in of.deliveries.values()]
        looks += [each.next_check_ms for of in items for each in of.parks.values()]
        looks += [of.state.next_check_ms for of in items if of.state is not None and of.state.next_check_ms is not None]
        least_ms = min(looks, default=self.world.now_ms + DAY_MS)
        if least_ms == AT_ONCE_MS or self.triggers.sweep_asked:
            return
        triggers = self.triggers
        # Schedules that were refused are missing until the sweep that finds their slots due.
        rare_ms = _RARE_SWEEP_MS if self.world.lasting is None else 0
        triggers.next_sweep_ms = max(triggers.next_sweep_ms, least_ms, self.world.now_ms + rare_ms)

    def _until_idle(self) -> None:
        while True:
            if self.world.running:
                self._step(self.world.running[0])
            elif not self.triggers.start_one():
                return
