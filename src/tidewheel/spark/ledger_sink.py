"""Sends a DataFrame's rows as messages, as Spark's data sink `tidewheel.ledger`.

    frame.write.format("tidewheel.ledger").options(topic="orders", token="july").mode("append").save()

| option | means |
|---|---|
| `topic` | the topic's name |
| `token` | the name of this write, for exactly once |
| `stack` | the stack's name, by default `tidewheel` |
| `region`, `endpoint_url`, `profile` | as for reading |
| `deliver_at`, `body`, `key`, `group`, `attributes`, `expires_at` | columns, as of an import |
| `time_zone`, `min_lead`, `rejects` | as of an import |

`tidewheel.jobs.importing.frames` tells what is true if it stops.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import boto3
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidewheel.clock import SystemClock
from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.frames import FrameImport
from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.staging import Staged
from tidewheel.jobs.job import Job, make_job
from tidewheel.jobs.location import local_access
from tidewheel.spark.ledger_source import check_options

_OPTIONS = frozenset(
    {"topic", "token", "stack", "region", "endpoint_url", "profile", "time_zone", "min_lead", "rejects"}
    | {field.name for field in fields(Columns)}
)


@dataclass
class Done(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged


class LedgerSink(DataSourceArrowWriter):
    """Writes rows as ledgers in the tasks, and commits the ledgers in the driver.

    Args:
        options: as given to Spark, under names in lower case.
        schema: of the rows.

    Raises:
        InvalidValue: an option or a column is missing or wrong.
        UnknownTopic: there is no such topic.
        NotConfigured: there is no such stack.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_options(options, _OPTIONS)
        self._options = dict(options)
        try:
            self._import = FrameImport.of(self._job(), to_arrow_schema(schema))
        except InvalidValue as error:
            name = error.field.removeprefix("--").replace("-", "_")
            raise InvalidValue(name, error.value, error.advice) from None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Done:
        """Writes the rows of a task as ledgers."""
        return Done(self._import.stage(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Makes all ledgers live.

        Raises:
            InvalidValue: other rows have the token, or rows cannot be sent and there is no folder for them.
        """
        self._import.commit(self._job(), _staged(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Deletes what the tasks wrote, unless the first ledger may be live."""
        self._import.give_up(_staged(messages))

    def _job(self) -> Job:
        options = self._options
        endpoint_url, region = options.get("endpoint_url"), options.get("region")
        access = local_access(endpoint_url)
        session = boto3.Session(
            region_name=region,
            profile_name=options.get("profile"),
            aws_access_key_id=access,
            aws_secret_access_key=access,
        )
        arguments = {name.replace("_", "-"): value for name, value in options.items()}
        job = make_job(arguments, session=session, clock=SystemClock(), endpoint_url=endpoint_url)
        return replace(job, cores=os.cpu_count() or 1, say=lambda line: print(line, file=sys.stderr))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [each.staged for each in messages if isinstance(each, Done)]
