"""Sends a DataFrame's rows as messages, as Spark's data sink `tidewheel.ledger`.

    frame.write.format("tidewheel.ledger").options(topic="orders", token="july").mode("append").save()
    stream.writeStream.format("tidewheel.ledger").options(topic="orders", name="invoices", rejects=folder).start()

| option | means |
|---|---|
| `topic` | the topic's name |
| `token` | of a DataFrame: the name of this write, for exactly once |
| `name` | of a stream: its own name. With the number of a batch, it is the batch's token |
| `stack` | the stack's name, by default `tidewheel` |
| `region`, `endpoint_url`, `profile` | where AWS answers, and as whom |
| `deliver_at`, `body`, `key`, `group`, `attributes`, `expires_at` | columns, as of an import |
| `time_zone`, `min_lead`, `rejects` | as of an import; a stream needs `rejects`, or one bad row stops each start |

`tidewheel.jobs.importing.driver` tells what is true if it stops. Spark gives the last batch of a stream again if it
stopped before its checkpoint was written. The batch's record then says that its rows are sent.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import boto3
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidewheel.clock import SystemClock
from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.frames import FrameImport
from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.staging import Staged
from tidewheel.jobs.job import Job, make_job
from tidewheel.jobs.location import local_access

_COMMON = frozenset(
    {"topic", "stack", "region", "endpoint_url", "profile", "time_zone", "min_lead", "rejects"}
    | {field.name for field in fields(Columns)}
)
_KEPT_BATCHES = 100
"""Spark keeps the offsets of so many batches, and repeats no earlier one."""


class LedgerSource(DataSource):
    """Defines the data source, which only writes.

    Spark's own Parquet reader reads ledgers, and only the columns of a query, which a source in Python cannot.
    """

    @classmethod
    def name(cls) -> str:
        """Returns the name for `frame.write.format`."""
        return "tidewheel.ledger"

    def schema(self) -> StructType:
        """Refuses to read.

        Raises:
            InvalidValue: always. Spark asks for the schema before it reads.
        """
        raise InvalidValue("format", self.name(), "it only writes: read a topic's live view, as docs/query.md shows")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer of rows with these columns.

        Raises:
            InvalidValue: the mode is `overwrite`, which would be a purge.
        """
        if overwrite:
            raise InvalidValue("mode", "overwrite", "messages are only added: give append")
        return LedgerSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Returns a writer of a stream's batches.

        Raises:
            InvalidValue: the output mode is `complete`, which would send rows again.
        """
        if overwrite:
            raise InvalidValue("outputMode", "complete", "messages are only added: give append")
        return LedgerStreamSink(self.options, schema)


@dataclass
class Done(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged


class _Sink:
    """What the sinks have in common."""

    def __init__(self, options: Mapping[str, str], schema: StructType, names: Collection[str], **more: str) -> None:
        for name, value in options.items():
            if name not in _COMMON and name not in names:  # a name in another spelling would do nothing
                known = ", ".join(sorted({*_COMMON, *names}))
                raise InvalidValue(name, value, f"there is no such option; give some of {known}")
        self._options = {**options, **more}
        try:
            self._import = FrameImport.of(_job(self._options), to_arrow_schema(schema))
        except InvalidValue as error:
            name = error.field.removeprefix("--").replace("-", "_")
            raise InvalidValue(name, error.value, error.advice) from None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Done:
        """Writes the rows of a task as ledgers."""
        return Done(self._import.stage(iterator))


class LedgerSink(_Sink, DataSourceArrowWriter):
    """Writes the rows of a DataFrame as ledgers in the tasks, and commits the ledgers in the driver.

    Args:
        options: as given to Spark, under names in lower case.
        schema: of the rows.

    Raises:
        InvalidValue: an option or a column is missing or wrong.
        UnknownTopic: there is no such topic.
        NotConfigured: there is no such stack.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema, {"token"})

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Makes all ledgers live.

        Raises:
            InvalidValue: other rows have the token, or rows cannot be sent and there is no folder for them.
        """
        self._import.commit(_job(self._options), _staged(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Deletes the ledgers of the tasks, unless the first ledger may be live."""
        self._import.give_up(_staged(messages))


class LedgerStreamSink(_Sink, DataSourceStreamArrowWriter):
    """Does the same for each batch of a stream. Spark makes a writer for each batch, and another for its commit.

    Raises:
        InvalidValue: an option or a column is missing or wrong.
        UnknownTopic: there is no such topic.
        NotConfigured: there is no such stack.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        for name, advice in (("name", "the stream's own"), ("rejects", "a folder for rows that cannot be sent")):
            if not options.get(name):
                raise InvalidValue(name, options.get(name), f"a stream needs it: {advice}")
        super().__init__(options, schema, {"name", "checkpointlocation"}, token=options["name"])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes all ledgers of a batch live, and forgets a batch of long ago.

        Raises:
            InvalidValue: other rows have the token, as those of a stream that began anew under its old name.
        """
        self._of(batchId).commit(_job(self._options), _staged(messages))
        self._of(batchId - _KEPT_BATCHES).forget()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Deletes what the tasks wrote, unless the first ledger may be live."""
        self._of(batchId).give_up(_staged(messages))

    def _of(self, batch: int) -> FrameImport:
        return self._import.with_token(f"{self._options['name']}-{batch}")


def _job(options: Mapping[str, str]) -> Job:
    endpoint_url, region = options.get("endpoint_url"), options.get("region")
    access = local_access(endpoint_url)
    session = boto3.Session(
        region_name=region, profile_name=options.get("profile"), aws_access_key_id=access, aws_secret_access_key=access
    )
    arguments = {name.replace("_", "-"): value for name, value in options.items()}
    job = make_job(arguments, session=session, clock=SystemClock(), endpoint_url=endpoint_url)
    return replace(job, say=lambda line: print(line, file=sys.stderr))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [each.staged for each in messages if isinstance(each, Done)]
