"""Commits the ledgers of an import to the topic state, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.buckets import Commit
from tidewheel.flows.ports.objects import Objects
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.ledger import decode_segment
from tidewheel.model.topic_state import TopicState
from tidewheel.spark.ledger_sink import CutLedger, Target, write_ledger

_ATTEMPTS = 20

RejectLate = Callable[[int, int, int], None]
"""Takes a cut and its slots [first_slot, end_slot) sealed since the import began. Stores their rows as rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Counts the rows of one ledger by their outcome.

    Attributes:
        imported: rows live now.
        late: rows rejected because their slots were sealed since the import began.
        skipped: rows of a cut already committed by another run.
    """

    imported: int = 0
    late: int = 0
    skipped: int = 0


def commit_ledger(ports: Ports, target: Target, ledger: CutLedger, reject_late: RejectLate) -> Committed:
    """Commits one ledger. Rejects rows of sealed slots.

    The rows of open slots are then written to a new ledger. If the commit stops
        after late rows are rejected, or the new ledger is written: nothing is live, and the next run repeats this cut;
            its late rows are rejected again, as too soon.
        after the commit: the next run skips this cut. If the schedule was not created, the sweep creates it.

    Raises:
        UnknownTopic: the topic was deleted during the import.
        ConcurrentModification: the topic state changed too often; this cut is not committed.
    """
    bucket, late = ledger.bucket, 0
    for _ in range(_ATTEMPTS):
        state = _state(ports, target)
        if state.sealed > bucket.first_slot:
            if ledger.cut in ports.buckets.imported(target.topic, target.import_id):
                ports.objects.delete([bucket.object_name])
                return Committed(late=late, skipped=bucket.rows)
            rest = _without_sealed(ports.objects, target, ledger.cut, bucket, state)
            reject_late(ledger.cut, bucket.first_slot, state.sealed)
            late += bucket.rows - (0 if rest is None else rest.rows)
            ports.objects.delete([bucket.object_name])
            if rest is None:
                return Committed(late=late)
            bucket = rest
        commit = commit_and_schedule(ports, state, bucket, target.once(ledger.cut))
        if commit is Commit.COMMITTED:
            return Committed(imported=bucket.rows, late=late)
        if commit is Commit.EXISTS:
            return Committed(skipped=bucket.rows, late=late)
    raise ConcurrentModification("import", target.topic, _ATTEMPTS)


def _state(ports: Ports, target: Target) -> TopicState:
    state = ports.topic_states.read(target.topic)
    if state is None or state.generation != target.generation:
        raise UnknownTopic(target.topic)
    return state


def _without_sealed(objects: Objects, target: Target, cut: int, bucket: Bucket, state: TopicState) -> Bucket | None:
    """Writes the rows of open slots to a new ledger. Returns None if no slot is open."""
    rest = write_ledger(objects, target, cut, _rows_from(objects, bucket, state.sealed * state.slot_ms))
    return None if rest is None else rest.bucket


def _rows_from(objects: Objects, bucket: Bucket, first_ms: int) -> Iterator[pa.Table]:
    for segment in bucket.segments:
        if segment.last_deliver_at_ms >= first_ms:
            data = objects.get_range(bucket.object_name, segment.offset, segment.length)
            rows = decode_segment(data, object_name=bucket.object_name, segment=segment)
            yield rows.filter(pc.greater_equal(rows.column("deliver_at_ms"), first_ms))
