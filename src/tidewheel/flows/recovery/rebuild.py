"""Rebuilds a topic's index from ledgers and the last checkpoint.

A topic without a topic state is at rest: ingest leaves packs in their queue, dispatch and collection do nothing, and
every conditional write is refused. So the topic state is deleted first and put last. All steps in between can be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tidewheel.errors import (
    AlreadyExists,
    CorruptLedger,
    CorruptMetadata,
    InvalidValue,
    ObjectMissing,
    TopicBusy,
    TopicDeleting,
    UnknownTopic,
)
from tidewheel.flows.delivery.recur import delete_plan
from tidewheel.flows.delivery.refusing import note_away
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic, find_checkpoints, store_checkpoint
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.ports import Ports
from tidewheel.flows.recovery.rebuild_keys import KeyRestore
from tidewheel.flows.recovery.rebuild_occurrences import keep_occurrences
from tidewheel.flows.recovery.rebuild_planning import (
    Resolved,
    groups,
    planned_of,
    resolve,
    restored_recurring,
    restored_state,
    restored_subscriptions,
    rewriting,
)
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.flows.recovery.scan import RebuildEngine, ScanRange, reader_of
from tidewheel.ledger.bucket import Bucket, waiting_rows
from tidewheel.ledger.inspection import Inspected
from tidewheel.ledger.reader import tags_of
from tidewheel.ledger.writer import GENERATION_TAG, TOPIC_TAG
from tidewheel.model.checkpoint import Checkpoint, with_effective_cursors
from tidewheel.model.object_names import ASIDE, IMPORTS, LEDGERS, is_ledger, ledger_bucket_id, runs_begun, topic_prefix
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.model.wheel import open_from
from tidewheel.storage.objects import Objects, StoredObject


def rebuild(
    ports: Ports,
    topic: str,
    engine: RebuildEngine,
    *,
    lease_s: int,
    settings: TopicSettings | None = None,
    replace_index: bool = False,
    settle: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> RebuildReport:
    """Rebuilds a topic's index.

    If it stops
        after the lease: the next run begins when the lease has run out.
        after the note that the topic is away, or the checkpoint: all is as it was.
        after the topic state is deleted, or anywhere before it is put again: the topic is at rest; the next run starts
            over. The next run drops or uses the ledgers that this run has written, by their lineage.
        after the topic state is put: all is done.

    Args:
        engine: reads and writes ledgers.
        lease_s: longer than this run can live, in seconds; no merge and no other rebuild begins meanwhile.
        settings: the topic's, if there is no checkpoint.
        replace_index: replace an existing index.
        settle: waits until every function that has read the topic state has ended. A collection in progress deletes
            objects that the rebuild would otherwise take for live.
        say: shows a line.

    Raises:
        InvalidValue: the topic has an index, and `replace_index` is not set; or there is no checkpoint, and no
            settings.
        UnknownTopic: there is nothing to rebuild the topic from.
        TopicBusy: a merge or another rebuild of the topic is running, or died within the last `lease_s`.
        AlreadyExists: the topic was created meanwhile.
        TopicDeleting: the topic is being deleted.
    """
    if ports.deletions.read(topic) is not None:
        raise TopicDeleting(topic)
    if ports.topic_states.read(topic) is not None and not replace_index:
        raise InvalidValue("--replace", replace_index, f"topic {topic!r} has an index; try --dry-run first")
    now_ms = ports.clock.now_ms()
    until_ms = now_ms + lease_s * 1000
    if not ports.merges.lease(topic, now_ms, until_ms):
        raise TopicBusy(topic)
    try:
        note_away(ports, topic)
        if ports.topic_states.read(topic) is not None:
            with suppress(CorruptMetadata):  # the checkpoint before the damage counts
                checkpoint_topic(ports, topic, ahead_ms=ports.max_skew_ms + 1)
            ports.topic_states.delete(topic)
            settle()
        return _rebuild(ports, topic, engine, settings, say)
    finally:
        ports.merges.release(topic, until_ms)


def _rebuild(
    ports: Ports, topic: str, engine: RebuildEngine, settings: TopicSettings | None, say: Callable[[str], None]
) -> RebuildReport:
    checkpoint = _basis(ports, topic, ledgers_of(ports.objects, topic), settings)
    keep_occurrences(ports, checkpoint, planned_of(checkpoint, ports.clock.now_ms()))
    stored = ledgers_of(ports.objects, topic)
    say(f"topic {topic}: {len(stored):,} objects, {sum(each.size_bytes for each in stored) / 1e6:,.1f} MB")
    scan = engine.scan(stored, scan_range(checkpoint, ports.clock.now_ms()))
    resolved = resolve(scan.inspected, topic, checkpoint.generation)
    now_ms = ports.clock.now_ms()
    first_slot = min((each.first_slot for each in buckets_of(resolved)), default=None)
    planned = planned_of(checkpoint, now_ms, first_slot)
    state = restored_state(checkpoint, planned, now_ms)
    together = groups(resolved.live, scan.overlaps(resolved.live))
    say(f"topic {topic}: {len(resolved.live):,} ledgers count, {sum(map(len, together)):,} of them are rewritten")
    outputs = _rewritten(engine, state, resolved, together)
    # Before anything is moved: Spark reads a ledger again if it loses a worker.
    keys = scan.restore_keys(resolved.live, KeyRestore.of(checkpoint, state, now_ms), checkpoint.keys)
    scan.close()
    if keys:
        say(f"topic {topic}: {keys:,} keys")
    _move_aside(ports, resolved, together)
    rewritten = {place for each in together for place in each}
    live = [each for place, each in enumerate(buckets_of(resolved)) if place not in rewritten] + outputs
    _clear(ports, topic, {each.id for each in live}, planned)
    _restore(ports, checkpoint, live, planned)
    ports.topic_list.add(topic)
    if not ports.topic_states.create(replace(state, waiting=waiting_rows(live, planned))):
        raise AlreadyExists("topic", topic, "an index that was made during the rebuild")
    report = report_of(checkpoint, topic, stored, scan.inspected, resolved, together)
    return replace(
        report, live=len(live), rows=sum(each.rows for each in live), from_ms=planned * state.slot_ms, keys=keys
    )


def _restore(ports: Ports, checkpoint: Checkpoint, live: Sequence[Bucket], planned: int) -> None:
    """Puts the items of a topic. Each can be put again."""
    topic = checkpoint.topic
    puts = [
        *(partial(ports.buckets.restore, topic, each) for each in live),
        *(partial(ports.tombstones.restore, topic, each) for each in checkpoint.tombstones),
        *(partial(ports.recurring.restore, each) for each in restored_recurring(checkpoint)),
        *(partial(ports.subscriptions.restore, each) for each in restored_subscriptions(checkpoint, planned)),
    ]
    ports.parallel(lambda put: put(), puts)


def scan_range(checkpoint: Checkpoint, now_ms: int) -> ScanRange:
    """Returns the messages to compare (planned again) and the messages with keys (planned again, or not due yet)."""
    slot_ms = checkpoint.settings.slot_ms
    from_ms = planned_of(checkpoint, now_ms) * slot_ms
    return ScanRange(slot_ms=slot_ms, from_ms=from_ms, keys_from_ms=min(from_ms, now_ms))


def ledgers_of(objects: Objects, topic: str) -> list[StoredObject]:
    """Lists a topic's ledgers, without those of runs of imports that do not count yet."""
    begun = runs_begun([each.name for each in objects.list(f"{topic_prefix(IMPORTS, topic)}_")])
    found = (each for each in objects.list(topic_prefix(LEDGERS, topic)) if is_ledger(each.name))
    return [each for each in found if not (ledger_bucket_id(each.name) or "").partition("-")[2].startswith(begun)]


