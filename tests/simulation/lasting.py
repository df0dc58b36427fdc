"""Lasting faults, in which AWS refuses the same calls to every function and client for minutes or hours.

A run has faults of one family, so that its promises can be exact:

    queues    one subscription's queue takes every second message, or none; nobody else notices
    key       the KMS key of one subscription's queue is revoked; nobody else notices
    wheel     schedules are refused; nothing is later than a sweep
    table     writes of the table are refused, reads are answered
    objects   writes of objects are refused
    jobs      the work queue takes no jobs
    clocks    machines of functions are wrong by up to four minutes, jump or drift; no call is refused
    topic     the table refuses all calls of one topic, as when its partitions are throttled; no other topic notices
    mixed     all of these but clocks and topic
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.interleaving import Task
from tests.stored_ports import TABLE_PORTS
from tidewheel.clock import Clock

FAMILIES = ("queues", "key", "wheel", "table", "objects", "jobs", "clocks", "topic", "mixed")
_KINDS = FAMILIES[:6]
FAULTY_TOPIC = "orders"
"""The topic with the faults of the family `topic`."""
_OF_A_QUEUE = ("queues", "key")
SKEWS_MS = (*[0] * 6, 1_500, -1_500, 3_000, -3_000, 240_000, -240_000)
"""How far the clocks of functions' machines are ahead. AWS refuses what is signed more than five minutes off."""
UNDOUBTED_MS = 1_500
"""The largest of these errors that a function does not notice."""
UNDOUBTED_DRIFT_MS = 3_000 + 100
"""The largest error of a drifting clock that a function does not notice, with the length of a call."""
UNDOUBTED_SLOWLY_MS = 3_000 + 2_000
"""The same of any clock where calls take time: two seconds are as long as they are, as a rule."""
_DRIFTS = (0.01, 0.001, -0.001, -0.01)
"""Milliseconds a drifting clock gains in one: hours without its time service, in a few minutes."""
_JUMPS = 0.1
"""How likely a machine's clock is set while a function runs."""
_HOUR_MS = 3_600_000
_LASTS_S = (300, 1800, 7200)
_MOST = 2
"""Faults at one time."""
READS = re.compile(r"\w+\.(read|all|ids|next|ranges|objects|trash|imported|due\w*|is_\w+|get_\w+|list\w*)( page 2)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """A lasting fault.

    Attributes:
        kind: a family, but not `mixed`.
        queue_url: of the queue that is refused, if any.
        share: how likely a message is refused.
    """

    kind: str
    until_ms: int
    queue_url: str | None = None
    share: float = 1.0

    def refuses(self, what: str, args: Sequence[Any] = ()) -> bool:
        """Whether the fault refuses a call, except for calls of the fault's queue."""
        port, _, method = what.partition(".")
        match self.kind:
            case "topic":
                return port in TABLE_PORTS and topic_of(args) == FAULTY_TOPIC
            case "wheel":
                return port == "wheel"
            case "table":
                return port in TABLE_PORTS and not READS.match(what)
            case "objects":
                return what in ("objects.put", "objects.create", "objects.copy", "objects.move")
            case "jobs":
                return port == "queues" and method.startswith("enqueue")
        return False


class HostClock:
    """The clock of a machine, which may jump before a call.

    A jump during the last call before the time is used, or after that call, contradicts no answer: nobody notices it.

    Args:
        right: the true time.
        skews_ms: how far the clock is ahead before the jump, and after.
        jumps_at: calls before the jump.
    """

    def __init__(self, right: Clock, skews_ms: tuple[int, int], jumps_at: int) -> None:
        self.right, self._skews_ms, self._left = right, skews_ms, jumps_at

    def now_ms(self) -> int:
        """Returns the machine's time."""
        return self.right.now_ms() + self._skews_ms[self._left < 0]

    def before_call_ms(self) -> int:
        """Returns the machine's time at the beginning of a call."""
        self._left -= 1
        return self.now_ms()


@dataclass(slots=True)
class LastingFaults:
    """The lasting faults of a run.

    Attributes:
        family: of this run; None: chance decides.
        victim: the one subscription whose queue may be refused.
        faults: those under way.
        healed: whether no fault begins any more.
        drift: what the machines of the family `clocks` gain in a millisecond.
    """

    random: Random
    family: str | None = None
    healed: bool = False
    victim: str = field(init=False)
    drift: float = 0.0
    faults: list[Lasting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.family = self.family or self.random.choice(FAMILIES)
        self.victim = self.random.choice(("audit", "billing"))
        if self.family == "clocks" and self.random.random() < 0.3:
            self.drift = self.random.choice(_DRIFTS)

    @property
    def undoubted_ms(self) -> int:
        """The largest clock error without a notice by a function."""
        if self.family != "clocks":
            return 0
        return UNDOUBTED_DRIFT_MS if self.drift else UNDOUBTED_MS

    def begin(self, now_ms: int, queue_url: str | None) -> Lasting | None:
        """Begins a fault, unless there are enough.

        Args:
            queue_url: the victim's queue in some topic; None: it is not there.
        """
        assert self.family is not None
        kind = self.random.choice(_KINDS) if self.family == "mixed" else self.family
        if kind == "clocks" or len(self.faults) >= _MOST or (kind in _OF_A_QUEUE and queue_url is None):
            return None
        fault = Lasting(
            kind=kind,
            until_ms=now_ms + self.random.choice(_LASTS_S) * 1000,
            queue_url=queue_url if kind in _OF_A_QUEUE else None,
            share=self.random.choice([0.1, 0.5, 1.0]),
        )
        self.faults.append(fault)
        return fault

    def ended(self, now_ms: int) -> list[Lasting]:
        """Ends all faults up to a time, and returns the ended faults."""
        over = [each for each in self.faults if each.until_ms <= now_ms]
        self.faults = [each for each in self.faults if each.until_ms > now_ms]
        return over

    def refuses(self, task: Task, what: str, args: Sequence[Any] = ()) -> bool:
        """Whether a call is refused. A function may repeat sends after its progress or a park was refused."""
        refused = any(each.refuses(what, args) for each in self.faults)
        of_park = what == "objects.put" and str(args[0]).startswith("parked/")
        if refused and (of_park or what.partition(".")[0] in TABLE_PORTS) and task.sent:
            task.troubled = True
        return refused

    def refuses_message(self, queue_url: str) -> bool:
        """Whether a queue refuses a message for now."""
        shares = [each.share for each in self.faults if each.queue_url == queue_url and each.kind == "queues"]
        return bool(shares) and self.random.random() < max(shares)

    def denies(self, queue_url: str) -> bool:
        """Whether the key of a queue is revoked."""
        return any(each.queue_url == queue_url and each.kind == "key" for each in self.faults)

    def clock(self, right: Clock, skew_ms: int) -> HostClock:
        """Returns the clock of the machine of the next function."""
        if self.family != "clocks" or self.healed:
            return HostClock(right, (skew_ms, skew_ms), 0)
        if self.drift:
            # Somebody sets the clock each hour.
            skew_ms = round(right.now_ms() % _HOUR_MS * self.drift)
            return HostClock(right, (skew_ms, skew_ms), 0)
        first, then = self.random.choice(SKEWS_MS), self.random.choice(SKEWS_MS)
        return HostClock(right, (first, then), self.random.randint(1, 30) if self.random.random() < _JUMPS else 1 << 30)

    def heal(self) -> None:
        """Ends all faults, and sets all clocks."""
        self.faults.clear()
        self.healed = True


def topic_of(args: Sequence[Any]) -> str | None:
    """Returns the topic of a call by its first argument, or None for a call for all topics."""
    first = args[0] if args else None
    if isinstance(first, list | tuple) and first:
        first = first[0]
    first = getattr(first, "key", first)
    found = getattr(first, "topic", first)
    return found if isinstance(found, str) else None
