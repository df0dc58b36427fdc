"""A DataFrame's rows are sent as messages, each once, whatever is done twice or dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from examples import send_data_frame
from tidewheel.errors import InvalidValue
from tidewheel.local import LocalTidewheel
from tidewheel.spark import ledger_sink
from tidewheel.spark.ledger_sink import LedgerStreamSink

ROWS = 400


@pytest.fixture
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        yield stack


def messages(spark: SparkSession, stack: LocalTidewheel, rows: int = ROWS) -> DataFrame:
    """Rows in four partitions, due in two hours and more, a millisecond apart."""
    start = f.lit(stack.now() + timedelta(hours=2))
    return spark.range(0, rows, 1, 4).select(
        (start + f.make_dt_interval(secs=f.col("id") / 1000)).alias("deliver_at"),
        f.concat(f.lit("order "), f.col("id")).alias("body"),
        f.concat(f.lit("key-"), f.col("id")).alias("key"),
        f.concat(f.lit("tenant-"), f.col("id") % 7).alias("group"),
        f.create_map(f.lit("n"), f.col("id").cast("string")).alias("attributes"),
    )


def send(frame: DataFrame, to: LocalTidewheel, /, token: str = "july", **options: str) -> None:
    send_data_frame.send(frame, token, **given(to, **options))


def given(to: LocalTidewheel, **options: str) -> dict[str, str]:
    where = {"stack": to.stack_name, "region": "us-east-1", "endpoint_url": to.endpoint_url}
    return {"topic": "orders"} | where | options


def received(stack: LocalTidewheel) -> Counter[str]:
    stack.advance(hours=3)
    return Counter(str(message.body) for message in stack.receive("orders", "billing"))


def objects(stack: LocalTidewheel, prefix: str = "imports/") -> list[str]:
    found = stack.session.client("s3", endpoint_url=stack.endpoint_url).list_objects_v2(
        Bucket=stack.client().core.connection.settings.s3_bucket, Prefix=prefix
    )
    return [each["Key"] for each in found.get("Contents", ())]


def left(stack: LocalTidewheel) -> list[str]:
    """What a write keeps until it is finished, and ledgers of which nothing was sent."""
    return [name for name in objects(stack) if name.count("/") > 2] + objects(stack, "ledgers/")


def test_each_row_comes_once_though_it_is_written_twice(spark: SparkSession, stack: LocalTidewheel) -> None:
    frame = messages(spark, stack)
    send(frame, stack)
    ledgers = objects(stack, "ledgers/")
    send(frame.orderBy(f.rand()), stack)
    assert left(stack) == ledgers
    stack.advance(hours=3)
    found = list(stack.receive("orders", "billing"))
    assert Counter(str(each.body) for each in found) == Counter(f"order {i}" for i in range(ROWS))
    one = next(each for each in found if each.body == "order 9")
    assert (one.key, one.group, one.attributes) == ("key-9", "tenant-2", {"n": "9"})


def test_other_rows_under_the_same_token_are_refused(spark: SparkSession, stack: LocalTidewheel) -> None:
    send(messages(spark, stack), stack)
    with pytest.raises(Exception, match=r"in this import number of rows was '400' and is '300'"):
        send(messages(spark, stack, 300), stack)
    assert received(stack).total() == ROWS


def test_rows_that_cannot_be_sent_stop_the_write_or_go_to_a_folder(
    spark: SparkSession, stack: LocalTidewheel, tmp_path: Any
) -> None:
    frame = messages(spark, stack, 100)
    wrong = frame.withColumn("body", f.when(f.col("key") == "key-7", None).otherwise(f.col("body")))
    with pytest.raises(Exception, match=r"1 rows cannot be sent \(1: body is missing\), and nothing was sent"):
        send(wrong, stack)
    assert left(stack) == []
    send(wrong, stack, rejects=str(tmp_path))
    assert received(stack).total() == 99
    [rejects] = tmp_path.glob("*.json")
    assert '"reason": "body is missing"' in rejects.read_text()


def test_what_is_wrong_is_named_before_a_row_is_read(spark: SparkSession, stack: LocalTidewheel) -> None:
    good = messages(spark, stack, 10)
    cases: list[tuple[DataFrame, dict[str, str], str]] = [
        (good.drop("body"), {}, r"no column 'body' \(--body\); there are: deliver_at, key"),
        (good.withColumn("deliver_at", f.lit(True)), {}, "column 'deliver_at'"),
        (good, {"topic": "none"}, "none"),
        (good, {"token": "a b"}, "use 1 to 64 letters"),
        (good, {"stack": "other"}, "other"),
        (good, {"min_lead": "soon"}, "min_lead"),
        (good, {"deliverAt": "due"}, "deliverat='due': there is no such option"),
        (good, {"rejects": "/proc/no/folder"}, "rejects='/proc/no/folder'"),
    ]
    for frame, options, said in cases:
        with pytest.raises(Exception, match=said):
            send(frame, stack, **options)
    assert left(stack) == []
    assert received(stack).total() == 0


def test_a_stream_is_sent_batch_by_batch_also_if_it_died_before_its_checkpoint_and_not_anew(
    spark: SparkSession, stack: LocalTidewheel, tmp_path: Path
) -> None:
    frame = messages(spark, stack, 100).coalesce(2)
    frame = frame.withColumn("body", f.when(f.col("key") == "key-7", None).otherwise(f.col("body")))
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    options, checkpoint = given(stack, rejects=str(tmp_path / "rejects")), tmp_path / "checkpoint"
    send_data_frame.send_stream(stream, "july", str(checkpoint), **options)
    batches = sorted(path for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    assert len(batches) > 1
    batches[-1].unlink()  # as if Spark had died before it wrote this
    for path in (checkpoint / "commits").glob(f".{batches[-1].name}*"):
        path.unlink()
    send_data_frame.send_stream(stream, "july", str(checkpoint), **options)
    other = stream.withColumn("body", f.lit("other"))
    with pytest.raises(Exception, match="in this import content of the rows was"):
        send_data_frame.send_stream(other, "july", str(tmp_path / "again"), **options)
    [rejects] = (tmp_path / "rejects").glob("*.json")
    assert rejects.read_text().count("body is missing") == 1
    assert received(stack) == Counter(f"order {i}" for i in range(100) if i != 7)


def test_what_a_stream_needs_is_named(spark: SparkSession, stack: LocalTidewheel, tmp_path: Path) -> None:
    schema = messages(spark, stack, 1).select("deliver_at", "body").schema
    for missing in ("name", "rejects"):
        options = given(stack, name="july", rejects=str(tmp_path)) | {"checkpointlocation": str(tmp_path)}
        del options[missing]
        with pytest.raises(InvalidValue, match=f"{missing}=None: a stream needs it"):
            LedgerStreamSink(options, schema)


def test_old_batches_of_a_stream_are_forgotten(
    spark: SparkSession, stack: LocalTidewheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_sink, "_KEPT_BATCHES", 3)
    options = {**given(stack, name="july", rejects=str(tmp_path))}
    sink = LedgerStreamSink(options, messages(spark, stack, 1).select("deliver_at", "body").schema)
    rows = pa.table({"deliver_at": [stack.now() + timedelta(hours=2)], "body": ["x"]})
    rows = rows.set_column(0, "deliver_at", rows.column(0).cast(pa.timestamp("us", "UTC")))
    for batch in range(4):
        sink.commit([sink.write(iter(rows.to_batches()))] if batch != 1 else [], batch)
    names = [name.rpartition("/")[2].partition(".")[0] for name in objects(stack)]
    assert sorted(names) == ["_july-2", "_july-3"]
