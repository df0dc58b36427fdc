"""Commits the ledgers of an import to the topic state, one after the other.

A ledger's first slots may be sealed when its turn comes. The rows of these slots then go to the topic's ingest queue,
as if they were sent now, and the other rows become a new ledger. If it stops
    after the rows are sent: the next run sends them once more, with the same ids.
    after the new ledger is written: the same.
    after the commit: the next run skips this ledger. If the schedule was not created, the sweep creates it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.flows.delivery.load_index import complete
from tidewheel.flows.maintenance.merge_rows import store_rows
from tidewheel.flows.ports import Ports
from tidewheel.flows.waiting.find import found_messages, segment_rows
from tidewheel.jobs.importing.work import Imported, Work
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.rows import times_of
from tidewheel.model.pack import packs
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.buckets import Commit

_ATTEMPTS = 20
_PACKED = 1_000
"""Messages of a pack: ten such packs fit into one call of ingest."""


def commit_ledger(ports: Ports, work: Work, mark: int, bucket: Bucket, report: Imported) -> None:
    """Commits one ledger, and adds its rows to a report.

    Raises:
        UnknownTopic: the topic was deleted during the import.
        ConcurrentModification: the topic state changed too often; this ledger is not committed.
        ObjectMissing: the ledger is gone.
    """
    rest: Bucket | None = bucket
    for _ in range(_ATTEMPTS):
        state = ports.topic_states.read(work.state.topic)
        if state is None or state.generation != work.state.generation:
            raise UnknownTopic(work.state.topic)
        if rest is None:
            commit = Commit.COMMITTED  # all rows are sent
        elif state.sealed <= rest.first_slot:
            commit = commit_and_schedule(ports, state, rest, f"{work.import_id}#{mark}")
        elif mark in ports.buckets.imported(state.topic, work.import_id):
            commit = Commit.EXISTS
        else:
            rest, commit = _without_sealed(ports, state, rest), Commit.MOVED
        if commit is Commit.EXISTS:
            report.skipped += bucket.rows
            return
        if commit is Commit.COMMITTED:
            report.imported += bucket.rows
            report.sent += bucket.rows - (0 if rest is None else rest.rows)
            report.ledgers += rest is not None
            if rest is not None and rest is not bucket:
                ports.objects.delete([bucket.object_name])
            return
    raise ConcurrentModification("import", work.state.topic, _ATTEMPTS)


def _without_sealed(ports: Ports, state: TopicState, bucket: Bucket) -> Bucket | None:
    """Sends the rows of sealed slots, and writes the others as a new ledger. Returns None if there are no others."""

    def rest() -> Iterator[pa.Table]:
        for segment in complete(ports.objects, bucket).segments:
            rows = segment_rows(ports.objects, bucket.object_name, segment)
            late = int(times_of(rows).searchsorted(state.sealed * state.slot_ms))
            _send(ports, state, rows.slice(0, late))
            if late < rows.num_rows:
                yield rows.slice(late)

    return store_rows(
        ports.objects,
        rest(),
        topic=state.topic,
        generation=state.generation,
        settings=state.settings,
        content=bucket.id.partition("-")[2],
    )


def _send(ports: Ports, state: TopicState, rows: pa.Table) -> None:
    """Sends rows as packs to the topic's urgent queue. Ingest then hands them out at once."""
    messages = [replace(each.checked, sent_at_ms=each.sent_at_ms) for each in found_messages(rows, "")]
    now_ms, known_ms = ports.clock.now_ms(), state.sent_at_ms(0)
    made = packs(state.topic, state.generation, now_ms, messages, max_messages=_PACKED, known_purge_ms=known_ms)
    for places, data in made:
        ports.queues.forward(state.topic, len(places), data, urgent=True)
