"""Faults of a narrow part of the service. All other parts are in time while the fault lasts.

A run has one kind, which lasts for two hours:

    topic     the table refuses all calls of one topic, as when its partitions are throttled
    notes     an outage of S3; then the notes of one topic are refused, while its packs come again
    hot-key   the item of one key is refused
    few       an outage of S3; then about one in a hundred of the table's calls is refused, while many packs come again
    entries   one queue fails single entries of its batches, with the codes of internal errors and of its key
    half      the table refuses each second write
    sender    senders' clocks are half a minute behind, and somebody purges
    job       a job that merges runs on a machine whose clock is wrong by minutes
    backlog   one subscription is paused and has hundreds of parks; each call of a sweep takes a second
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.interleaving import Task
from tests.simulation.lasting import READS, Lasting, LastingFaults
from tests.stored_ports import TABLE_PORTS
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.flows.ports.queues import Refusal, Release
from tidewheel.model.triggers import BULK_WINDOW_S

LASTS_MS = 7_200_000
PARKS = 400
"""Of one paused subscription: a sweep in which each call takes a second comes to a tenth of them."""
_CALL_MS = 1_000
_BEHIND_MS = 30_000
_JOBS_MS = (240_000, -240_000)
"""AWS refuses what is signed more than five minutes off."""
HOT_KEY = "key-1"
_OUTAGE_MS = 1_800_000
_FEW = 100
"""Of so many calls of the table one is refused."""
_TRIES = 3
"""Refusals of the same call, after which a function need not remember what it has sent."""
_CODES = ("InternalError", "ServiceUnavailable", "KMS.InternalException", "KMS.KMSInternalException", "Throttling")
_SHARE = 0.2
"""Of the entries of a batch that fail."""

Send = Callable[[str, Sequence[tuple[Release, int]]], list[Refusal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of narrow fault.

    Attributes:
        refuses: whether a call of a port is refused while the fault lasts, told its name and arguments.
        spares: whether a message has no part in the fault, told its topic, its key, and when its sender was answered.
        gathers: packs that are sent at the beginning of an outage of S3, after which the fault begins. 0: no outage.
        pause_ms: between two sendings while the fault lasts.
        window_ms: what is due in half an hour or later is gathered for so long, as in the bulk queue. 0: it is not.
        longest_wait_ms: of a pack that came in an outage, from its end on.
    """

    refuses: Callable[[NarrowFaults, str, Sequence[Any]], bool] = lambda *_: False
    spares: Callable[[NarrowFaults, str, str | None, int], bool] = lambda *_: True
    gathers: int = 0
    pause_ms: int = 400_000
    window_ms: int = 0
    longest_wait_ms: int = 610_000


KINDS: dict[str, Kind] = {
    "topic": Kind(
        refuses=lambda faults, what, args: is_of_the_table(what) and topic_of(args) == faults.topic,
        spares=lambda faults, topic, *_: topic != faults.topic,
    ),
    "notes": Kind(
        refuses=lambda faults, what, args: what.startswith("notes.") and topic_of(args) == faults.topic,
        # A pack that was never tried has no note.
        spares=lambda faults, topic, _, known_ms: topic != faults.topic or not faults.gathered(known_ms),
        gathers=10,
        window_ms=BULK_WINDOW_S * 1000,
        longest_wait_ms=960_000,
    ),
    "hot-key": Kind(
        refuses=lambda faults, what, args: (
            what.startswith("keys.") and topic_of(args) == faults.topic and HOT_KEY in map(_key_of, args)
        ),
        spares=lambda faults, topic, key, _: (topic, key) != (faults.topic, HOT_KEY),
    ),
    "few": Kind(refuses=lambda faults, what, _: is_of_the_table(what) and faults.is_its_turn(), gathers=120),
    "entries": Kind(),
    "half": Kind(
        refuses=lambda faults, what, _: is_write_of_the_table(what) and faults.random.random() < 0.5,
        spares=lambda *_: False,
    ),
    "sender": Kind(),
    "job": Kind(pause_ms=100_000),
    "backlog": Kind(),
}


