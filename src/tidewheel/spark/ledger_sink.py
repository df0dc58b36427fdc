"""Writes ledgers as Spark's data source `tidewheel.ledger`, one ledger per task.

No metadata names these ledgers yet.

    rows.write.format("tidewheel.ledger").mode("append").options(...).save()

| option | means |
|---|---|
| `root`, `region`, `endpoint_url`, `profile` | where the S3 bucket, or the folder, is |
| `topic`, `generation`, `settings` | the topic, its settings as JSON |
| `import_id` | part of each bucket's id |
| `cuts` | JSON list: the cut for each value of the column `part` |
| `manifest` | name of the object that lists the ledgers |

Rows have a ledger's columns and `part`. The rows of a task have the same `part` and are sorted by `message_id`. Equal
ids are counted up, to tell identical rows apart. After all tasks the manifest is written. The caller of the write reads
the manifest and commits the buckets. If a task fails permanently, the ledgers of the other tasks are deleted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidewheel.errors import CorruptMetadata
from tidewheel.flows.ports.objects import Objects
from tidewheel.flows.upkeep.merge_rows import store_rows
from tidewheel.jobs.location import Location
from tidewheel.ledger.bucket import Bucket, BucketId, Tail
from tidewheel.ledger.rows import SCHEMA
from tidewheel.ledger.segment_table import decode_segments, encode_segments
from tidewheel.ledger.slots import decode_slots, encode_slots
from tidewheel.ledger.weights import decode_weights, encode_weights
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.settings import TopicSettings
from tidewheel.model.untrusted import json_of, mapping, text, whole

PART = "part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Holds the common properties of an import's ledgers."""

    topic: str
    generation: str
    settings: TopicSettings
    import_id: str

    def bucket_id(self, cut: int) -> str:
        """Returns a hash of the import and the cut, for the id of the cut's bucket."""
        text = f"{self.generation}\n{self.import_id}\n{cut}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def once(self, cut: int) -> str:
        """Returns the mark of a committed cut."""
        return f"{self.import_id}#{cut}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLedger:
    """Pairs a written ledger with its cut."""

    cut: int
    bucket: Bucket


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """Lists the ledger written by a task, or nothing for a task without rows."""

    ledger: CutLedger | None


class LedgerSink(DataSourceArrowWriter):
    """Writes ledgers. The module's docstring lists the options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._location = Location.of(options)
        self._target = Target(
            topic=options["topic"],
            generation=options["generation"],
            settings=TopicSettings.from_json(options["settings"]),
            import_id=options["import_id"],
        )
        self._cuts: list[int] = json.loads(options["cuts"])
        self._manifest = options["manifest"]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes the rows of a task as a ledger."""
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return Written(None)
        cut = self._cuts[first.column(PART)[0].as_py()]
        tables = distinct_rows(chain([first], batches))
        return Written(write_ledger(self._location.objects(), self._target, cut, tables))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Writes the manifest of the ledgers, which are not live yet."""
        ledgers = [each.ledger for each in messages if isinstance(each, Written) and each.ledger is not None]
        self._location.objects().put(self._manifest, encode_manifest(ledgers))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the ledgers of all tasks."""
        ledgers = [each.ledger for each in messages if isinstance(each, Written) and each.ledger is not None]
        self._location.objects().delete([each.bucket.object_name for each in ledgers])


def sink_options(target: Target, location: Location, cuts: Sequence[int], manifest: str) -> dict[str, str]:
    """Returns the options of a write."""
    return {
        **location.options,
        "topic": target.topic,
        "generation": target.generation,
        "settings": target.settings.to_json(),
        "import_id": target.import_id,
        "cuts": json.dumps(list(cuts)),
        "manifest": manifest,
    }


def write_ledger(objects: Objects, target: Target, cut: int, tables: Iterator[pa.Table]) -> CutLedger | None:
    """Writes sorted rows as a ledger with a unique name. Returns None if there are no rows."""
    bucket = store_rows(
        objects,
        tables,
        topic=target.topic,
        generation=target.generation,
        settings=target.settings,
        content=target.bucket_id(cut),
    )
    return None if bucket is None else CutLedger(cut=cut, bucket=bucket)


def distinct_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields batches sorted by id as rows of a ledger. Counts up ids not above the previous id."""
    last = b""
    for batch in batches:
        ids = batch.column("message_id").cast(pa.binary(16))
        if ids[0].as_py() <= last or not _ascending(ids):
            ids = _counted_up(ids.to_pylist(), last)
        last = ids[-1].as_py()
        columns = {field.name: batch.column(field.name) for field in SCHEMA} | {"message_id": ids}
        yield pa.Table.from_pydict(columns).cast(SCHEMA)


def _ascending(ids: pa.FixedSizeBinaryArray) -> bool:
    halves = np.frombuffer(ids.buffers()[1], ">u8", 2 * len(ids), ids.offset * 16).reshape(-1, 2)
    high, low = halves[:, 0], halves[:, 1]
    return bool(np.all((high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))))


def _counted_up(ids: Iterable[bytes], last: bytes) -> pa.FixedSizeBinaryArray:
    number = int.from_bytes(last)
    distinct = []
    for each in ids:
        number = max(int.from_bytes(each), number + 1)
        distinct.append(number.to_bytes(16))
    return pa.array(distinct, pa.binary(16))


def encode_manifest(ledgers: Iterable[CutLedger]) -> bytes:
    """Encodes a manifest as a sealed JSON list of ledgers (`tidewheel.model.checksum`)."""
    return sealed(json.dumps([_encode(each) for each in ledgers]).encode())


def decode_manifest(data: bytes) -> list[CutLedger]:
    """Reads a manifest. Returns its ledgers in the order of their cuts.

    Raises:
        CorruptMetadata: the manifest is damaged.
    """
    try:
        return sorted((_decode(mapping(each)) for each in json_of(opened(data))), key=lambda each: each.cut)
    except (KeyError, TypeError, ValueError, CorruptMetadata) as error:
        raise CorruptMetadata(
            f"the list of written ledgers, bytes 0-{len(data) - 1} of its object, is not readable ({error}): run the "
            "import again; nothing of this run is live"
        ) from None


def _encode(ledger: CutLedger) -> dict[str, Any]:
    bucket = ledger.bucket
    return {
        "cut": ledger.cut,
        "id": bucket.id,
        "object_name": bucket.object_name,
        "size_bytes": bucket.size_bytes,
        "rows": bucket.rows,
        "slots": base64.b64encode(encode_slots(bucket.slots)).decode(),
        "segments": base64.b64encode(encode_segments(bucket.segments)).decode(),
        "tail": None if bucket.tail is None else bucket.tail.tag,
        "weights": base64.b64encode(encode_weights(bucket.weights)).decode(),
        "checked_ms": bucket.checked_ms,
    }


def _decode(values: Mapping[str, Any]) -> CutLedger:
    bucket = Bucket(
        id=BucketId(text(values["id"])),
        object_name=text(values["object_name"]),
        size_bytes=whole(values["size_bytes"]),
        rows=whole(values["rows"]),
        slots=decode_slots(base64.b64decode(values["slots"])),
        segments=decode_segments(base64.b64decode(values["segments"])),
        tail=None if values["tail"] is None else Tail.of_tag(text(values["tail"])),
        weights=decode_weights(base64.b64decode(values["weights"])),
        checked_ms=whole(values["checked_ms"]),
    )
    return CutLedger(cut=whole(values["cut"]), bucket=bucket)