def buckets_of(resolved: Resolved) -> list[Bucket]:
    """Returns the buckets of the live ledgers."""
    return [each.bucket for each in resolved.live if each.bucket is not None]


def _basis(ports: Ports, topic: str, stored: Sequence[StoredObject], settings: TopicSettings | None) -> Checkpoint:
    """Returns and stores the checkpoint to start from, completed from the table.

    Without a checkpoint, the basis has the given settings. Storing it first makes the next run start from the same
    basis, and tells the orphan sweep that the topic is to come back.
    """
    now_ms = ports.clock.now_ms()
    checkpoint = find_checkpoints(ports.objects, topic).newest
    if checkpoint is None:
        generation = generation_of(ports.objects, topic, stored)
        if settings is None:
            raise InvalidValue("settings", None, f"topic {topic!r} has no readable checkpoint: give its settings")
        checkpoint = Checkpoint(
            topic=topic,
            generation=generation,
            settings=settings,
            sealed=open_from(now_ms, settings),
            planned=0,
            collected_until=0,
            purge_ms=0,
            written_at_ms=now_ms,
        )
    checkpoint = with_table(ports, checkpoint, now_ms)
    store_checkpoint(ports.objects, checkpoint)
    return checkpoint


def with_table(ports: Ports, checkpoint: Checkpoint, now_ms: int) -> Checkpoint:
    """Returns a checkpoint with the subscriptions and tombstones that only the table has."""
    known = {each.name for each in checkpoint.subscriptions}
    unreadable: dict[str, Exception] = {}
    found = [each for each in ports.subscriptions.all(checkpoint.topic, unreadable) if each.name not in known]
    for name, error in unreadable.items():
        if name not in known:
            raise error
    opened = ports.deliveries.all(checkpoint.topic, {}) if found else []
    tombstones = {each[:2]: each for each in (*ports.tombstones.all(checkpoint.topic), *checkpoint.tombstones)}
    added = tuple(with_effective_cursors(found, opened))
    recurring = {each.name: each for each in (*checkpoint.recurring, *ports.recurring.all(checkpoint.topic, {}))}
    return replace(
        checkpoint,
        written_at_ms=max(now_ms, checkpoint.written_at_ms + 1),
        subscriptions=tuple(sorted((*checkpoint.subscriptions, *added), key=lambda each: each.name)),
        tombstones=tuple(sorted(tombstones.values(), key=lambda each: each[:3])),
        recurring=tuple(each for _, each in sorted(recurring.items())),
    )


