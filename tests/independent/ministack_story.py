"""A stack's life on MiniStack, in real time, run by `make test-independent`: deployed, used, updated, removed.

The command of an installed wheel deploys over HTTP by MiniStack's CloudFormation. MiniStack's schedules, event source
mappings, Lambda, S3, SQS and DynamoDB do all work. Slots of five seconds make minutes of hours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.artifact.oracle import Arrival, Oracle, Reader
from tests.artifact.scenario import spread
from tests.conftest import real_messages
from tests.independent.ministack import fetch_ministack, ministack
from tests.packaging.conftest import built, environments, package_index, wheel
from tests.packaging.installed import Environments, run
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import DeleteFailed
from tidewheel.model.message import Message, Receipt

__all__ = ["built", "environments", "package_index", "wheel"]

STACK, TOPIC = "reminders", "commits"
ALL, SMALL, PAUSED, PLAIN = (TOPIC, "all"), (TOPIC, "small"), (TOPIC, "paused"), (TOPIC, "plain")
READERS: tuple[Reader, ...] = (ALL, SMALL, PAUSED, PLAIN)
MESSAGES, SPAN_S = 320, 45
FEW_CALLS = ("urgent_concurrency=3", "bulk_concurrency=2", "work_concurrency=3")
"""Each of MiniStack's workers unpacks the archive anew."""


def now_s() -> float:
    """Returns the machine's time, which MiniStack has, too."""
    return time.time_ns() / 1_000_000_000


class Story:
    """The messages of one stack, and what became of each."""

    def __init__(self, session: boto3.Session, url: str) -> None:
        self.tw = Tidewheel(STACK, session=session, endpoint_url=url)
        self.client = lambda service: session.client(service, endpoint_url=url)
        self.oracle = Oracle()
        self.plain: list[Reader] = []

    def sent(self, receipt: Receipt, body: str, *, small: bool = False) -> Receipt:
        """Expects a message at its readers."""
        readers = [reader for reader in READERS if small or reader != SMALL]
        self.oracle.expect(readers, receipt.id, body, receipt.deliver_at_ms)
        return receipt

    def collect(self) -> None:
        """Takes all available messages of all readers."""
        for reader in READERS:
            while taken := self.tw.receive(*reader):
                self.plain += [reader for each in taken if each.body == "plain"]
                now_ms = round(now_s() * 1000)
                self.oracle.arrived(
                    reader,
                    [
                        Arrival(
                            id=each.id,
                            body=each.body,
                            due_ms=round(each.deliver_at.timestamp() * 1000),
                            earliest_ms=now_ms,
                            latest_ms=now_ms,
                        )
                        for each in taken
                    ],
                )
                try:
                    self.tw.delete(*reader, taken)
                except DeleteFailed:  # a repeated delete, after a lost answer: AWS takes it for done
                    continue

    def until(self, done: Callable[[], Any], within_s: float = 150) -> None:
        """Works on until a condition is true."""
        end = time.monotonic() + within_s
        while not done():
            assert time.monotonic() < end, f"not within {within_s} s: {done}"
            self.collect()
            time.sleep(0.5)

    def invoke(self, function: str, **event: Any) -> None:
        """Calls a function, which the account's own rule would call later."""
        done = self.client("lambda").invoke(FunctionName=f"{STACK}-{function}", Payload=json.dumps(event))
        assert "FunctionError" not in done, done["Payload"].read()


@contextmanager
def told(what: str) -> Iterator[None]:
    """Prints the time of a step."""
    begin = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)


def test_a_stack_is_deployed_used_updated_and_removed(environments: Environments, tmp_path: Path) -> None:
    with told("the wheel and its environment"):
        installed = environments("[deploy]")
    python = fetch_ministack()
    with ministack(tmp_path) as variables:
        # uv looks for the functions' Python on the PATH.
        path = f"{python.parent.resolve()}:/usr/bin:/bin"

        def command(*words: str, code: int = 0) -> str:
            line: list[str | Path] = [installed.programs / "tidewheel", "--stack", STACK, *words]
            return run(line, tmp_path, code=code, **variables, PATH=path)

        options = [word for setting in FEW_CALLS for word in ("--set", setting)]
        with told("deploy"):
            command("deploy", "--yes", "--architecture", "x86_64", *options)
        assert "nothing is new" in command("deploy", "--yes")
        session = boto3.Session("test", "test", region_name=variables["AWS_DEFAULT_REGION"])
        story = Story(session, variables["AWS_ENDPOINT_URL"])
        with told("story"):
            live(story, lambda: update(command))
        with told("destroy"):
            command("destroy", "--yes")
        assert "there is no stack" in command("destroy", "--yes", code=1)
        s3 = session.client("s3", endpoint_url=variables["AWS_ENDPOINT_URL"])
        assert s3.list_buckets()["Buckets"] == []


def update(command: Callable[..., str]) -> None:
    """Changes the running stack."""
    with told("update"):
        said = command("deploy", "--yes", "--set", "log_level=DEBUG")
    assert "changed: Lambda Function (Environment)" in said


