"""Query the waiting messages of a topic through its live view, with DuckDB, Polars and Spark."""

# region lines
from datetime import UTC, datetime

import duckdb
import polars as pl
from pyarrow import dataset, fs
from pyspark.sql import DataFrame, SparkSession, functions


def with_duckdb(root: str, topic: str) -> duckdb.DuckDBPyRelation:
    """Takes the S3 bucket, as s3://my-bucket. S3 needs the extension httpfs."""
    types = "{ledger: VARCHAR, cancelled: VARCHAR, first_ms: BIGINT, end_ms: BIGINT, sent_before_ms: BIGINT}"
    duckdb.sql(f"""
        CREATE OR REPLACE TEMP TABLE live AS FROM read_csv('{root}/live/{topic}/view.csv.gz', columns = {types});
        SET VARIABLE ledgers = (SELECT list('{root}/' || ledger) FROM live WHERE ledger IS NOT NULL)
    """)
    return duckdb.sql("""
        SELECT DISTINCT ON (message_id) waiting.* FROM read_parquet(getvariable('ledgers')) waiting
        ANTI JOIN live c ON hex(message_id) = c.cancelled
        ANTI JOIN live r ON deliver_at_ms >= r.first_ms AND deliver_at_ms < r.end_ms AND sent_at_ms < r.sent_before_ms
        WHERE expires_at_ms IS NULL OR expires_at_ms >= epoch_ms(now())
    """)


def with_polars(root: str, topic: str) -> pl.LazyFrame:
    """Takes the same. The ledgers are read by pyarrow, since Polars 2.1 cannot decode their ids."""
    names, numbers = ("ledger", "cancelled"), ("first_ms", "end_ms", "sent_before_ms")
    types = {**dict.fromkeys(names, pl.String), **dict.fromkeys(numbers, pl.Int64)}
    view = pl.read_csv(f"{root}/live/{topic}/view.csv.gz", schema=types)
    files, folder = fs.FileSystem.from_uri(root)
    ledgers = dataset.dataset([f"{folder}/{name}" for name in view["ledger"].drop_nulls()], filesystem=files)
    cancelled = view.lazy().select(message_id=pl.col("cancelled").str.decode("hex")).drop_nulls()
    waiting = pl.scan_pyarrow_dataset(ledgers).join(cancelled, on="message_id", how="anti")
    due, sent, expires = map(pl.col, ("deliver_at_ms", "sent_at_ms", "expires_at_ms"))
    for first, end, before in view.select(numbers).drop_nulls().iter_rows():
        waiting = waiting.filter((due < first) | (due >= end) | (sent >= before))
    now_ms = datetime.now(UTC).timestamp() * 1000
    return waiting.filter(expires.is_null() | (expires >= now_ms)).unique("message_id")


def with_spark(spark: SparkSession, root: str, topic: str) -> DataFrame:
    """Takes the same, outside of AWS with s3a:// in place of s3://."""
    types = "ledger string, cancelled string, first_ms long, end_ms long, sent_before_ms long"
    view = spark.read.csv(f"{root}/live/{topic}/view.csv.gz", schema=types, header=True)
    ledgers = [f"{root}/{row.ledger}" for row in view.where("ledger is not null").collect()]
    planned = "deliver_at_ms >= first_ms and deliver_at_ms < end_ms and sent_at_ms < sent_before_ms"
    return (
        spark.read.parquet(*ledgers)
        .join(view, functions.expr("hex(message_id) = cancelled"), "left_anti")
        .join(view, functions.expr(planned), "left_anti")
        .where("expires_at_ms is null or expires_at_ms >= unix_millis(now())")
        .dropDuplicates(["message_id"])
    )


# endregion
