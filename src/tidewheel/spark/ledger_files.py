"""Gives a topic's ledgers to Spark's own Parquet reader."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tidewheel.jobs.location import S3
from tidewheel.spark.ledger_source import SPARK_SCHEMA, LedgerReader

_GLOB = re.compile(r"[\[\]{}*?\\]")
"""Spark takes each path as a glob."""


def ledger_files(spark: SparkSession, scheme: str = "s3", **options: str) -> DataFrame:
    """Returns the rows that the source would read, by Spark's own Parquet reader.

    A merge may replace a ledger before the query reads it, which then fails: make the DataFrame again.

    Args:
        spark: the session.
        scheme: what Spark calls S3, such as s3a outside of AWS's own Spark.
        options: as for the source.
    """
    reader = LedgerReader(options, SPARK_SCHEMA)
    ledgers, times = reader.live()
    root = reader.location.root.replace(S3, f"{scheme}://")
    wanted = [each for each in ledgers if any(map(times.meets, each.segments))]
    names = [_GLOB.sub(r"\\\g<0>", f"{root}/{each.object_name}") for each in wanted]
    if not names:
        return spark.createDataFrame([], SPARK_SCHEMA)
    due = col("deliver_at_ms")
    return spark.read.schema(SPARK_SCHEMA).parquet(*names).where(due.between(times.first_ms, times.end_ms - 1))
