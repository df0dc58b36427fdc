"""Query the waiting messages of a topic with DuckDB, pandas and Spark."""

# region lines
from typing import Any

import duckdb
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from tidewheel.spark.ledger_files import ledger_files
from tidewheel.spark.session import register


def with_duckdb(ledgers: str) -> duckdb.DuckDBPyRelation:
    """Takes a folder such as s3://my-bucket/ledgers/orders. S3 needs the extension httpfs."""
    return duckdb.sql(
        f"SELECT DISTINCT ON (message_id) * FROM read_parquet('{ledgers}/*/*.parquet', union_by_name=true) "
        "WHERE deliver_at_ms >= epoch_ms(now())"
    )


def with_pandas(ledgers: str) -> pd.DataFrame:
    """Takes the same folder."""
    now_ms = pd.Timestamp.now("UTC").timestamp() * 1000
    return pd.read_parquet(ledgers, filters=[("deliver_at_ms", ">=", now_ms)]).drop_duplicates("message_id")


def with_spark(spark: SparkSession, **options: Any) -> DataFrame:
    """Takes root="s3://my-bucket", table="tidewheel", topic="orders"."""
    register(spark)
    return spark.read.format("tidewheel.ledger").options(**options).load()


def with_sparks_own_reader(spark: SparkSession, **options: Any) -> DataFrame:
    """Takes the same."""
    return ledger_files(spark, **options)


# endregion