def generation_of(objects: Objects, topic: str, stored: Sequence[StoredObject]) -> str:
    """Returns the generation of the newest ledger."""
    for each in sorted(stored, key=lambda each: each.put_at_ms, reverse=True):
        try:
            tags = tags_of(reader_of(objects, each), each.size_bytes, each.name)
        except (CorruptLedger, ObjectMissing):
            continue
        if tags.get(TOPIC_TAG) == topic and GENERATION_TAG in tags:
            return tags[GENERATION_TAG]
    raise UnknownTopic(topic)


def _rewritten(engine: RebuildEngine, state: TopicState, resolved: Resolved, together: list[list[int]]) -> list[Bucket]:
    """Writes each group of ledgers as one, without repeats. Nothing names the outputs yet."""
    live = buckets_of(resolved)
    merges = (rewriting([live[place] for place in places], state.planned) for places in together)
    works = [MergeWork(state=state, merge=merge) for merge in merges if merge is not None]
    outputs: list[Bucket] = []
    for _, written in engine.writer.write_all(works):
        if written.error is not None:
            raise written.error
        outputs += written.outputs
    return outputs


def _move_aside(ports: Ports, resolved: Resolved, together: list[list[int]]) -> None:
    """Moves damaged ledgers out of service, after their readable rows are rewritten."""
    damaged = [
        resolved.live[place].object_name for each in together for place in each if not resolved.live[place].whole
    ]
    for name in (*resolved.unreadable, *damaged):
        ports.objects.move(name, ASIDE + name)


def _clear(ports: Ports, topic: str, keep: set[str], planned: int) -> None:
    """Deletes an index except subscriptions, parks, tombstones, kept buckets and quarantined deliveries. Ledgers stay.

    Messages due from slot `planned` on are planned again.
    """
    remade = ("ledger", "plan", "delivery", "merged ledger")
    ports.unreadable.delete([each for each in ports.unreadable.all(topic) if each.what in remade])
    opened = ports.deliveries.all(topic)
    kept = [each.key for each in opened if each.quarantined and each.key.plan < planned]
    ports.deliveries.delete([each.key for each in opened if each.key not in kept])
    for a, _ in ports.plans.ranges(topic):
        if a not in {each.plan for each in kept}:
            delete_plan(ports, topic, a)
    ports.deliveries.delete_sent(topic)  # other plans will have the names of these
    for trash in ports.merges.trash(topic):
        ports.merges.delete_trash(topic, trash)
    for bucket in ports.buckets.all(topic):
        if bucket.id not in keep:
            ports.buckets.delete(topic, bucket.id)


def report_of(
    checkpoint: Checkpoint | None,
    topic: str,
    stored: Sequence[StoredObject],
    inspected: Sequence[Inspected],
    resolved: Resolved,
    together: list[list[int]],
) -> RebuildReport:
    """Returns the common part of the reports of a rebuild and a dry run."""
    return RebuildReport(
        topic=topic,
        objects=len(stored),
        size_bytes=sum(each.size_bytes for each in stored),
        checkpoint_ms=None if checkpoint is None else checkpoint.written_at_ms,
        subscriptions=() if checkpoint is None else tuple(each.name for each in checkpoint.subscriptions),
        tombstones=0 if checkpoint is None else len(checkpoint.tombstones),
        dropped=tuple(resolved.dropped),
        foreign=tuple(resolved.foreign),
        damaged=tuple(each.damage for each in inspected if each.damage is not None),
        overlapping=tuple(
            tuple(resolved.live[place].object_name for place in each) for each in together if len(each) > 1
        ),
    )
