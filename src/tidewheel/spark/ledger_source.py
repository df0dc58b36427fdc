"""Reads a topic's ledgers as rows, as Spark's data source `tidewheel.ledger`.

    spark.read.format("tidewheel.ledger").options(root="s3://...", topic="orders", table="...").load()

| option | means |
|---|---|
| `root` | `s3://` and the S3 bucket's name, or a folder |
| `topic` | the topic's name |
| `table` | DynamoDB table of the metadata; without it, all stored ledgers are read, also merged and planned ones |
| `all` | `true`: rows of slots that are planned already are returned too |
| `from_ms`, `to_ms` | delivery times from_ms <= t < to_ms only |
| `region`, `endpoint_url` | where S3 and DynamoDB answer |
| `profile` | profile in AWS's configuration files, for credentials |
| `partition_bytes` | encoded bytes that one task reads, 32 MiB by default |

A schema given to Spark selects columns. Other columns are not decoded. Comparisons of `deliver_at_ms` select segments
and rows before any row reaches Spark. Every segment's checksum is verified.

`tidewheel.spark.ledger_files` gives the same rows by Spark's own reader, which reads only the columns of a query, and
verifies nothing. `tidewheel.spark.ledger_sink` writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import BinaryType, ByteType, DataType, LongType, MapType, StringType, StructField, StructType

from tidewheel.errors import InvalidValue
from tidewheel.jobs.location import S3, Location, client
from tidewheel.ledger.joined import StoredSegment, decode_together
from tidewheel.ledger.rows import SCHEMA
from tidewheel.ledger.schema import COLUMNS, ColumnType
from tidewheel.model.groups import grouped
from tidewheel.model.plan import Segment
from tidewheel.spark.live_ledgers import Stretch, in_listing, snapshot
from tidewheel.spark.time_range import TimeRange
from tidewheel.storage.objects import Objects
from tidewheel.storage.read_ahead import read_ahead
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

_SPARK_TYPES: dict[ColumnType, DataType] = {
    ColumnType.INT64: LongType(),
    ColumnType.INT8: ByteType(),
    ColumnType.ID: BinaryType(),
    ColumnType.TEXT: StringType(),
    ColumnType.TEXTS: MapType(StringType(), StringType()),
    ColumnType.BYTES: BinaryType(),
}
SPARK_SCHEMA = StructType([StructField(each.name, _SPARK_TYPES[each.type], each.nullable) for each in COLUMNS])
"""A ledger's columns in Spark's types."""

_OPTIONS = (
    *("root", "topic", "table", "all", "from_ms", "to_ms"),
    *("region", "endpoint_url", "profile", "partition_bytes"),
)
_PARTITION_BYTES = 32 * 1024 * 1024
# Few large requests cost less than many small requests. A task need not hold more than this at once.
_READ_BYTES = 8 * 1024 * 1024
# Rows of one batch sent to Java. With fewer rows, most of the time goes into the transfer.
_BATCH_BYTES = 8 * 1024 * 1024


class Stretches(InputPartition):
    """Holds the segments and the time range that a task reads."""

    def __init__(self, stretches: Sequence[Stretch], times: TimeRange) -> None:
        self.stretches = tuple(stretches)
        self.times = times


class LedgerSource(DataSource):
    """Defines the data source. The module's docstring lists the options."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `spark.read.format`."""
        return "tidewheel.ledger"

    def schema(self) -> StructType:
        """Returns all columns of a ledger."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> LedgerReader:
        """Returns a reader of these columns."""
        return LedgerReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer of rows with these columns.

        Raises:
            InvalidValue: the mode is `overwrite`, which would be a purge.
        """
        # Readers need neither boto3 nor the modules of imports.
        from tidewheel.spark.ledger_sink import LedgerSink

        if overwrite:
            raise InvalidValue("mode", "overwrite", "messages are only added: give append")
        return LedgerSink(self.options, schema)


