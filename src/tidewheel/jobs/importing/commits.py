"""Commits the ledgers of an import to the topic state, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.delivery.commit import commit_and_schedule
from tidewheel.flows.ports import Ports
from tidewheel.jobs.importing.work import Chunk, Target
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.buckets import Commit

_ATTEMPTS = 20

Rewrite = Callable[[int], Chunk]
"""Writes a chunk again, without rows due before a time. It rejects these rows as late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The outcome of a commit.

    Attributes:
        chunk: as it was committed, or left.
        imported: rows that are live now.
        skipped: rows of a chunk that another run had committed.
    """

    chunk: Chunk
    imported: int = 0
    skipped: int = 0


def commit_chunk(ports: Ports, target: Target, mark: int, chunk: Chunk, rewrite: Rewrite) -> Committed:
    """Commits one ledger. If slots were sealed meanwhile, the chunk is written again without their rows. If it stops
        after the chunk is written again: nothing is live, and the next run repeats this chunk.
        after the commit: the next run skips this chunk. If the schedule was not created, the sweep creates it.

    Raises:
        UnknownTopic: the topic was deleted during the import.
        ConcurrentModification: the topic state changed too often; this chunk is not committed.
        FileProblem: the chunk could not be written again.
    """
    for _ in range(_ATTEMPTS):
        bucket = chunk.bucket
        if bucket is None:
            return Committed(chunk=chunk)
        state = _state(ports, target)
        if state.sealed > bucket.first_slot:
            if mark in ports.buckets.imported(target.topic, target.import_id):
                ports.objects.delete([bucket.object_name])
                return Committed(chunk=chunk, skipped=chunk.rows)
            ports.objects.delete([bucket.object_name])
            chunk = rewrite(state.sealed * state.slot_ms)
            continue
        commit = commit_and_schedule(ports, state, bucket, target.once(mark))
        if commit is Commit.COMMITTED:
            return Committed(chunk=chunk, imported=bucket.rows)
        if commit is Commit.EXISTS:
            return Committed(chunk=chunk, skipped=chunk.rows)
    raise ConcurrentModification("import", target.topic, _ATTEMPTS)


def _state(ports: Ports, target: Target) -> TopicState:
    state = ports.topic_states.read(target.topic)
    if state is None or state.generation != target.generation:
        raise UnknownTopic(target.topic)
    return state
