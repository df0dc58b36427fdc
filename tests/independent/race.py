"""Runs sixteen threads on one topic's state, and checks the promises afterwards.

    python -m tests.independent.race [--seconds 90] [--seed N]

The real flows run over `tidewheel.aws` on DynamoDB Local; objects and queues are in memory, so that the threads meet at
the table. Time runs ten times as fast: slots of 10 s, of which one is sealed each second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore import exceptions as boto

from tests.independent.claim_race import claim_race
from tests.independent.network import Network
from tests.independent.no_moto import forbid
from tests.independent.record import Record, Sent
from tests.recorded_queues import recorded_service
from tests.stored import altered
from tests.stored_ports import TABLE_PORTS
from tidewheel.errors import ConcurrentModification, PartLeased
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.cancel import cancel, cancel_many
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.work import do_task
from tidewheel.flows.maintenance.collect import collect
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.maintenance.sweep import sweep
from tidewheel.model.message import IdSource, Message, id_deliver_at_ms, id_text
from tidewheel.model.pack import Pack, decode_pack, packs
from tidewheel.model.settings import TopicSettings
from tidewheel.model.task import PartTask, Task
from tidewheel.model.topic_state import new_topic_state
from tidewheel.model.validation import check_message
from tidewheel.model.wheel import open_from

TOPIC = "orders"
SETTINGS = TopicSettings(
    slot_s=10, lookahead_s=60, inline_rows=60, part_rows=20, max_buckets=8, collect_interval_s=60, claims="none"
)
SPEED = 10
QUEUES = {"billing": "queue-billing", "audit": "queue-audit"}
KEYS = 30
NEAR_S, FAR_S = (3, 400), (4000, 4600)
"""Only ledgers that end an hour later are merged, so some messages are due then."""
INGESTS = 4
CLAIMED = 1000
"""Messages of the race of claims and late cancels."""
GIVEN_UP = (ConcurrentModification, boto.ConnectionError, boto.HTTPClientError)
"""Errors after which a call may or may not have taken effect, and is repeated by whoever called."""
NEEDED = (
    "batches", "cancelled", "dispatches", "handed out", "cancelled until consumed", "jobs", "ledgers merged", "pauses",
    "sweeps", "TransactionConflict", "request lost", "answer lost",
)  # fmt: skip
"""What must have happened in a race of a minute."""
VISIBILITY_MS = 180_000
HEALED_MS = 2_700_000
"""Until then the sweep has found everything that was left: parts after `redrive_s`, half an hour."""


class RaceClock:
    """A clock faster than the machine's, which can be advanced."""

    def __init__(self, start_ms: int = 1_767_225_600_000) -> None:
        self._start_ms, self._begin = start_ms, time.monotonic()

    def now_ms(self) -> int:
        """Returns milliseconds since the Unix epoch."""
        return self._start_ms + round((time.monotonic() - self._begin) * 1000 * SPEED)

    def advance_ms(self, duration_ms: int) -> None:
        """Moves on."""
        self._start_ms += duration_ms