class LedgerReader(DataSourceReader):
    """Plans the partitions in the driver, and reads the partitions in the tasks.

    Args:
        options: as given to Spark, under names in lower case.
        schema: the columns wanted.

    Raises:
        InvalidValue: an option is missing or wrong, or a column is not a ledger's.
    """

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        check_options(options, _OPTIONS)
        self.location = Location.of({**options, "root": _root(options)})
        self._topic = _required(options, "topic")
        self._table = options.get("table")
        self._planned_too = options.get("all", "false").lower() == "true"
        self._partition_bytes = _number(options, "partition_bytes", _PARTITION_BYTES, least=1)
        unlimited = TimeRange()
        self._times = TimeRange(
            first_ms=_number(options, "from_ms", unlimited.first_ms), end_ms=_number(options, "to_ms", unlimited.end_ms)
        )
        self._columns = _columns_of(schema)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrows the time range to the filters. Returns the filters left for Spark."""
        self._times, others = self._times.narrowed(filters)
        return others

    def partitions(self) -> list[InputPartition]:
        """Returns one partition per task. Omits ledgers and segments without rows in the range."""
        # Spark has already sent this reader to the tasks. The tasks learn the results of this method from the
        # partitions only.
        ledgers, times = self.live()
        wanted = [each for ledger in ledgers for each in _stretches(ledger, times, self._partition_bytes)]
        # Spark replaces an empty list with one partition of None.
        groups = grouped(wanted, _length, self._partition_bytes)
        return [Stretches(group, times) for group in groups] or [Stretches((), times)]

    def live(self) -> tuple[list[Stretch], TimeRange]:
        """Returns the ledgers to read, and the range of times."""
        if self._table is None:
            return in_listing(self.location, self._topic), self._times
        table = Table(client(self.location, "dynamodb"), self._table)
        ledgers, planned_ms = snapshot(Storage(table, self.location.objects()), self._topic)
        return ledgers, self._times if self._planned_too else self._times.within(TimeRange(first_ms=planned_ms))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a partition, in order of time within each ledger.

        Raises:
            CorruptLedger: a segment differs from its metadata.
            ObjectMissing: a ledger was merged or collected after the partitions were made.
        """
        if not isinstance(partition, Stretches):
            raise TypeError(f"not a partition of this source: {partition!r}")
        pieces = [
            Stretch(object_name=each.object_name, segments=tuple(together))
            for each in partition.stretches
            for together in grouped(each.segments, _length, _READ_BYTES)
        ]
        read = partial(_bytes_of, self.location.objects())
        with closing(read_ahead(read, pieces, size=_length)) as found:
            tables = (self._rows(piece, data, partition.times) for piece, data in zip(pieces, found, strict=True))
            schema = _arrow_schema(self._columns)
            for together in grouped(tables, lambda table: table.nbytes, _BATCH_BYTES):
                yield from pa.concat_tables(together).cast(schema).combine_chunks().to_batches()

    def _rows(self, piece: Stretch, data: memoryview, times: TimeRange) -> pa.Table:
        start = piece.segments[0].offset
        stored = [
            StoredSegment(piece.object_name, each, data[each.offset - start : each.last_byte + 1 - start])
            for each in piece.segments
        ]
        whole = all(map(times.holds, piece.segments))
        columns = self._columns if whole else tuple({"deliver_at_ms": None, **dict.fromkeys(self._columns)})
        table = decode_together(stored, columns)
        return table if whole else times.rows_of(table).select(list(self._columns))


def _length(stored: Stretch | Segment) -> int:
    return stored.length


def _stretches(ledger: Stretch, times: TimeRange, most_bytes: int) -> Iterator[Stretch]:
    # Segments are in order of time, so the segments in a range are consecutive.
    wanted = [segment for segment in ledger.segments if times.meets(segment)]
    for group in grouped(wanted, _length, most_bytes):
        yield Stretch(object_name=ledger.object_name, segments=tuple(group))


def _bytes_of(objects: Objects, piece: Stretch) -> memoryview:
    return memoryview(objects.get_range(piece.object_name, piece.segments[0].offset, piece.length))


def _arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Returns a schema for Spark's Java side, with ids of variable length."""
    fields = [SCHEMA.field(name) for name in columns]
    return pa.schema([f.with_type(pa.binary()) if f.type == pa.binary(16) else f for f in fields])


def _columns_of(schema: StructType) -> tuple[str, ...]:
    types = {field.name: field.dataType for field in SPARK_SCHEMA.fields}
    for field in schema.fields:
        if types.get(field.name) != field.dataType:
            wanted = types.get(field.name)
            advice = f"it is a {wanted.simpleString()}" if wanted else f"a ledger has {', '.join(types)}"
            raise InvalidValue("schema", f"{field.name} {field.dataType.simpleString()}", advice)
    return tuple(schema.fieldNames())


def check_options(options: Mapping[str, str], names: Collection[str]) -> None:
    """Refuses options of other names, since a name in another spelling would do nothing.

    Raises:
        InvalidValue: an option has none of the names.
    """
    for name, value in options.items():
        if name not in names:
            raise InvalidValue(name, value, f"there is no such option; give some of {', '.join(sorted(names))}")


def _required(options: dict[str, str], name: str) -> str:
    value = options.get(name)
    if not value:
        raise InvalidValue(name, value, f"give it to the source with .option({name!r}, ...)")
    return value


def _root(options: dict[str, str]) -> str:
    """Returns the place of the ledgers, without the spellings of Hadoop.

    Raises:
        InvalidValue: it is neither an S3 bucket nor a folder.
    """
    given = _required(options, "root")
    root = given.replace("s3a://", S3).rstrip("/")
    named = root.removeprefix(S3)
    if not (named and "/" not in named if root.startswith(S3) else Path(root).is_dir()):
        raise InvalidValue("root", given, "give s3:// and the S3 bucket's name, or a folder")
    return root


def _number(options: dict[str, str], name: str, default: int, least: int | None = None) -> int:
    value = options.get(name)
    with suppress(ValueError):
        found = default if value is None else int(value)
        if least is None or found >= least:
            return found
    raise InvalidValue(name, value, "give a whole number" + (f" of at least {least}" if least is not None else ""))
