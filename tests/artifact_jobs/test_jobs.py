"""Runs each Glue job from its archives, with the template's arguments, on Glue's Python and Spark."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from benchmarks.process_memory import tree
from tests.artifact_jobs.aws import KEPT
from tests.artifact_jobs.deployment import Deployment
from tests.artifact_jobs.glue import Glue, Run
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.maintenance.checkpoint import checkpoint_topic
from tidewheel.model.message import Message

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

LEDGERS, A_LEDGER = 40, 200


def done(run: Run) -> Run:
    """Checks that a run succeeded, and returns the run."""
    print(f"{run.seconds:.1f} s from spark-submit to its end:", *run.messages, sep="\n")
    assert run.status == 0, run.output[-6000:] + run.errors[-2000:]
    return run


def some_messages(seed: int, *, keyed: bool = False) -> Iterator[Message]:
    """Yields messages due within some days but not the next hours, because a dispatch would need the functions.

    The first may have a key.
    """
    chance = random.Random(seed)
    for number in range(A_LEDGER):
        delay = timedelta(hours=4, seconds=chance.randrange(400_000))
        yield Message(body=f"{seed}-{number}", delay=delay, key=str(seed) if keyed and not number else None)


@contextmanager
def an_executor_dies() -> Iterator[list[int]]:
    """Kills an executor of this process's Spark while it runs tasks. Yields the ids of killed processes."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.05) and not killed:
            for process in executors():
                # It forks a process that forks one for each task that is under way.
                if len(tree(process)) > 2:
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                    break

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def executors() -> list[int]:
    """The ids of Spark's executors below this process."""
    found = []
    for process in tree(os.getpid()):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def test_merge_buckets_runs_on_executors_of_which_one_dies_while_its_credentials_expire(
    glue: Glue, deployment: Deployment, seen: Callable[[], Any]
) -> None:
    deployment.create_topic("merged")
    for seed in range(LEDGERS):
        deployment.send("merged", some_messages(seed))
    dispatch(deployment.service, "merged")  # else a merge waits a minute for the dispatch that is due
    before = deployment.rows("merged")
    assert (deployment.ledgers("merged"), before.total()) == (LEDGERS, LEDGERS * A_LEDGER)
    cluster = {"master": "local-cluster[2,1,1024]", "conf": ["spark.speculation=true"]}
    with an_executor_dies() as killed:
        run = done(
            glue.run(deployment.jobs["merge_buckets"], topic="merged", all="true", spark_above_mb="0", **cluster)
        )
    assert len(killed) == 1
    assert any("on Spark's workers" in message for message in run.messages)
    assert f"{LEDGERS} ledgers became" in run.messages[-1]
    assert deployment.ledgers("merged") < LEDGERS
    assert deployment.rows("merged") == before

    asked = seen()
    assert asked["refused"] == {}
    assert asked["used"]["s3"] > 2 * KEPT and asked["used"].keys() >= {"s3", "dynamodb", "ssm"}


def test_rebuild_index_brings_back_a_topic_and_its_keys_on_executors_of_which_one_dies(
    glue: Glue, deployment: Deployment, session: boto3.Session, endpoint_url: str
) -> None:
    deployment.create_topic("rebuilt")
    packs = [deployment.pack("rebuilt", some_messages(seed, keyed=True)) for seed in range(LEDGERS)]
    for pack in packs:
        deployment.send_pack("rebuilt", pack)
    keys = [str(seed) for seed in range(LEDGERS)]
    named = [deployment.key("rebuilt", key) for key in keys]
    before = deployment.rows("rebuilt")
    # SQS brought two packs again, together: their messages are in three ledgers now.
    deployment.send_pack("rebuilt", *packs[:2])
    checkpoint_topic(deployment.service, "rebuilt")
    deployment.lose_table(session.client("dynamodb", endpoint_url=endpoint_url))
    assert deployment.service.topic_states.read("rebuilt") is None

    with an_executor_dies() as killed:
        run = done(
            glue.run(
                deployment.jobs["rebuild_index"], topic="rebuilt", spark_above_mb="0", master="local-cluster[1,1,1024]"
            )
        )
    assert len(killed) == 1
    assert any("on Spark's workers" in message for message in run.messages)
    assert deployment.rows("rebuilt") == before
    assert [deployment.key("rebuilt", key) for key in keys] == named and None not in named
    assert [each.name for each in deployment.service.subscriptions.all("rebuilt")] == ["mail"]


def test_import_messages_makes_ledgers_of_files_on_executors_of_which_one_dies_and_says_what_it_rejects(
    glue: Glue, deployment: Deployment, tmp_path: Path
) -> None:
    deployment.create_topic("imported")
    # Whole seconds: an import rounds fractions of a millisecond up.
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    good = [{"due": (start + timedelta(minutes=n)).isoformat(), "text": {"n": n}} for n in range(2000)]
    bad = [{"due": None, "text": "none"}, {"due": "yesterday", "text": "x"}, {"due": good[0]["due"], "text": ""}]
    for name, rows in (("a.jsonl", good[:1500]), ("b.jsonl", [*good[1500:], *bad])):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    rejects = tmp_path / "rejects"
    given = {"topic": "imported", "input": str(tmp_path / "*.jsonl"), "deliver_at": "due", "body": "text"}
    with an_executor_dies() as killed:
        run = done(
            glue.run(
                deployment.jobs["import_messages"], **given, rejects=str(rejects), master="local-cluster[1,1,1024]"
            )
        )
    assert len(killed) == 1
    assert f"{len(good) + len(bad):,} rows read, {len(good):,} imported" in run.messages[-1]
    due_ms = [round(datetime.fromisoformat(str(row["due"])).timestamp() * 1000) for row in good]
    expected = Counter((due, b'{"n": %d}' % n) for n, due in enumerate(due_ms))
    assert deployment.rows("imported") == expected
    refused = [json.loads(line) for file in rejects.glob("*.json") for line in file.read_text().splitlines()]
    assert len(refused) == len(bad) and all(row["reason"] for row in refused)


def test_a_job_that_fails_ends_with_an_error_that_names_what_was_wrong(glue: Glue, deployment: Deployment) -> None:
    run = glue.run(deployment.jobs["import_messages"], topic="nothing", input="/nowhere/*.csv")
    assert run.status != 0
    assert "UnknownTopic" in run.output and "'nothing'" in run.output
