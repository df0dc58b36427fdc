"""The Glue jobs on local Spark with IAM enforced, also for the workers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from infra.local_template import normalized
from tests.infra.enforced import World
from tests.infra.needed_grants import Grant, grants_of, needed_grants
from tests.infra.roles import IMPORT, JOB_ROLES, MERGE, REBUILD
from tests.infra.variants import template_of
from tests.spark.conftest import spark
from tidewheel.aws.service import Service
from tidewheel.flows.upkeep.checkpoint import checkpoint_topic
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.access import Denial
from tidewheel.model.object_names import ASIDE, LEDGERS

__all__ = ["spark"]

EXPLAINED = {
    (JOB_ROLES, "s3:GetObject", "*/asset.*"): "Glue fetches the job's script, package and requirements",
    (JOB_ROLES, "logs:*", "*"): "Glue writes the logs",
    (JOB_ROLES, "cloudwatch:PutMetricData", "*"): "Glue writes its own metrics",
    (JOB_ROLES, "s3:AbortMultipartUpload", "*/ledgers/*"): "ends an upload in parts that failed",
    ((MERGE,), "s3:DeleteObject", "*/ledgers/*"): "outputs of a merge that was refused",
    ((MERGE,), "s3:ListBucket", "*"): "a source that is gone is missing, not denied",
    ((REBUILD,), "s3:PutObject", "*/plans/*"): "what many ledgers compare is kept beside the plans",
    ((REBUILD,), "s3:DeleteObject", "*/checkpoints/*"): "the fourth-newest checkpoint goes",
    ((IMPORT,), "s3:AbortMultipartUpload", "*/imports/*"): "likewise, of rejects",
    ((IMPORT,), "s3:[DG]e*Object", "*/ledgers/*"): "a cut that is repeated reads what it made, or takes it back",
}
"""Roles, actions and resources that the runs here do not need -> why they are given."""


@dataclass(kw_only=True)
class Jobs:
    """The results of the runs."""

    denials: list[Denial]
    failures: list[Any]
    needed: set[Grant]
    granted: dict[str, set[Grant]]
    reports: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def jobs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Runs imports, a merge, a rebuild of the lost table, and a rebuild in place, on one stack.

    It has a KMS key.
    """
    template = normalized(template_of("development with a key"))
    with needed_grants() as needed, LocalTidewheel(template=template, enforce_iam=True) as stack:
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
        # Nothing else waits in this topic, so the import arms the wheel.
        alone = world.topic("imported")
        stack.run_job("import_messages", topic=topic, input=str(some_file(tmp_path_factory)))
        imports = f"s3://{world.settings.s3_bucket}/imports"
        file = some_file(tmp_path_factory)
        world.stack.session.client("s3").upload_file(str(file), world.settings.s3_bucket, "imports/in/rows.jsonl")
        reports = {
            "import": stack.run_job(
                "import_messages", topic=alone, input=f"{imports}/in/", rejects=f"{imports}/rejects"
            ),
            "rejects": world.names("imports/rejects/"),
        }
        reports["merge"] = stack.run_job("merge_buckets", topic=topic, all=True)
        world.client.cancel(topic, world.client.send(topic, "cancelled", delay="2d").id)
        stack.advance(hours=7)
        world.send_batches(topic, 1)
        checkpoint_topic(Service.of(world.settings, stack.session, stack.clock), topic)
        world.client.delete_subscription(topic, "mail", delete_queue=True)
        world.client.create_subscription(topic, "mail")
        damage(world, world.names(f"{LEDGERS}{topic}/")[-1])
        lose_table(world, topic)
        reports["rebuild"] = stack.run_job("rebuild_index", topic=topic)
        stack.run_job("rebuild_index", topic=topic, replace=True)
        # Its planned occurrences are objects.
        stack.run_job("rebuild_index", topic=paused, replace=True)
        reports["aside"] = world.names(ASIDE)
        access = stack._emulator.access
        assert access is not None
        roles = stack.session.client("iam").list_roles(MaxItems=1000)["Roles"]
        granted = {
            role: grants_of(next(each["Arn"] for each in roles if f"-{role}" in each["RoleName"])) for role in JOB_ROLES
        }
        yield Jobs(
            denials=access.denials,
            failures=stack.failures,
            needed=set(needed),
            granted=granted,
            reports=reports,
        )


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


def test_the_jobs_do_their_work_under_their_own_roles_and_nothing_is_denied(jobs: Jobs) -> None:
    assert jobs.denials == [] and jobs.failures == []
    assert (jobs.reports["import"].imported, jobs.reports["import"].rejected.total()) == (20, 1)
    assert len(jobs.reports["rejects"]) == 1
    assert jobs.reports["merge"].sources >= 3
    assert jobs.reports["rebuild"].tombstones == 1
    assert len(jobs.reports["aside"]) == 1


@pytest.mark.parametrize("role", JOB_ROLES)
def test_each_grant_of_a_job_is_needed_by_some_run_or_explained(jobs: Jobs, role: str) -> None:
    rules = [(action, where) for (roles, action, where) in EXPLAINED if role in roles]
    unexplained = [
        (grant.action, grant.resource, grant.conditions)
        for grant in jobs.granted[role] - jobs.needed
        if not any(fnmatchcase(grant.action, a) and fnmatchcase(grant.resource, w) for a, w in rules)
    ]
    assert unexplained == []


def test_no_explanation_is_left_over(jobs: Jobs) -> None:
    for roles, action, where in EXPLAINED:
        for role in roles:
            unneeded = jobs.granted[role] - jobs.needed
            assert any(fnmatchcase(g.action, action) and fnmatchcase(g.resource, where) for g in unneeded), (
                role,
                action,
                where,
            )
