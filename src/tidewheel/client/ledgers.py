"""Lists the ledgers of a topic, from their metadata."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidewheel.client.connection import Connection
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue
from tidewheel.ledger.bucket import Bucket, BucketId, slot_of
from tidewheel.model.setting import is_whole

MOST_LEDGERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInfo:
    """A ledger of a topic.

    Attributes:
        object: its name in the S3 bucket.
        first_due_at, last_due_at: about when its first and its last message are due: at least the slot is right.
        messages: the number of its messages, delivered ones included.
        size_bytes: the size of the object.
        after: lets `ledgers` go on behind this ledger.
    """

    object: str
    first_due_at: datetime
    last_due_at: datetime
    messages: int
    size_bytes: int
    after: str


def ledgers(connection: Connection, topic: str, count: int, after: str | None) -> list[LedgerInfo]:
    """Lists ledgers in the order of their first slots. See `Tidewheel.ledgers`."""
    if not is_whole(count) or not 1 <= count <= MOST_LEDGERS:
        raise InvalidValue("n", count, f"give a whole number from 1 to {MOST_LEDGERS}")
    try:
        slot_of(BucketId(after or "0"))
    except (TypeError, ValueError):
        raise InvalidValue("after", after, "give the `after` of a ledger") from None
    state = connection.storage.topic_states.existing(topic)
    found = connection.storage.buckets.page(topic, count, None if after is None else BucketId(after))
    return [_info(each, state.slot_ms) for each in found]


def _info(bucket: Bucket, slot_ms: int) -> LedgerInfo:
    first = [each.first_deliver_at_ms for each in bucket.segments]
    last = [each.last_deliver_at_ms for each in bucket.segments]
    return LedgerInfo(
        object=bucket.object_name,
        first_due_at=utc(min(first, default=bucket.first_slot * slot_ms)),
        last_due_at=utc(max(last, default=bucket.last_slot * slot_ms)),
        messages=bucket.rows,
        size_bytes=bucket.size_bytes,
        after=bucket.id,
    )
