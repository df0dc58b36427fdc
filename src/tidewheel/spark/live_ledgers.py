"""Finds the current ledgers of a topic, from its metadata or a listing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidewheel.errors import ConcurrentModification
from tidewheel.flows.delivery.load_index import complete
from tidewheel.jobs.location import Location
from tidewheel.ledger.reader import segments_of
from tidewheel.model.object_names import LEDGERS, is_ledger, topic_prefix
from tidewheel.model.plan import Segment
from tidewheel.storage.objects import Objects, StoredObject
from tidewheel.storage.read_ahead import read_ahead
from tidewheel.storage.storage import Storage

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Holds consecutive segments of a ledger, such as all of them."""

    object_name: str
    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        """Encoded bytes."""
        return self.segments[-1].last_byte + 1 - self.segments[0].offset


def snapshot(storage: Storage, topic: str) -> tuple[list[Stretch], int]:
    """Returns a topic's ledgers that are live at the same moment, and the start of the first slot not planned.

    Returns:
        The ledgers, and the start of the slot `planned` in milliseconds. Messages due earlier are delivered, or will
        be.

    Raises:
        UnknownTopic: the table has no such topic.
        ConcurrentModification: merges replaced the ledgers on every attempt to read them.
    """
    state = storage.topic_states.existing(topic)
    for _ in range(_ATTEMPTS):
        buckets = storage.buckets.all(topic)
        before, state = state, storage.topic_states.existing(topic)
        if (state.generation, state.swap_version) == (before.generation, before.swap_version):
            whole = read_ahead(partial(complete, storage.objects), buckets)
            ledgers = [Stretch(object_name=each.object_name, segments=tuple(each.segments)) for each in whole]
            return ledgers, before.planned * before.slot_ms
    raise ConcurrentModification("reading the ledgers", topic, _ATTEMPTS)


def in_listing(location: Location, topic: str) -> list[Stretch]:
    """Returns the ledgers stored under a topic's prefix. Reads the footer of each ledger.

    Raises:
        CorruptLedger: an object is not a ledger.
    """
    objects = location.objects()
    found = [each for each in objects.list(topic_prefix(LEDGERS, topic)) if is_ledger(each.name)]
    return list(read_ahead(partial(_opened, objects), found))


def _opened(objects: Objects, found: StoredObject) -> Stretch:
    read = partial(objects.get_range, found.name)
    return Stretch(object_name=found.name, segments=segments_of(read, found.size_bytes, found.name))