@dataclass
class Race:
    """A topic, the threads working on the topic, and the record of their answers.

    Args:
        ports: the service.
        clock: its clock.
        random: seeds the threads.
        calm: ends all failures that were planted.
    """

    ports: Any
    clock: RaceClock
    random: random.Random
    calm: Callable[[], None] = lambda: None
    record: Record = field(default_factory=Record)
    hidden: list[tuple[int, Task]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        create_topic(self.ports, self.clock, TOPIC, SETTINGS)
        for name, url in QUEUES.items():
            create_subscription(self.ports, self.clock, TOPIC, name, url)

    def run(self, seconds: float) -> list[str]:
        """Runs the threads for some seconds, then heals. Returns the violations."""
        roles: list[tuple[int, Callable[[Worker], None]]] = [
            (4, Worker.ingest), (2, Worker.upsert), (2, Worker.cancel), (2, Worker.dispatch), (1, Worker.seal),
            (2, Worker.work), (1, Worker.pause), (1, Worker.sweep), (1, Worker.watch),
        ]  # fmt: skip
        threads = []
        for role in (role for number, role in roles for _ in range(number)):
            worker = Worker(self, random.Random(self.random.random()))
            threads.append(threading.Thread(target=self._repeat, args=(worker, role), daemon=True))
        for thread in threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in threads:
            thread.join()
        self._heal()
        queues = self.ports.queues
        return self.record.check(QUEUES.values(), queues.sent()) + [f"refused: {each}" for each in queues.refused]

    def wait(self, seconds: float) -> None:
        """Waits, until the threads are to stop."""
        self._stop.wait(seconds)

    def _repeat(self, worker: Worker, role: Callable[[Worker], None]) -> None:
        while not self._stop.is_set():
            try:
                role(worker)
            except GIVEN_UP:
                self.record.gave_up(role.__name__)
            except Exception as error:
                self.record.violations.append(f"{role.__name__} raised {error!r}")
                self._stop.set()
                return

    def _heal(self) -> None:
        """Stops the faults, finishes waiting work, and advances time until nothing is left."""
        worker = Worker(self, random.Random(0))
        self.calm()
        for name in QUEUES:
            resume(self.ports, self.ports.queues, self.clock, TOPIC, name)
        last_ms = max(sent.due_ms for sent in self.record.sent.values())
        while self.clock.now_ms() < last_ms + HEALED_MS:
            near = self.clock.now_ms() < last_ms + 2 * SETTINGS.lookahead_ms
            self.clock.advance_ms(SETTINGS.lookahead_ms if near else 300_000)
            worker.dispatch()
            worker.sweep()
            while self.ports.queues.jobs:
                worker.work()
            worker.watch()
        state = self.ports.topic_states.read(TOPIC)
        if state.next_slot is not None or self.ports.deliveries.all(TOPIC):
            self.record.violations.append(f"something is left when all is due: {state}")


class Worker:
    """The work of a thread."""

    def __init__(self, race: Race, random: random.Random) -> None:
        self._race, self._ports, self._clock, self._record = race, race.ports, race.clock, race.record
        self._random, self._ids = random, IdSource()

    # ---- senders
    def ingest(self) -> None:
        """Ingests a batch of messages, and sometimes the same batch again, as SQS may."""
        self._ingest(self._pack(self._random.randint(1, 12)))
        self._race.wait(self._random.uniform(0, 0.1))

    def upsert(self) -> None:
        """Ingests a message that replaces the last message with the key."""
        key = f"key-{self._random.randrange(KEYS)}"
        older = [sent for sent in list(self._record.sent.values()) if sent.key == key and sent.accepted]
        pack, [mine] = self._pack(1, key=key, replace=True)
        if not self._ingest((pack, [mine])):
            return
        state = self._ports.topic_states.read(TOPIC)
        for sent in older:
            # Both were ingested, one after the other, and the older one's slot is open still.
            if sent.sent_ms < mine.sent_ms and sent.due_ms // SETTINGS.slot_ms >= state.sealed:
                sent.superseded = True

    def _pack(self, size: int, **options: Any) -> tuple[Pack, list[Sent]]:
        now_ms = self._clock.now_ms()
        messages = [
            Message(body="x" * 20, delay=self._random.uniform(*(FAR_S if number > 9 else NEAR_S)), **options)
            for number in range(size)
        ]
        checked = [check_message(message, self._ids, now_ms) for message in messages]
        state = self._ports.topic_states.read(TOPIC)
        [(_, data)] = packs(TOPIC, state.generation, now_ms, checked)
        pack = decode_pack(data, now_ms)
        sent = [
            Sent(id=id_text(each.id), due_ms=id_deliver_at_ms(each.id), key=options.get("key"), sent_ms=now_ms)
            for each in checked
        ]
        with self._record.lock:
            self._record.sent |= {each.id: each for each in sent}
        return pack, sent

    def _ingest(self, batch: tuple[Pack, list[Sent]]) -> bool:
        pack, sent = batch
        wanted = 2 if self._random.random() < 0.05 else 1
        for _ in range(INGESTS):
            for each in sent:
                each.ingests += 1
            try:
                pending = ingest(self._ports, TOPIC, [pack]).pending
            except GIVEN_UP as error:
                pending = {0: error}
            if pending:
                self._record.gave_up("ingest")
                continue
            for each in sent:
                each.accepted = True
            self._record.did("batches")
            wanted -= 1
            if not wanted:
                break
        return sent[0].accepted

    def cancel(self) -> None:
        """Cancels one message, or several at once."""
        with self._record.lock:
            known = list(self._record.sent.values())[-400:]
        chosen = [each for each in self._random.sample(known, min(len(known), 6)) if each.key is None]
        if self._random.random() < 0.7:
            chosen = chosen[:1]
        if not chosen:
            self._race.wait(0.01)
            return
        storage, now_ms = self._ports, self._clock.now_ms()
        answers: list[bool | None] = [None] * len(chosen)
        with contextlib.suppress(*GIVEN_UP):
            if len(chosen) == 1:
                answers = [bool(cancel(storage, new_topic_state(TOPIC, "g", SETTINGS, 0), chosen[0].id, now_ms))]
            else:
                ids = [each.id for each in chosen]
                answers = [
                    bool(each) for each in cancel_many(storage, new_topic_state(TOPIC, "g", SETTINGS, 0), ids, now_ms)
                ]
        for each, answer in zip(chosen, answers, strict=True):
            each.cancelled.add(answer)
            self._record.did(
                {True: "cancelled", False: "too late to cancel", None: "cancels without an answer"}[answer]
            )
        self._race.wait(0.02)

    # ---- functions
    def dispatch(self) -> None:
        """Dispatches the topic, as the schedule and the sweep do."""
        planned = self._ports.topic_states.read(TOPIC).planned
        try:
            done = dispatch(self._ports, TOPIC)
        except GIVEN_UP:
            self._unanswered(planned)
            raise
        assert done is not None
        if done.failures:
            self._unanswered(planned)
        if done.collect:
            collect(self._ports, TOPIC)
        self._record.did("dispatches")
        self._race.wait(0.05)

    def _unanswered(self, planned: int) -> None:
        sealed = self._ports.topic_states.read(TOPIC).sealed
        self._record.may_double(planned * SETTINGS.slot_ms, sealed * SETTINGS.slot_ms)

    def seal(self) -> None:
        """Seals up to the lookahead, as ingest and dispatch do."""
        state = self._ports.topic_states.read(TOPIC)
        self._ports.topic_states.seal(state, open_from(self._clock.now_ms(), SETTINGS))
        self._record.did("seals")
        self._race.wait(0.02)

    def work(self) -> None:
        """Empties the work queue. A part leased by another worker returns after the visibility time-out."""
        now_ms = self._clock.now_ms()
        with self._record.lock:
            due = [job for at_ms, job in self._race.hidden if at_ms <= now_ms]
            self._race.hidden = [each for each in self._race.hidden if each[0] > now_ms]
        for job in [*due, *self._ports.queues.take_jobs()]:
            self._do(job)
        self._race.wait(0.01)

    def _do(self, job: Task) -> None:
        try:
            do_task(self._ports, job)
        except (PartLeased, *GIVEN_UP) as error:
            if not isinstance(error, PartLeased):
                self._record.gave_up("work")
                first = job.key.plan if isinstance(job, PartTask) else 0
                self._unanswered(first)
            with self._record.lock:
                self._race.hidden.append((self._clock.now_ms() + VISIBILITY_MS, job))
        self._record.did("jobs")

    def sweep(self) -> None:
        """Sweeps, runs the dispatches started by the sweep, and merges."""
        swept = sweep(self._ports)
        for what, error in swept.failures.items():
            if not isinstance(error, GIVEN_UP):
                self._record.violations.append(f"sweep failed at {what}: {error!r}")
        started, self._ports.runs.dispatches[:] = [*self._ports.runs.dispatches], []
        for _ in started:
            self.dispatch()
        merged = merge(self._ports, TOPIC, in_process(self._ports.objects), lease_s=60, everything=True)
        if merged is not None:
            self._record.done["ledgers merged"] += merged.sources
        self._record.did("sweeps")
        self._race.wait(0.2)

    # ---- people
    def pause(self) -> None:
        """Pauses and resumes a subscription."""
        pause(self._ports, TOPIC, "audit")
        self._race.wait(self._random.uniform(0, 0.5))
        resume(self._ports, self._ports.queues, self._clock, TOPIC, "audit")
        self._record.did("pauses")
        self._race.wait(self._random.uniform(0, 0.5))

    def watch(self) -> None:
        """Looks at the marks."""
        self._record.saw(self._ports.topic_states.read(TOPIC))
        self._record.did("looks at the marks")
        self._race.wait(0.005)


def race_in_memory(seed: int) -> Race:
    """Returns a race on the service in memory."""
    clock = RaceClock()
    return Race(recorded_service(clock), clock, random.Random(seed))


def race_on_dynamodb(seed: int) -> tuple[Race, Network]:
    """Returns a race on the environment's DynamoDB, and the network between."""
    from tests.contract.aws_resources import client, make_table
    from tidewheel.aws.service import client_config
    from tidewheel.aws.tries import FUNCTION
    from tidewheel.storage.storage import Storage
    from tidewheel.storage.table import Table

    dynamodb = client("dynamodb")
    table = make_table(dynamodb)
    clock, config = RaceClock(), client_config(16)
    dynamodb = client("dynamodb", retries=config.retries, max_pool_connections=16, parameter_validation=False)
    FUNCTION.watch(dynamodb)
    memory = recorded_service(clock)
    network = Network.before(dynamodb, lost=0.02, unsent=0.005, random=random.Random(seed))
    storage = Storage(Table(dynamodb, table), memory.objects)
    ports = altered(memory, **{name: getattr(storage, name) for name in TABLE_PORTS})
    return Race(ports, clock, random.Random(seed), calm=network.calm), network


def main() -> int:
    """Runs a race on DynamoDB and prints the figures. Returns 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.independent.race", description=__doc__)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = parser.parse_args()
    forbid()
    race, network = race_on_dynamodb(asked.seed)
    claims, violations = claim_race(race.ports, race.clock, GIVEN_UP, messages=CLAIMED, seed=asked.seed)
    violations += race.run(asked.seconds)
    happened = race.record.done + network.counts + claims
    violations += [f"nothing is shown: {each!r} never happened" for each in NEEDED if not happened[each]]
    figures = {
        "seed": asked.seed,
        "seconds": asked.seconds,
        "messages": len(race.record.sent),
        "copies": len(race.ports.queues.sent()),
        "done": dict(sorted((race.record.done + claims).items())),
        "gave up": dict(race.record.failed),
        "requests": dict(network.counts.most_common()),
        "violations": len(violations),
    }
    print(json.dumps(figures, indent=2))
    for violation in violations[:20]:
        print(f"VIOLATION: {violation}")
    return 1 if violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
