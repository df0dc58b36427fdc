"""Finds the current ledgers of a topic, from its metadata or a listing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.delivery.load_index import complete
from tidewheel.jobs.location import Location, client
from tidewheel.ledger.reader import segments_of
from tidewheel.model.object_names import LEDGERS, is_ledger, topic_prefix
from tidewheel.model.segment import Segment
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import read_ahead
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLedger:
    """Describes a ledger of a topic."""

    object_name: str
    segments: tuple[Segment, ...]


def in_table(location: Location, table: str, topic: str) -> tuple[list[LiveLedger], int]:
    """Returns a topic's ledgers from a DynamoDB table, and the start of the first slot not planned.

    Returns:
        The ledgers, and the start of the slot `planned` in milliseconds. Messages due earlier are delivered, or will
        be.

    Raises:
        UnknownTopic: the table has no such topic.
        ConcurrentModification: merges replaced the ledgers on every attempt to read them.
    """
    # Every Python worker loads the data source, but only this function needs DynamoDB.
    from tidewheel.storage.storage import Storage

    objects = location.objects()
    return snapshot(Storage(Table(client(location, "dynamodb"), table), objects), topic)


def snapshot(storage: Storage, topic: str) -> tuple[list[LiveLedger], int]:
    """Returns the same as `in_table`, from the ports, with ledgers live at the same moment."""
    state = storage.topic_states.read(topic)
    for _ in range(_ATTEMPTS):
        if state is None:
            raise UnknownTopic(topic)
        buckets = storage.buckets.all(topic)
        before, state = state, storage.topic_states.read(topic)
        if state is not None and (state.generation, state.swap_version) == (before.generation, before.swap_version):
            whole = read_ahead(partial(complete, storage.objects), buckets)
            ledgers = [LiveLedger(object_name=each.object_name, segments=tuple(each.segments)) for each in whole]
            return ledgers, before.planned * before.slot_ms
    raise ConcurrentModification("reading the ledgers", topic, _ATTEMPTS)


def in_listing(location: Location, topic: str) -> list[LiveLedger]:
    """Returns the ledgers stored under a topic's prefix. Reads the footer of each ledger.

    Raises:
        CorruptLedger: an object is not a ledger.
    """
    objects = location.objects()
    found = [each for each in objects.list(topic_prefix(LEDGERS, topic)) if is_ledger(each.name)]
    return list(read_ahead(partial(_opened, objects), found))


def _opened(objects: Objects, found: StoredObject) -> LiveLedger:
    def read(offset: int, length: int) -> bytes:
        return objects.get_range(found.name, offset, length)

    return LiveLedger(object_name=found.name, segments=segments_of(read, found.size_bytes, found.name))
