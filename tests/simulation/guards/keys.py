"""Guards of keys and tombstones: what was cancelled, moved or superseded does not come; what took its place does."""

from __future__ import annotations

from tests.simulation.guards import key_worlds as worlds
from tests.simulation.mutant import Mutant
from tidewheel.flows.administration import cancel as cancelling
from tidewheel.flows.delivery import ingest as ingesting
from tidewheel.flows.delivery import keys as settling
from tidewheel.memory.keys import MemoryKeys as K

MUTANTS = (
    Mutant(
        guard="a key is claimed once",
        function=K.claim_key,
        world=worlds.FIRST,
        changes=(("if found is None:", "found = None\n        if True:"),),
    ),
    Mutant(
        guard="a key is moved only from the message that was read",
        function=K.move_key,
        world=worlds.AFTER_CANCEL,
        changes=(("or found.version != seen.version", ""),),
    ),
    Mutant(
        guard="what an upsert supersedes gets a tombstone with it",
        function=K.move_key,
        world=worlds.UPSERTS,
        changes=(
            (
                "        if superseded is not None:\n            items.tombstones",
                "        if False:\n            items.tombstones",
            ),
        ),
    ),
    Mutant(
        guard="a tombstone that is to be certain is put only while its slot is open",
        function=K.move_key,
        world=worlds.UPSERT_DISPATCH,
        changes=(
            (
                "if superseded is not None and superseded.certain and not self._open(topic, superseded.slot):",
                "if False:",
            ),
        ),
    ),
    Mutant(
        guard="cancel by key says no while a superseded message may come",
        function=cancelling._cancel_named,
        world=worlds.UPSERT_DISPATCH,
        changes=(("if entry.tail_ms > now_ms:", "if False:"),),
    ),
    Mutant(
        guard="cancel by key says no once the slot is sealed",
        function=K._open,
        world=worlds.UPSERT_DISPATCH,
        changes=(("and state.sealed <= slot", ""),),
    ),
    Mutant(
        guard="a message in the ingest queue loses against a cancel by key",
        function=settling._Settling._settle,
        world=worlds.KEY_QUEUED,
        changes=(("if mine.version[:2] < found.floor:", "if False:"),),
    ),
    Mutant(
        guard="a cancel by key does not overlook a message that is settled meanwhile",
        function=cancelling.cancel_key,
        world=worlds.KEY_QUEUED,
        changes=(
            ("done = topics.claim_key(topic, entry) is None if", "done = topics.claim_key(topic, entry) != 0 if"),
        ),
    ),
    Mutant(
        guard="a message that loses is dropped",
        function=settling._Settling._drop,
        world=worlds.DUPLICATES,
        changes=(("self._topics.put_tombstone(self._state.topic, own)", "pass"),),
    ),
    Mutant(
        guard="a message is dropped while another one with its key waits",
        function=settling._Settling._overlap,
        world=worlds.DUPLICATES,
        changes=(
            ("if cancelled is None:\n            return True", "if cancelled is None:\n            return False"),
        ),
    ),
    Mutant(
        guard="keys are settled before anything is sent",
        function=ingesting.ingest,
        world=worlds.DIRECT,
        changes=(
            (
                "    try:\n        superseded = settle_keys(ports, state, packs)\n"
                "    except (CorruptMetadata, InvalidValue) as error:\n"
                "        raise KeysNotSettled(topic, error) from error\n",
                "",
            ),
            ("    return Ingested(\n", "    superseded = settle_keys(ports, state, packs)\n    return Ingested(\n"),
        ),
    ),
    Mutant(
        guard="a message that was cancelled keeps no other from being sent",
        function=settling._Settling._overlap,
        world=worlds.WAS_CANCELLED,
        changes=(("named = cancelled.to", "return True"),),
    ),
    Mutant(
        guard="a message that was purged keeps no other from being sent",
        function=settling._Settling._overlap,
        world=worlds.WAS_PURGED,
        changes=((" or self._state.purged(found.deliver_at_ms, found.sent_ms)", ""),),
    ),
    Mutant(
        guard="a message that was due keeps no later one from being sent",
        function=settling._Settling._overlap,
        world=worlds.WAS_DUE,
        changes=((" or id_deliver_at_ms(id_bytes(named)) <= mine.sent_ms", ""),),
    ),
    Mutant(
        guard="a reschedule says no once the slot is sealed",
        function=K._open,
        world=worlds.MOVE_DISPATCH,
        changes=(("and state.sealed <= slot", ""),),
    ),
    Mutant(
        guard="a message whose move came too late is dropped",
        function=settling._Settling.move,
        world=worlds.MOVE_DISPATCH,
        changes=(("            self._drop(mine)\n", ""),),
    ),
    Mutant(
        guard="a message is moved once",
        function=K.cancel,
        world=worlds.TWO_MOVES,
        changes=(("if found is not None and (found.certain or tombstone.to is not None):", "if False:"),),
    ),
    Mutant(
        guard="a cancel follows a message that was moved",
        function=cancelling.cancel,
        world=worlds.MOVE_CANCEL,
        changes=((" and outcome.found.to is None):", "):"),),
    ),
    Mutant(
        guard="a cancel of many writes over no tombstone",
        function=K.cancel_batch,
        world=worlds.MOVE_CANCEL_MANY,
        changes=(("if any(each[:2] in items.tombstones for each in tombstones):", "if False:"),),
    ),
    Mutant(
        guard="a cancel of many says no once a slot is sealed",
        function=K.cancel_batch,
        world=worlds.CANCEL_MANY,
        changes=(("if not self._open(topic, min(each.slot for each in tombstones)):", "if False:"),),
    ),
    Mutant(
        guard="an upsert writes over no tombstone",
        function=K.move_key,
        world=worlds.MOVE_UPSERT,
        changes=(("if superseded is not None and superseded[:2] in items.tombstones:", "if False:"),),
    ),
    Mutant(
        guard="a tombstone never forgets where its message went",
        function=K.put_tombstone,
        world=worlds.MOVED_AGAIN,
        changes=((".setdefault(tombstone[:2], tombstone)", "[tombstone[:2]] = tombstone"),),
    ),
)
