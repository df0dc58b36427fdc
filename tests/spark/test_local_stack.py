"""The Glue jobs in the local runtime, started by the sweep or by hand, over the stack's endpoint."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from examples import query_backlog
from tests.docs.recipe import download
from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message, id_bytes
from tidewheel.model.settings import parameter_name
from tidewheel.spark.tasks import OnSpark


def send_batches(stack: LocalTidewheel, batches: int) -> Counter[str]:
    """Sends batches, each for a separate ledger. Returns the bodies."""
    random_ = random.Random(3)
    client = stack.client()
    client.create_topic("orders")
    client.create_subscription("orders", "mail")
    bodies: Counter[str] = Counter()
    for batch in range(batches):
        messages = [
            Message(body=f"{batch}-{i}", delay=timedelta(hours=4, seconds=random_.randrange(200_000))) for i in range(5)
        ]
        client.send_many("orders", messages)
        bodies.update(str(message.body) for message in messages)
        stack.advance(minutes=6)
    return bodies


def received(stack: LocalTidewheel) -> Counter[str]:
    stack.advance(days=4)
    return Counter(message.body for message in stack.receive("orders", "mail"))


def test_the_sweep_has_a_large_merge_run_as_a_glue_job(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.flows.maintenance.consider_merge.SMALL_BYTES", 100)
    with LocalTidewheel(max_buckets=8) as stack:
        bodies = send_batches(stack, 12)
        assert stack.requests["glue.StartJobRun"] >= 1
        assert not stack.failures
        assert stack.client().stats("orders").buckets < 12
        assert received(stack) == bodies


@pytest.mark.parametrize("options", [[], ["--spark"]])
def test_the_command_line_merges_large_work_on_local_spark_only_if_asked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr("tidewheel.jobs.job.SMALL_BYTES", 0)
    run, on_spark = OnSpark.run, list[int]()
    monkeypatch.setattr(OnSpark, "run", lambda of, task, items: on_spark.append(len(items)) or run(of, task, items))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # The command's clock is the machine's: to it an earlier stack's next slot is due, and the merge waits a minute.
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        bodies = send_batches(stack, 4)
        target = Target(stack=stack.stack_name, endpoint_url=stack.endpoint_url)
        done = CliRunner().invoke(app, ["merge", "orders", "--all", *options], obj=target)
        assert done.exit_code == 0, done.output
        assert on_spark == [1] * len(options)
        assert "4 ledgers became 1 in 1 merges, 20 messages rewritten" in done.output
        gone = CliRunner().invoke(app, ["merge", "nothing"], obj=target)
        assert gone.exit_code == 1 and "'nothing' does not exist" in gone.output
        assert received(stack) == bodies


@pytest.mark.parametrize("options", [[], ["--spark"]])
def test_a_rebuild_in_this_process_or_on_local_spark_brings_back_messages_and_keys(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr("tidewheel.jobs.job.SMALL_BYTES", 0)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        bodies = send_batches(stack, 2)
        client, dynamodb = stack.client(), stack.session.client("dynamodb")
        for key in ("kept", "cancelled"):
            client.send("orders", key, delay="1d", key=key)
        stack.advance(minutes=10)
        table = client.core.connection.settings.table
        for item in dynamodb.scan(TableName=table)["Items"]:
            dynamodb.delete_item(TableName=table, Key={name: item[name] for name in ("pk", "sk")})
        target = Target(stack=stack.stack_name, endpoint_url=stack.endpoint_url)
        done = CliRunner().invoke(app, ["rebuild", "orders", *options], obj=target)
        assert done.exit_code == 0, done.output
        assert ("on Spark's workers" in done.output) == bool(options) and "2 keys" in done.output
        assert client.cancel("orders", key="cancelled")
        assert received(stack) == bodies + Counter(["kept"])


def test_the_command_line_says_where_a_stack_has_no_spark_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with LocalTidewheel() as stack:
        ssm, name = stack.session.client("ssm"), parameter_name(stack.stack_name)
        settings = json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        del settings["merge_job"]
        ssm.put_parameter(Name=name, Value=json.dumps(settings), Type="String", Overwrite=True)
        target = Target(stack=stack.stack_name, endpoint_url=stack.endpoint_url)
        done = CliRunner().invoke(app, ["merge", "nothing"], obj=target)
    assert done.output.startswith(f"stack {stack.stack_name}: it has no Spark jobs on AWS"), done.output


def test_sparks_own_reader_shows_what_peek_shows_through_the_live_view(spark: SparkSession, tmp_path: Path) -> None:
    with LocalTidewheel(start=datetime.now(UTC) - timedelta(hours=1)) as stack:
        tw = stack.client()
        tw.create_topic("orders", live_view=1)
        tw.create_subscription("orders", "mail")
        for _ in range(3):
            sent = [tw.send("orders", "hello", delay=delay) for delay in ("45m", "2h", "3d")]
            stack.advance(minutes=10)
        merged = stack.run_job("merge_buckets", topic="orders", all=True)
        assert (merged.merges, merged.sources, merged.outputs, merged.rows) == (1, 3, 1, 9)
        assert tw.cancel("orders", sent[-1].id)
        stack.advance(minutes=30)
        waiting = [id_bytes(each.id).hex().upper() for each in tw.peek("orders", 100)]
        download(stack, tmp_path)
    found = query_backlog.with_spark(spark, str(tmp_path), "orders").selectExpr("hex(message_id) id")
    assert len(waiting) == 5 and sorted(row.id for row in found.collect()) == sorted(waiting)
