"""Guards of merges, collections, purges and sweeps of ledgers. Needed ledgers stay, and all others go."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.simulation.conditions import unwritten
from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import ledger_worlds as worlds
from tests.simulation.guards import recurring_worlds
from tests.simulation.removal import always, changed, early, instead, moved, reads, together, wrapped
from tidewheel.flows.administration import purge as purging
from tidewheel.flows.administration import subscribe as subscribing
from tidewheel.flows.delivery import direct, due_rows
from tidewheel.flows.maintenance import collect as collecting
from tidewheel.flows.maintenance import merge_round, merge_swaps, orphans
from tidewheel.memory import MemoryObjects
from tidewheel.model import needed as needing

_FOREVER = 10**12
_DELETED = ("buckets", "plans", "objects")


def _end_a_slot_earlier(delete: Any, ports: Any, state: Any, buckets: Any, *rest: Any) -> Any:
    earlier = [
        SimpleNamespace(id=each.id, object_name=each.object_name, last_slot=each.last_slot - 1) for each in buckets
    ]
    return delete(ports, state, earlier, *rest)


def _end_plans_at_their_begin(delete: Any, ports: Any, state: Any, buckets: Any, plans: Any, *rest: Any) -> Any:
    return delete(ports, state, buckets, [(first, first) for first, _ in plans], *rest)


def _delete_all_trash(delete: Any, ports: Any, state: Any, buckets: Any, plans: Any, _: Any, *rest: Any) -> Any:
    return delete(ports, state, buckets, plans, ports.merges.trash(state.topic), *rest)


def _until_inside_a_plan(until: Any, ports: Any, *rest: Any) -> Any:
    no_plans = changed(ports, plans=changed(ports.plans, ranges=lambda *_, **__: []))
    return until(no_plans, *rest)[0], until(ports, *rest)[1]


def _delete_only_after_a_raise(collect: Any, ports: Any, topic: str) -> Any:
    raised: list[bool] = []

    def raise_collected_until(*args: Any) -> bool:
        raised.append(ports.topic_states.raise_collected_until(*args))
        return raised[-1]

    def deleting(delete: Any) -> Any:
        return lambda *args: delete(*args) if any(raised) else None

    made = {name: changed(port, delete=deleting(port.delete)) for name, port in vars(ports).items() if name in _DELETED}
    made["merges"] = changed(ports.merges, delete_trash=deleting(ports.merges.delete_trash))
    made["topic_states"] = changed(ports.topic_states, raise_collected_until=raise_collected_until)
    return collect(changed(ports, **made), topic)


def _delete_by_the_wanted_mark(collect: Any, ports: Any, topic: str) -> Any:
    wanted: list[int] = []

    def raise_collected_until(state: Any, collected_until: int) -> Any:
        wanted.append(collected_until)
        return ports.topic_states.raise_collected_until(state, collected_until)

    def read(topic: str) -> Any:
        found = ports.topic_states.read(topic)
        return replace(found, collected_until=wanted[-1]) if found and wanted else found

    states = changed(ports.topic_states, raise_collected_until=raise_collected_until, read=read)
    return collect(changed(ports, topic_states=states), topic)


GUARDS = (
    Guard(
        "a merge is seen by whoever reads ledgers meanwhile",
        in_storage("merges.swap"),
        unwritten("swap_version"),
        worlds.MERGE_DISPATCH,
    ),
    Guard(
        "a merge rewrites all that is not planned",
        merge_round.plan_round,
        reads("planned", lambda state: state.sealed),
        worlds.MERGE_DISPATCH,
    ),
    Guard(
        "the trash of a merge is stamped with a mark that outlives every plan",
        merge_swaps.swap,
        reads("sealed", lambda state: state.collected_until),
        worlds.MERGE_LAGGING,
    ),
    Guard(
        "merged ledgers stay while a plan names them",
        collecting._delete,
        together(always(before="merges.delete_trash"), wrapped(_delete_all_trash)),
        worlds.MERGE_LAGGING,
    ),
    Guard(
        "a collection reads cursors before deliveries",
        collecting.collect,
        moved("subscriptions.all", after="deliveries.all"),
        worlds.COLLECT_HAND_OUT,
    ),
    Guard(
        "a collection waits for open deliveries",
        needing.needed,
        reads("key", lambda _: SimpleNamespace(plan=_FOREVER)),
        worlds.COLLECT_HAND_OUT,
    ),
    Guard(
        "a collection waits for the least cursor",
        needing.needed,
        reads("cursor", lambda _: _FOREVER),
        worlds.COLLECT_PAUSED,
    ),
    Guard(
        "a plan stays until its end is behind all cursors",
        collecting._delete,
        wrapped(_end_plans_at_their_begin),
        worlds.COLLECT_PAUSED,
    ),
    Guard(
        "a ledger stays until its last slot is behind all cursors",
        collecting._delete,
        wrapped(_end_a_slot_earlier),
        worlds.COLLECT_NEXT,
    ),
    Guard(
        "a bucket goes before its ledger",
        collecting._delete,
        moved("buckets.delete", after="delete object_name"),
        worlds.COLLECT_NEXT,
    ),
    Guard(
        "what a collection that died has left goes with the next",
        collecting.collect,
        wrapped(_delete_only_after_a_raise),
        worlds.COLLECT_LAST,
    ),
    Guard(
        "a topic is collected again while something is left that nobody needs",
        collecting._next_at_ms,
        wrapped(lambda *_: None),
        recurring_worlds.RECURRING_COLLECT,
    ),
    Guard(
        "a new subscription is seen by a collection",
        in_storage("subscriptions.create"),
        unwritten("subscriptions_version"),
        worlds.SUBSCRIBE_COLLECT,
    ),
    Guard(
        "a collection deletes by the mark that was stored",
        collecting.collect,
        wrapped(_delete_by_the_wanted_mark),
        worlds.SUBSCRIBE_COLLECT,
    ),
    Guard(
        "a subscription that begins behind is seen by the sweep",
        in_storage("subscriptions.create"),
        instead("_lowered", lambda *_: {}),
        worlds.SUBSCRIBE_COLLECT,
    ),
    Guard(
        "a new subscription is seen by whoever raises the next slot",
        in_storage("subscriptions.create"),
        unwritten("work_version"),
        worlds.SUBSCRIBE_DISPATCH,
    ),
    Guard(
        "a new cursor is a boundary of plans",
        subscribing.create_subscription,
        reads("planned", lambda state: state.sealed),
        worlds.SUBSCRIBE_BETWEEN,
    ),
    Guard("collected_until is a boundary of plans", collecting._until, wrapped(_until_inside_a_plan), worlds.EARLIEST),
    Guard(
        "each try of an ingest has an object of its own",
        MemoryObjects.new_attempt,
        reads("_attempts", lambda _: 0),
        worlds.ORPHAN_RETRY,
    ),
    Guard(
        "an object that may still get named is no orphan",
        orphans._visit,
        reads("ORPHAN_GRACE_S", lambda _: 0),
        worlds.ORPHAN_RETRY,
    ),
    Guard("an object that is named is no orphan", orphans._delete, always("name"), worlds.ORPHAN_MERGE),
    Guard(
        "orphans are told by buckets first, and by the trash then",
        orphans._ledgers_named,
        early("merges.trash"),
        worlds.ORPHAN_MERGE,
    ),
    Guard(
        "a purge swaps out no ledger that came after its mark",
        purging.purge,
        moved("buckets.all", after="_mark"),
        worlds.PURGE_SEND,
    ),
    Guard(
        "what was sent in the millisecond of a purge is purged",
        purging.purge,
        instead("sent_at_ms", lambda sent_at_ms, now_ms: sent_at_ms(now_ms) - 1),
        worlds.PURGE_DIRECT,
    ),
    Guard(
        "the trash of a purge is stamped likewise",
        purging._swap_out,
        reads("sealed", lambda state: state.collected_until),
        worlds.PURGE_PLAN,
    ),
    Guard(
        "a plan brings nothing that was purged",
        due_rows.due_rows,
        instead("without_purged", lambda _, rows, __: rows),
        worlds.PURGE_PLAN,
    ),
    Guard(
        "what goes direct is dropped if it was purged",
        direct._without_cancelled,
        instead("without_purged", lambda _, rows, __: rows),
        worlds.PURGE_DIRECT,
    ),
)
