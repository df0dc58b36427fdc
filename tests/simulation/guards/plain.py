"""Guards of plain messages. Late cancels stop nothing newer, and a topic gets no message of its predecessor."""

from __future__ import annotations

from typing import Any

from tests.simulation.guard import Guard, in_storage
from tests.simulation.guards import plain_worlds as worlds
from tests.simulation.removal import always, instead, never
from tidewheel.flows.delivery import adopt as adopting
from tidewheel.flows.delivery import cancel as cancelling
from tidewheel.storage import table_keys


def _as_if_done(put_cancelled: Any, *given: Any) -> object:
    return put_cancelled(*given) or True


def _elsewhere(encode_note: Any, key: table_keys.Key, *given: Any) -> Any:
    return encode_note(table_keys.note_key("elsewhere", key[1]), *given)


GUARDS = (
    Guard(
        "a plain cancel stops no newer message",
        cancelling.cancel_as_sent,
        always("version", before="_put_cancelled"),
        worlds.LATE,
    ),
    Guard(
        "a plain cancel does not overlook a message that is settled meanwhile",
        cancelling.cancel_as_sent,
        instead("_put_cancelled", _as_if_done),
        worlds.QUEUED,
    ),
    Guard(
        "an older message does not come after a late plain cancel",
        cancelling.cancel_as_sent,
        instead("keys.move", lambda *_: True),
        worlds.LATE_AND_OLDER,
    ),
    Guard(
        "a plain message that was sent before its topic was deleted does not reach the next topic",
        adopting._sent_to_deleted,
        never("deleted_ms"),
        worlds.TOPIC_AGAIN,
    ),
    Guard(
        "a deletion leaves its time",
        in_storage("deletions.forget"),
        instead("encode_note", _elsewhere),
        worlds.TOPIC_AGAIN,
    ),
    Guard("a plain message that comes again is not forwarded", adopting._may_wait, never("retried"), worlds.FORWARDED),
)
