"""Audits a topic's index against its ledgers, without changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidewheel.errors import InvalidValue, ObjectMissing
from tidewheel.flows.maintenance.checkpoint import find_checkpoints
from tidewheel.flows.maintenance.orphans import ORPHAN_GRACE_S
from tidewheel.flows.ports import Ports
from tidewheel.flows.recovery.rebuild import buckets_of, generation_of, ledgers_of, report_of
from tidewheel.flows.recovery.rebuild_planning import differs, groups, planned_of, resolve
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.flows.recovery.scan import LedgerScan, RebuildEngine, ScanRange
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.inspection import Inspected
from tidewheel.model.checkpoint import Checkpoint
from tidewheel.model.message import TIMES_END_MS
from tidewheel.model.settings import MAX_FUNCTION_S, TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.objects import StoredObject


def audit(ports: Ports, topic: str, engine: RebuildEngine, *, settings: TopicSettings | None = None) -> RebuildReport:
    """Compares a topic's index with the ledgers and the checkpoint. Without an index, reports the input of a rebuild.

    Changes nothing.

    Beside ingest, merges and collection, an audit may find objects in transit; each is checked twice before it is
    reported. Objects are listed first, then buckets are read, then the trash: see `orphans`.

    Raises:
        InvalidValue: there is neither an index nor a checkpoint, and no settings were given.
        UnknownTopic: there is nothing at all.
    """
    now_ms = ports.clock.now_ms()
    stored = ledgers_of(ports.objects, topic)
    state = ports.topic_states.read(topic)
    buckets = ports.buckets.all(topic) if state is not None else []
    named = {each.object_name for each in buckets}
    trash = {name for each in ports.merges.trash(topic) for name in each.objects}
    newest = find_checkpoints(ports.objects, topic).newest
    used, generation = _owner(ports, topic, stored, state or newest, settings)
    planned = state.planned if state is not None else 0 if newest is None else planned_of(newest, now_ms)
    from_ms = planned * used.slot_ms
    # Keys are not compared: no message is due then.
    scan = engine.scan(stored, ScanRange(slot_ms=used.slot_ms, from_ms=from_ms, keys_from_ms=TIMES_END_MS))
    resolved = resolve(scan.inspected, topic, generation)
    unnamed = [each for each in resolved.live if each.object_name not in named | trash]
    if state is not None:
        resolved.live = [each for each in scan.inspected if each.object_name in named and each.bucket is not None]
        resolved.dropped = []
    together = groups(resolved.live, scan.overlaps(resolved.live))
    settled = {each.name for each in stored if each.put_at_ms < now_ms - MAX_FUNCTION_S * 1000}
    coming = [
        each for each in unnamed if each.object_name in settled and each.bucket and each.bucket.last_slot >= planned
    ]
    lost = _lost(ports, topic, state, newest, _alone(scan, resolved.live, coming))
    scan.close()
    orphaned = [each for each in stored if state is not None and each.name not in named | trash]
    report = report_of(newest, topic, stored, scan.inspected, resolved, together)
    return replace(
        report,
        dry_run=True,
        from_ms=from_ms,
        live=len(resolved.live),
        rows=sum(each.rows for each in buckets_of(resolved)),
        missing=tuple(_missing(ports, topic, buckets, {each.name for each in stored})),
        lost=tuple(lost),
        orphaned=tuple(each.name for each in orphaned),
        old_orphans=sum(each.put_at_ms < now_ms - ORPHAN_GRACE_S * 1000 for each in orphaned),
        differing=tuple(_differing(buckets, scan.inspected)),
    )


def _alone(scan: LedgerScan, live: list[Inspected], others: list[Inspected]) -> list[Inspected]:
    """Returns the other ledgers that share no message with a live ledger."""
    everything = [*live, *others]
    together = groups(everything, scan.overlaps(everything)) if others else []
    shared = {place for each in together if each[0] < len(live) for place in each}
    return [each for place, each in enumerate(others, start=len(live)) if place not in shared]


def _lost(
    ports: Ports, topic: str, state: TopicState | None, newest: Checkpoint | None, alone: Sequence[Inspected]
) -> list[str]:
    """Names the items of the checkpoint and of ledgers that the table lacks. An unreadable item is not lost."""
    if state is None:
        return ["the topic, with all its items: rebuild it"]
    found = [
        f"ledger {each.object_name}, with {each.bucket.rows:,} messages that no other ledger has; "
        "its item was lost, or an import or a crash left it"
        for each in alone
        if each.bucket is not None
    ]
    if newest is None or newest.generation != state.generation:
        return found
    there: dict[str, Exception] = {}
    names = {each.name for each in ports.subscriptions.all(topic, there)} | there.keys()
    rules = {each.name for each in ports.recurring.all(topic, there)} | there.keys()
    cancelled = {each.id for each in ports.tombstones.all(topic)}
    gone = sum(each.slot >= state.planned and each.id not in cancelled for each in newest.tombstones)
    ended = "of the checkpoint; it was lost, or deleted since"
    found += [f"subscription {each.name} {ended}" for each in newest.subscriptions if each.name not in names]
    found += [f"recurring message {each.name} {ended}" for each in newest.recurring if each.name not in rules]
    return found + ([f"{gone:,} cancelled messages of the checkpoint, which would come"] if gone else [])


def _owner(
    ports: Ports,
    topic: str,
    stored: Sequence[StoredObject],
    known: TopicState | Checkpoint | None,
    settings: TopicSettings | None,
) -> tuple[TopicSettings, str]:
    """Returns a topic's settings and generation, from the known state or the newest ledger."""
    if known is not None:
        return known.settings, known.generation
    generation = generation_of(ports.objects, topic, stored)
    if settings is None:
        raise InvalidValue("settings", None, f"topic {topic!r} has no index and no checkpoint: give its settings")
    return settings, generation


def _differing(buckets: Sequence[Bucket], inspected: Sequence[Inspected]) -> Iterator[tuple[str, str]]:
    by_name = {each.object_name: each for each in inspected}
    for bucket in buckets:
        found = by_name.get(bucket.object_name)
        how = None if found is None else differs(bucket, found)
        if how is not None:
            yield bucket.object_name, how


def _missing(ports: Ports, topic: str, buckets: Sequence[Bucket], listed: set[str]) -> Iterator[str]:
    for bucket in buckets:
        if bucket.object_name in listed:
            continue
        try:
            ports.objects.get_range(bucket.object_name, 0, 1)
        except ObjectMissing:
            if ports.buckets.read(topic, bucket.id) is not None:
                yield bucket.object_name