def live(story: Story, change: Callable[[], None]) -> None:
    """Sends messages of all kinds, changes some, loses a schedule, updates the stack, and waits for all."""
    tw = story.tw
    tw.create_topic(TOPIC, slot_s=5, lookahead_s=20, max_buckets=7)
    for reader, settings in zip(
        READERS, ({}, {"filter_policy": {"size": ["small"]}}, {}, {"reader": "plain"}), strict=True
    ):
        tw.create_subscription(*reader, **{"reader": "tidewheel", **settings})
    with told("the first message, through cold functions"):
        story.sent(tw.send(TOPIC, "first", delay="1s"), "first")
        story.until(lambda: not any(story.oracle.waiting(reader) for reader in READERS))
    start = round(now_s()) + 30
    send_real(story, start)
    keyed = {body: story.sent(tw.send(TOPIC, body, deliver_at=start + SPAN_S, key=body), body) for body in "abcd"}
    large = "tide" * 300_000
    story.sent(tw.send(TOPIC, large, deliver_at=start + 30), large)
    send_plain(story, start + 35)
    tw.create_topic("ticks", slot_s=5, lookahead_s=20)
    tw.create_subscription("ticks", "all", reader="tidewheel")
    tw.send_recurring("ticks", "tick", "tick", every="60s", start=start + 15.0)
    tw.pause(*PAUSED)
    paused_ms = round(now_s() * 1000)
    story.until(lambda: tw.stats(TOPIC).waiting > 0)
    assert tw.cancel(TOPIC, key="a") and tw.cancel(TOPIC, keyed["b"].id)
    moved = tw.reschedule(TOPIC, keyed["c"].id, deliver_at=start + SPAN_S + 10)
    for each in "abcd":
        story.oracle.withdraw(keyed[each].id)
    story.sent(moved.receipt, "c")
    story.sent(tw.send(TOPIC, "e", deliver_at=start + SPAN_S, key="d", replace=True), "e")
    lose_schedule(story)
    change()
    story.until(lambda: now_s() > start + 30)
    tw.resume(*PAUSED)
    story.invoke("sweep")
    resumed_ms = round(now_s() * 1000) + 30_000
    story.until(lambda: now_s() > start + SPAN_S + 12)
    story.invoke("sweep")
    story.until(lambda: len(story.plain) == 3 and not any(story.oracle.waiting(reader) for reader in READERS))
    for reader in READERS:
        story.oracle.may_be_late(reader, paused_ms, resumed_ms)
    verdict = story.oracle.verdict()
    print(verdict)
    assert (verdict.lost, verdict.early, verdict.unexpected, verdict.changed) == ([], [], [], [])
    assert verdict.messages > MESSAGES and verdict.arrived == verdict.copies
    ticks = tw.receive("ticks", "all")
    assert ticks and all((round(each.deliver_at.timestamp()) - start) % 60 == 15 for each in ticks)
    bury_and_redrive(story)
    tw.delete_topic("ticks", delete_queues=True)
    tw.delete_topic(TOPIC, delete_queues=True)


def send_real(story: Story, start: int) -> None:
    """Sends real messages, due over the whole span, in several calls."""
    samples = spread(real_messages(), MESSAGES)
    for first in range(0, MESSAGES, 40):
        chosen = samples[first : first + 40]
        sizes = ["small" if each.payload["insertions"] < 10 else "large" for each in chosen]
        messages = [
            Message(body=each.payload, deliver_at=start + (first + i) % SPAN_S, attributes={"size": size})
            for i, (each, size) in enumerate(zip(chosen, sizes, strict=True))
        ]
        for message, size, receipt in zip(messages, sizes, story.tw.send_many(TOPIC, messages), strict=True):
            body = json.dumps(message.body, ensure_ascii=False, separators=(",", ":"))
            story.sent(receipt, body, small=size == "small")


def send_plain(story: Story, due_s: int) -> None:
    """Sends a message by SQS alone, whose id nobody knows."""
    attributes: Mapping[str, Any] = {
        "tidewheel.topic": {"DataType": "String", "StringValue": TOPIC},
        "tidewheel.deliver_at": {"DataType": "String", "StringValue": str(due_s)},
    }
    url = story.tw.core.connection.settings.address(None)
    story.client("sqs").send_message(QueueUrl=url, MessageBody="plain", MessageAttributes=attributes)
    for reader in (ALL, PAUSED, PLAIN):
        story.oracle.expect_recurring(reader, "plain", [due_s * 1000])


def lose_schedule(story: Story) -> None:
    """Deletes the topic's schedules. The sweep makes them again."""
    scheduler = story.client("scheduler")
    found = scheduler.list_schedules(GroupName=STACK, NamePrefix=f"{TOPIC}.")["Schedules"]
    assert found, "the topic has no schedule"
    for each in found:
        scheduler.delete_schedule(GroupName=STACK, Name=each["Name"])


def bury_and_redrive(story: Story) -> None:
    """Lets a consumer fail until a message is a dead letter. MiniStack cannot move it back."""
    worker = (TOPIC, "worker")
    story.tw.create_subscription(*worker, reader="plain", visibility_timeout_s=1)
    story.tw.send(TOPIC, "poison", delay="1s")

    def is_dead() -> bool:
        story.tw.receive(*worker)
        return bool(story.tw.dead_letters(*worker))

    story.until(is_dead)
    with pytest.raises(Exception, match="ListDeadLetterSourceQueues"):
        story.tw.redrive(*worker)
