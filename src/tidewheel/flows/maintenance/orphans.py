"""Deletes orphans, the objects that nothing names, after a day.

An object becomes an orphan if its writer died before it could name the object. A reference to a ledger only ever moves
from a BUCKET to a TRASH, and a PLAN that is still to be delivered names only ledgers that a BUCKET or a TRASH names. So
the objects are listed first, then the BUCKETs are read, then the TRASH. Manifests are named by PLANs, and ledgers of
parks by PARKs. Objects that a delivery could not read stay as long as the delivery. An import names its ledgers in an
object before it commits the first one. So imports are listed before the BUCKETs are read, and while one is unfinished,
all ledgers of its topic stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tidewheel.flows.administration.purge import collect_in_time
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.flows.maintenance.consider_merge import rewrite_of
from tidewheel.flows.maintenance.daily import Visit, walk_daily
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, BucketId, slot_of
from tidewheel.model.object_names import (
    CHECKPOINTS,
    IMPORTS,
    LEDGERS,
    PARKED,
    PLANS,
    ledger_bucket_id,
    topic_prefix,
    unfinished_imports,
)
from tidewheel.model.plan import Trash
from tidewheel.model.subscription_state import unread_objects
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.buckets import IMPORT_TTL_S
from tidewheel.storage.objects import StoredObject
from tidewheel.storage.storage import Storage

ORPHAN_GRACE_S = 24 * 3600
"""A younger object may still be named by its writer: no function lives this long. An import that does is refused
(`tidewheel.jobs.importing.driver`)."""
DAILY = "ORPHANS"
MOST_NAMES = 10_000
"""Objects whose names memory holds, with as many buckets. A topic with more is swept in several visits."""

Named = Callable[[Storage, str, Sequence[str]], frozenset[str]]
"""Returns those objects of a topic that something names, at least among some names."""


@dataclass(slots=True, kw_only=True)
class Orphans:
    """The counts of deleted objects.

    Attributes:
        left: topics whose objects were left alone, because their topic state is lost, or was rebuilt meanwhile.
        failures: topic -> the error; the other topics were swept.
    """

    objects: int = 0
    left: set[str] = field(default_factory=set)
    failures: dict[str, Exception] = field(default_factory=dict)


def sweep_orphans_daily(ports: Ports, ends_ms: int | None = None) -> Orphans | None:
    """Sweeps orphans once a day, in portions. Returns None if the sweep is not due.

    If it stops, the next day's sweep sees the same orphans.
    """
    orphans = Orphans()
    failures = walk_daily(ports, DAILY, list(_NAMED), _visit(ports, orphans), ends_ms, most=MOST_NAMES)
    return None if failures is None else replace(orphans, failures=failures)


def _visit(ports: Ports, orphans: Orphans) -> Visit:
    now_ms = ports.clock.now_ms()
    seen: set[str] = set()

    def visit(prefix: str, topic: str, listed: list[StoredObject]) -> None:
        old = [each for each in listed if each.put_at_ms < now_ms - ORPHAN_GRACE_S * 1000]
        if topic not in seen:
            seen.add(topic)
            checkpoint_topic(ports, topic, tell=partial(_remind, ports))
        if old:
            _delete(ports, topic, old, _NAMED[prefix], orphans)

    return visit


def _remind(
    ports: Ports, state: TopicState, buckets: Sequence[Bucket], trash: Sequence[Trash], tombstones: Sequence[Tombstone]
) -> None:
    """Sets a collection of an idle topic that has trash, or too many dead bytes.

    A merge that stopped after its swap leaves trash, and a cancel sets no collection. If it stops, the next day's sweep
    sets the collection.
    """
    if state.collect_at_ms is None and (trash or any(rewrite_of(ports, state, buckets, tombstones))):
        collect_in_time(ports, ports.clock, state.topic)


def _delete(ports: Ports, topic: str, old: list[StoredObject], named: Named, orphans: Orphans) -> None:
    state = ports.topic_states.read(topic)
    if named is _ledgers_named and _has_unfinished_import(ports, topic, state):
        return
    kept = named(ports, topic, [each.name for each in old])
    # A rebuild deletes the topic state first and puts it back last, with other counters.
    if _era(state) != _era(ports.topic_states.read(topic)) or (state is None and _is_lost(ports, topic)):
        orphans.left.add(topic)
        return
    names = [each.name for each in old if each.name not in kept]
    erases = state is not None and state.settings.strict_erasure and named is _ledgers_named
    (ports.objects.erase if erases else ports.objects.delete)(names)
    orphans.objects += len(names)


def _has_unfinished_import(ports: Ports, topic: str, state: TopicState | None) -> bool:
    """Returns whether an import may still commit ledgers. After IMPORT_TTL_S, no run finishes it."""
    since_ms = ports.clock.now_ms() - IMPORT_TTL_S * 1000
    found = {each.name: each.put_at_ms for each in ports.objects.list(f"{topic_prefix(IMPORTS, topic)}_")}
    records = (name for name in unfinished_imports(found) if found[name] > since_ms)
    # A deleted topic of the same name had another generation.
    return any(state is None or f".{state.generation}/" in name for name in records)


def _ledgers_named(storage: Storage, topic: str, names: Sequence[str]) -> frozenset[str]:
    """Reads the buckets between the first and the last slot of the ledgers' names."""
    slots = [slot_of(BucketId(id)) for id in map(ledger_bucket_id, names) if id is not None]
    wanted, live = frozenset(names), frozenset[str]()
    if slots:
        buckets = storage.buckets.in_order(topic, first_slot=min(slots), end_slot=max(slots) + 1)
        live = frozenset(bucket.object_name for bucket in buckets if bucket.object_name in wanted)
    return live.union(*(trash.objects for trash in storage.merges.trash(topic)), _unread_named(storage, topic))


def _manifests_named(storage: Storage, topic: str, _: Sequence[str]) -> frozenset[str]:
    return storage.plans.objects(topic)


def _unread_named(storage: Storage, topic: str) -> frozenset[str]:
    """Returns the objects that open deliveries could not read. Read last: then no bucket needs to name these."""
    return unread_objects(storage.deliveries.all(topic))


def _parked_named(storage: Storage, topic: str, _: Sequence[str]) -> frozenset[str]:
    return frozenset(park.object_name for park in storage.parks.all(topic) if park.object_name is not None)


_NAMED: dict[str, Named] = {LEDGERS: _ledgers_named, PLANS: _manifests_named, PARKED: _parked_named}
"""The function that reads the named objects of each prefix."""


def _era(state: TopicState | None) -> tuple[str, int] | None:
    return None if state is None else (state.generation, state.subscriptions_version)


def _is_lost(ports: Ports, topic: str) -> bool:
    return next(iter(ports.objects.list(topic_prefix(CHECKPOINTS, topic))), None) is not None
