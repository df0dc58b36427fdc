"""What a record proves: nothing lost, nothing early, nothing unwanted, bodies whole, and how late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from smoke.record import Arrival, Record, Sent
from smoke.skew import Skew

LATE_P99_MS = 3_000
"""SQS counts delays in whole seconds, and a reserve of 100 ms for skew is added: at most 1.1 s. The rest is for the
poll's way to a caller far away."""
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must be true.

    Attributes:
        name: the sentence that it proves.
        detail: figures; of a failure, what is wrong.
    """

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How late the messages of a group were, in milliseconds after they were due, by SQS's clock.

    Attributes:
        least_ms: below zero would be early.
    """

    group: str
    messages: int
    least_ms: int
    p50_ms: int
    p99_ms: int
    most_ms: int


def verdict(record: Record) -> list[Check]:
    """Returns the checks of a record."""
    sent = {each.message_id: each for each in record.all_sent()}
    arrivals = record.arrivals()
    return [_lost(record), _unwanted(sent, arrivals), _early(record, arrivals), _bodies(sent, arrivals), _late(record)]


def precision(record: Record) -> list[Precision]:
    """Returns how late each group was; a message that came twice counts as it came first."""
    sent = {each.message_id: each for each in record.all_sent()}
    skew = record.skew or Skew(offset_ms=0, uncertainty_ms=0)
    first: dict[tuple[object, str], Arrival] = {}
    for arrival in sorted(record.arrivals(), key=lambda each: each.received_ms):
        first.setdefault((arrival.reader, arrival.message_id), arrival)
    late: dict[str, list[int]] = {}
    for arrival in first.values():
        message = sent.get(arrival.message_id)
        if message is None or message.group is None or arrival.reader in record.late_readers:
            continue
        late.setdefault(message.group, []).append(skew.sqs_ms(arrival.received_ms) - arrival.deliver_at_ms)
    return [_precision(group, sorted(times)) for group, times in sorted(late.items())]


def copies(record: Record) -> int:
    """How many arrivals were repetitions."""
    counts = Counter((each.reader, each.message_id) for each in record.arrivals())
    return sum(count - 1 for count in counts.values())


def percentile(ascending: Sequence[int], share: float) -> int:
    """Returns the least value that so large a share of the values does not exceed."""
    place = max(0, -(-round(share * len(ascending) * 1_000_000) // 1_000_000) - 1)
    return ascending[min(place, len(ascending) - 1)]


def _precision(group: str, ascending: list[int]) -> Precision:
    return Precision(
        group=group,
        messages=len(ascending),
        least_ms=ascending[0],
        p50_ms=percentile(ascending, 0.5),
        p99_ms=percentile(ascending, 0.99),
        most_ms=ascending[-1],
    )


def _lost(record: Record) -> Check:
    expected = sum(len(each.readers) for each in record.all_sent())
    lost = [f"{message.message_id} for {message.topic}/{reader}" for message, reader in record.outstanding()]
    detail = _listed(lost) or f"{expected:,} deliveries"
    return Check(name="every message arrives", passed=expected > 0 and not lost, detail=detail)


def _unwanted(sent: dict[str, Sent], arrivals: list[Arrival]) -> Check:
    wrong = [
        f"{each.message_id} at {'/'.join(each.reader)}"
        for each in arrivals
        if each.message_id not in sent or each.reader[1] not in sent[each.message_id].readers
    ]
    withdrawn = sum(not each.readers for each in sent.values())
    detail = _listed(wrong) or f"{withdrawn:,} messages were cancelled, replaced or dropped"
    return Check(name="nothing arrives that must not", passed=not wrong, detail=detail)


def _early(record: Record, arrivals: list[Arrival]) -> Check:
    if record.skew is None:
        return Check(name="nothing is early", passed=False, detail="the clocks were not compared")
    skew = record.skew
    early = [
        f"{each.message_id} by {each.deliver_at_ms - skew.sqs_ms(each.received_ms):,} ms"
        for each in arrivals
        if skew.sqs_ms(each.received_ms) + skew.uncertainty_ms < each.deliver_at_ms
    ]
    detail = _listed(early) or f"clock {skew.offset_ms:+,} ms against SQS's, known to {skew.uncertainty_ms:,} ms"
    return Check(name="nothing is early", passed=not early, detail=detail)


def _bodies(sent: dict[str, Sent], arrivals: list[Arrival]) -> Check:
    changed = [
        each.message_id for each in arrivals if each.message_id in sent and sent[each.message_id].body != each.body
    ]
    detail = _listed(changed) or f"{len(arrivals):,} bodies compared"
    return Check(name="bodies arrive as they were sent", passed=not changed, detail=detail)


def _late(record: Record) -> Check:
    groups = [each for each in precision(record) if each.group != DIRECT]
    late = [f"{each.group}: p99 {each.p99_ms:,} ms" for each in groups if each.p99_ms > LATE_P99_MS]
    detail = _listed(late) or ", ".join(f"{each.group}: p99 {each.p99_ms:,} ms" for each in groups)
    name = f"99 of 100 messages from ledgers are at most {LATE_P99_MS:,} ms late"
    return Check(name=name, passed=bool(groups) and not late, detail=detail or "none was measured")


DIRECT = "direct"
"""Messages due within seconds: a cold start of ingest makes the first of them late, so no limit is set."""
LEDGER = "ledger"
"""Messages that went through a ledger."""


def _listed(wrong: Iterable[str]) -> str:
    found = list(wrong)
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
