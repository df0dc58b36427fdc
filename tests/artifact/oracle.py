"""Compares the expected messages, known from the client's calls alone, with the received messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

Reader = tuple[str, str]
"""A topic and a subscription."""

LATE_MS = 10_000
"""SQS delays by whole seconds, and calls take their time: 1.1 s where the machine has nothing else to do. A call that
died, a lost part or a queue that refused costs minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message received by a consumer.

    Attributes:
        earliest_ms, latest_ms: Between which times SQS made it visible; where SQS does not tell, when it was taken.
    """

    id: str
    body: str
    due_ms: int
    earliest_ms: int
    latest_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    body: str
    due_ms: int
    late_until_ms: int


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The result of a run. Each list has a line per message.

    Attributes:
        messages: Messages that were sent and had to come.
        copies: Copies that had to come, over all subscriptions.
        arrived: Copies that came.
        worst_late_ms: The most lateness, of what nobody paused.
    """

    messages: int = 0
    copies: int = 0
    arrived: int = 0
    worst_late_ms: int = 0
    lost: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether every message arrived once, in time and unchanged, without others."""
        return self.copies > 0 and not self.faults

    @property
    def faults(self) -> dict[str, list[str]]:
        """The found faults by kind."""
        kinds = ("lost", "early", "late", "doubled", "unexpected", "changed")
        return {kind: getattr(self, kind) for kind in kinds if getattr(self, kind)}

    def __str__(self) -> str:
        counts = (f"{len(getattr(self, kind))} {kind}" for kind in ("lost", "early", "late", "doubled", "unexpected"))
        return (
            f"{self.messages} messages, {self.copies} copies, {', '.join(counts)}, {len(self.changed)} changed, "
            f"at most {self.worst_late_ms} ms late"
        )


class Oracle:
    """Keeps account of a run."""

    def __init__(self) -> None:
        self._expected: dict[Reader, dict[str, _Expected]] = defaultdict(dict)
        self._arrived: dict[Reader, list[Arrival]] = defaultdict(list)
        self._rules: list[tuple[Reader, str, list[int]]] = []

    def expect(self, readers: Iterable[Reader], message_id: str, body: str, due_ms: int) -> None:
        """Expects a sent message at each of the readers."""
        for reader in readers:
            self._expected[reader][message_id] = _Expected(body=body, due_ms=due_ms, late_until_ms=due_ms)

    def expect_recurring(self, reader: Reader, body: str, due_ms: list[int]) -> None:
        """Expects the occurrences of a recurring message, with unknown ids."""
        self._rules.append((reader, body, due_ms))

    def withdraw(self, message_id: str) -> None:
        """Expects no delivery of a message that was cancelled or replaced in time."""
        for expected in self._expected.values():
            expected.pop(message_id, None)

    def may_be_late(self, reader: Reader, first_ms: int, end_ms: int) -> None:
        """Accepts messages due during a pause of the subscription until the pause ends."""
        for message_id, each in self._expected[reader].items():
            if first_ms <= each.due_ms < end_ms:
                self._expected[reader][message_id] = _Expected(body=each.body, due_ms=each.due_ms, late_until_ms=end_ms)

    def waiting(self, reader: Reader) -> int:
        """Returns how many messages a reader has yet to get."""
        return len(self._expected[reader].keys() - {each.id for each in self._arrived[reader]})

    def arrived(self, reader: Reader, arrivals: Iterable[Arrival]) -> None:
        """Messages were taken."""
        self._arrived[reader] += arrivals

    def verdict(self) -> Verdict:
        """Returns the account so far."""
        found = Verdict()
        for reader, body, times in self._rules:
            self._name_occurrences(reader, body, times)
        ids = set().union(*self._expected.values())
        found.messages, found.copies = len(ids), sum(map(len, self._expected.values()))
        for reader in self._expected.keys() | self._arrived.keys():
            self._judge(reader, found)
        return found

    def _name_occurrences(self, reader: Reader, body: str, times: list[int]) -> None:
        """Expects the occurrences of a recurring message under the received ids, by due time."""
        came = {each.due_ms: each.id for each in self._arrived[reader] if each.body == body}
        for due_ms in times:
            message_id = came.get(due_ms, f"{body} at {due_ms}")
            self._expected[reader][message_id] = _Expected(body=body, due_ms=due_ms, late_until_ms=due_ms)

    def _judge(self, reader: Reader, found: Verdict) -> None:
        expected, arrivals = self._expected[reader], self._arrived[reader]
        counts = Counter(each.id for each in arrivals)
        where = "/".join(reader)
        found.lost += [f"{where} {each} due {expected[each].due_ms}" for each in expected.keys() - counts.keys()]
        found.doubled += [f"{where} {each} came {count} times" for each, count in counts.items() if count > 1]
        found.arrived += len(arrivals)
        for each in arrivals:
            wanted = expected.get(each.id)
            if wanted is None:
                found.unexpected.append(f"{where} {each.id} {each.body[:80]}")
                continue
            if each.earliest_ms < wanted.due_ms:
                found.early.append(f"{where} {each.id} by {wanted.due_ms - each.earliest_ms} ms")
            late_ms = each.latest_ms - wanted.late_until_ms
            if wanted.late_until_ms == wanted.due_ms:
                found.worst_late_ms = max(found.worst_late_ms, late_ms)
            if late_ms > LATE_MS:
                found.late.append(f"{where} {each.id} by {late_ms} ms")
            if each.body != wanted.body:
                found.changed.append(f"{where} {each.id} is {each.body[:80]!r}")
