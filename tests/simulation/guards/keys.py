"""Guards of keys and tombstones. Replaced and cancelled messages do not come, and replacements do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import key_worlds as worlds
from tests.simulation.removal import always, instead, never
from tidewheel.flows.delivery import cancel as cancelling
from tidewheel.flows.delivery import ingest as ingesting
from tidewheel.flows.delivery import keys as settling
from tidewheel.flows.delivery.progress import Progress


def _claimed_whatever_was_there(claim_key: Any, topic: str, entry: Any) -> None:
    claim_key(topic, entry)


def _not_settled(_: Any, ports: Any, state: Any, packs: Any) -> Progress:
    return Progress(ports, state, packs)


GUARDS = (
    Guard(
        "what an upsert supersedes gets a tombstone with it",
        in_storage("keys.move"),
        always(before="_table.put"),
        worlds.UPSERTS,
    ),
    Guard(
        "cancel by key says no while a superseded message may come",
        cancelling._cancel_named,
        never("tail_ms"),
        worlds.UPSERT_DISPATCH,
    ),
    Guard(
        "a message in the ingest queue loses against a cancel by key",
        settling._Settling._verdict,
        never("mine.version floor"),
        worlds.KEY_QUEUED,
    ),
    Guard(
        "a cancel by key does not overlook a message that is settled meanwhile",
        cancelling._put_cancelled,
        instead("keys.claim", _claimed_whatever_was_there),
        worlds.KEY_QUEUED,
    ),
    Guard("a message that loses is dropped", settling._Settling._drop, instead("tombstones.put"), worlds.DUPLICATES),
    Guard(
        "a message is dropped while another one with its key waits",
        settling._Settling._overlap,
        instead("_find", lambda find, message_id: find(message_id) or SimpleNamespace(to=None)),
        worlds.DUPLICATES,
    ),
    Guard(
        "keys are settled before anything is sent", ingesting.ingest, instead("settled", _not_settled), worlds.DIRECT
    ),
    Guard(
        "a message that was cancelled keeps no other from being sent",
        settling._Settling._overlap,
        instead("_find"),
        worlds.WAS_CANCELLED,
    ),
    Guard(
        "a message that was purged keeps no other from being sent",
        settling._Settling._overlap,
        never("purged"),
        worlds.WAS_PURGED,
    ),
    Guard(
        "a message that was due keeps no later one from being sent",
        settling._Settling._overlap,
        never("id_deliver_at_ms"),
        worlds.WAS_DUE,
    ),
    Guard(
        "a message whose move came too late is dropped", settling._Settling.move, instead("_drop"), worlds.MOVE_DISPATCH
    ),
    Guard(
        "a message takes another's place only if that was allowed",
        settling._with_allowed_moves,
        never("may_move"),
        worlds.FORGED_MOVE,
    ),
    Guard("a cancel follows a message that was moved", cancelling.fate, never("found .to"), worlds.MOVE_CANCEL),
)
