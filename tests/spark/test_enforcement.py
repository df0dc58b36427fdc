"""The Glue jobs on local Spark with IAM enforced, also for the workers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.iam.stack import EnforcedTidewheel
from tests.infra.enforced import World
from tests.infra.variants import local_template_of
from tidewheel.aws.service import Service
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.model.object_names import ASIDE, LEDGERS


def some_file(folders: pytest.TempPathFactory) -> Path:
    """A file of messages, and a row without a time."""
    path: Path = folders.mktemp("input") / "in.jsonl"
    rows = [{"body": f"i{i}", "deliver_at": "2026-01-05T00:00:00Z"} for i in range(20)]
    path.write_text("\n".join(map(json.dumps, [*rows, {"body": "never"}])))
    return path


def damage(world: World, name: str) -> None:
    """Turns a byte in the middle of an object."""
    s3, bucket = world.stack.session.client("s3"), world.settings.s3_bucket
    data = bytearray(s3.get_object(Bucket=bucket, Key=name)["Body"].read())
    data[len(data) // 2] ^= 255
    s3.put_object(Bucket=bucket, Key=name, Body=bytes(data))


def lose_table(world: World, topic: str) -> None:
    """Deletes all items of the topic."""
    dynamodb: Any = world.stack.session.client("dynamodb")
    for item in dynamodb.scan(TableName=world.settings.table)["Items"]:
        if item["pk"]["S"].startswith(f"T#{topic}"):
            dynamodb.delete_item(TableName=world.settings.table, Key={"pk": item["pk"], "sk": item["sk"]})


def test_the_jobs_do_their_work_under_their_own_roles_and_nothing_is_denied(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Runs imports, a merge, a rebuild of the lost table, and a rebuild in place, on one stack with a KMS key."""
    with EnforcedTidewheel(template=local_template_of("development with a key")) as stack:
        world = World(stack=stack)
        topic = world.topic("orders")
        world.send_batches(topic, 3)
        # A merge of more than 64 KiB reads which messages were cancelled, and a rebuild restores a key.
        world.client.send(topic, random.Random(1).randbytes(100_000), delay="30h", key="k")
        stack.advance(minutes=10)
        world.client.send_recurring(topic, "weekly", "x", every="7d")
        paused = world.topic("paused")
        world.client.pause(paused, "mail")
        world.client.send_recurring(paused, "hourly", "x", every="1h")

        file = some_file(tmp_path_factory)
        stack.run_job("import_messages", topic=topic, input=str(file))
        # Nothing else waits in this topic, so the import arms the wheel.
        alone, imports = world.topic("imported"), f"s3://{world.settings.s3_bucket}/imports"
        stack.session.client("s3").upload_file(str(file), world.settings.s3_bucket, "imports/in/rows.jsonl")
        imported = stack.run_job("import_messages", topic=alone, input=f"{imports}/in/", rejects=f"{imports}/rejects")
        assert (imported.imported, imported.rejected.total()) == (20, 1)
        assert len(world.names("imports/rejects/")) == 1

        assert stack.run_job("merge_buckets", topic=topic, all=True).sources >= 3

        world.client.cancel(topic, world.client.send(topic, "cancelled", delay="2d").id)
        stack.advance(hours=7)
        world.send_batches(topic, 1)
        checkpoint_topic(Service.of(world.settings, stack.session, stack.clock), topic)
        world.client.delete_subscription(topic, "mail", delete_queue=True)
        world.client.create_subscription(topic, "mail")
        damage(world, world.names(f"{LEDGERS}{topic}/")[-1])
        lose_table(world, topic)
        assert stack.run_job("rebuild_index", topic=topic).tombstones == 1
        stack.run_job("rebuild_index", topic=topic, replace=True)
        # Its planned occurrences are objects.
        stack.run_job("rebuild_index", topic=paused, replace=True)
        assert len(world.names(ASIDE)) == 1
        assert (stack.denials, stack.failures) == ([], [])
