"""The ledgers that a topic has now: as its metadata says, or as a listing shows them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tidewheel.aws import s3_layout
from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.delivery.load_index import complete
from tidewheel.flows.ports import Objects, StoredObject, Topics
from tidewheel.ledger.reader import segments_of
from tidewheel.model.segment import Segment
from tidewheel.spark.location import Location, client

_ATTEMPTS = 5
_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLedger:
    """One ledger of a topic."""

    object_name: str
    segments: tuple[Segment, ...]


def in_table(location: Location, table: str, topic: str) -> tuple[list[LiveLedger], int]:
    """Returns the ledgers that the metadata in a DynamoDB table names, and when the first open slot starts.

    Returns:
        The ledgers, and the start of the slot `planned` in milliseconds: what is due before is delivered, or will be.

    Raises:
        UnknownTopic: the table has no such topic.
        Contended: merges replaced the ledgers again and again while they were read.
    """
    # Each of Python's workers loads the data source, and only this one asks DynamoDB.
    from tidewheel.aws.dynamodb_topics import DynamoTopics

    objects = location.objects()
    return snapshot(DynamoTopics(client(location, "dynamodb"), table=table, objects=objects), objects, topic)


def snapshot(topics: Topics, objects: Objects, topic: str) -> tuple[list[LiveLedger], int]:
    """Returns what `in_table` does, from the ports: a set of ledgers that were live at one moment."""
    state = topics.state(topic)
    for _ in range(_ATTEMPTS):
        if state is None:
            raise UnknownTopic(topic)
        buckets = topics.buckets(topic)
        before, state = state, topics.state(topic)
        if state is not None and (state.generation, state.swap_version) == (before.generation, before.swap_version):
            with ThreadPoolExecutor(_THREADS) as threads:
                whole = threads.map(lambda bucket: complete(objects, bucket), buckets)
                ledgers = [LiveLedger(object_name=each.object_name, segments=tuple(each.segments)) for each in whole]
            return ledgers, before.planned * before.slot_ms
    raise ConcurrentModification("reading the ledgers", topic, _ATTEMPTS)


def in_listing(location: Location, topic: str) -> list[LiveLedger]:
    """Returns the ledgers that are stored under the topic's prefix; reads the footer of each.

    Raises:
        CorruptLedger: one of them is no ledger.
    """
    objects = location.objects()
    found = [each for each in objects.list(f"{s3_layout.LEDGERS}{topic}/") if each.name.endswith(".parquet")]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(lambda each: _opened(objects, each), found))


def _opened(objects: Objects, found: StoredObject) -> LiveLedger:
    def read(offset: int, length: int) -> bytes:
        return objects.get_range(found.name, offset, length)

    return LiveLedger(object_name=found.name, segments=segments_of(read, found.size_bytes, found.name))