@dataclass(slots=True)
class NarrowFaults(LastingFaults):
    """The narrow faults of a run.

    Attributes:
        topic: the one topic that may have the fault.
        outages: when each outage of S3 began, and ended.
        beside: messages of the topic whose notes are refused that first came in one batch with a pack tried before.
    """

    topic: str = ""
    outages: list[tuple[int, int]] = field(default_factory=list)
    beside: set[str] = field(default_factory=set)
    _turn: int = 0
    _refused: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.family = self.family or self.random.choice([*KINDS])
        self.victim = self.random.choice(("audit", "billing"))

    @property
    def kind(self) -> Kind:
        """The run's kind."""
        assert self.family is not None
        return KINDS[self.family]

    @property
    def longest_ms(self) -> int:
        """How long a fault lasts at most, with the outage before it."""
        return LASTS_MS + (_OUTAGE_MS if self.kind.gathers else 0)

    def begin(self, now_ms: int, queue_url: str | None) -> Lasting | None:
        """Begins the fault, or the outage before it, unless the fault lasts already."""
        assert self.family is not None
        if self.faults or (self.family == "entries" and queue_url is None):
            return None
        if self.kind.gathers:
            fault = Lasting(kind="objects", until_ms=now_ms + _OUTAGE_MS)
            self.outages.append((now_ms, fault.until_ms))
        else:
            queue_url = queue_url if self.family == "entries" else None
            fault = Lasting(kind=self.family, until_ms=now_ms + LASTS_MS, queue_url=queue_url)
        self.faults.append(fault)
        return fault

    def ended(self, now_ms: int) -> list[Lasting]:
        """Ends all faults up to a time, and returns the ended faults. The narrow fault follows an outage."""
        over = LastingFaults.ended(self, now_ms)
        assert self.family is not None
        if any(each.kind == "objects" for each in over):
            self.faults.append(Lasting(kind=self.family, until_ms=now_ms + LASTS_MS))
        return over

    def refuses(self, task: Task, what: str, args: Sequence[Any] = ()) -> bool:
        """Whether a call is refused.

        A function whose progress the table does not take may repeat what it has sent. Where the table takes each second
        write, it must have tried some times.
        """
        lasts = any(each.kind == self.family for each in self.faults)
        refused = any(each.refuses(what) for each in self.faults) or (lasts and self.kind.refuses(self, what, args))
        if refused and is_of_the_table(what) and task.sent:
            self._refused[task.name, what] += 1
            task.troubled |= self.family != "half" or self._refused[task.name, what] >= _TRIES
        return refused

    def is_its_turn(self) -> bool:
        """Whether the next call of the table is among the few refused calls."""
        self._turn -= 1
        if self._turn > 0:
            return False
        first, self._turn = self._turn == -1, self.random.randint(_FEW // 2, _FEW * 3 // 2)
        return not first

    def spares(self, topic: str, key: str | None, known_ms: int) -> bool:
        """Whether a message must be in time. See `Kind`."""
        return self.kind.spares(self, topic, key, known_ms)

    def waits(self, due_ms: int, known_ms: int) -> bool:
        """Whether a message may be late by the time until the next receive of its pack."""
        return self.family == "few" or self.gathered(known_ms) or self.in_service_ms(due_ms) > due_ms

    def gathered(self, known_ms: int) -> bool:
        """Whether ingest may have got a pack in an outage, given the time of the answer to the pack's sender."""
        return any(first_ms - self.kind.window_ms <= known_ms <= end_ms for first_ms, end_ms in self.outages)

    def in_service_ms(self, at_ms: int) -> int:
        """Returns the end of the outage of S3 at a time, or the time itself."""
        return max((end_ms for first_ms, end_ms in self.outages if first_ms <= at_ms <= end_ms), default=at_ms)

    @property
    def sender_ms(self) -> int:
        """How far the clock of the next sender is ahead."""
        return self._is("sender") * self.random.choice((0, -_BEHIND_MS))

    @property
    def job_ms(self) -> int:
        """How far the clock of the next job is ahead. Jobs do not doubt their clocks."""
        return self._is("job") * self.random.choice((0, *_JOBS_MS))

    @property
    def call_ms(self) -> int:
        """How long each call of a sweep takes."""
        return self._is("backlog") * _CALL_MS

    def _is(self, kind: str) -> bool:
        return any(each.kind == kind for each in self.faults)

    def queue(self, queue_url: str, send: Send) -> Send:
        """Returns the function to send a batch. The function is as on AWS if the queue fails single entries."""
        if not any(each.kind == "entries" and each.queue_url == queue_url for each in self.faults):
            return send
        return lambda url, batch: SqsQueues(
            _FailingEntries(self.random, send, batch),  # type: ignore[arg-type]
            work_queue_url="",
            refused_queue_url="",
            ingest_queues=lambda topic: ("", ""),
        ).send(url, batch)


class _FailingEntries:
    """SQS's client, whose queue takes most entries of a batch."""

    def __init__(self, random: Random, send: Send, batch: Sequence[tuple[Release, int]]) -> None:
        self._random, self._send, self._batch = random, send, batch

    def send_message_batch(self, QueueUrl: str, Entries: Sequence[Any]) -> dict[str, Any]:
        failed = []
        for entry in Entries:
            code = self._random.choice(_CODES) if self._random.random() < _SHARE else None
            refusals = [] if code else self._send(QueueUrl, [self._batch[int(entry["Id"])]])
            found = [(code, False, "not now")] if code else [(each.code, True, each.reason) for each in refusals]
            failed += [{"Id": entry["Id"], "Code": a, "SenderFault": b, "Message": c} for a, b, c in found]
        return {"Failed": failed}


def is_of_the_table(what: str) -> bool:
    """Whether a call is a call of the table."""
    return what.partition(".")[0] in TABLE_PORTS


def is_write_of_the_table(what: str) -> bool:
    """Whether a call changes the table."""
    return is_of_the_table(what) and not READS.match(what)


def topic_of(args: Sequence[Any]) -> str | None:
    """Returns the topic of a call by its first argument, or None for a call for all topics."""
    first = args[0] if args else None
    if isinstance(first, list | tuple) and first:
        first = first[0]
    first = getattr(first, "key", first)
    found = getattr(first, "topic", first)
    return found if isinstance(found, str) else None


def _key_of(value: object) -> object:
    return getattr(value, "key", value)
