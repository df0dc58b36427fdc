"""A stack's life on MiniStack, in real time, run by `make test-independent`: deployed, used, updated, removed.

The command of an installed wheel deploys over HTTP by MiniStack's CloudFormation. MiniStack's schedules, event source
mappings, Lambda, S3, SQS and DynamoDB do all work. Slots of five seconds make minutes of hours. By night, the same is
done with signatures, policies and TLS, and `tidewheel prove` tries the stack.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.artifact.oracle import Arrival, Oracle, Reader
from tests.artifact.scenario import spread
from tests.conftest import real_messages
from tests.independent.ministack import fetch_ministack, ministack, user
from tests.packaging.conftest import built, environments, package_index, wheel
from tests.packaging.installed import Environments, run
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.waiting import MessageState
from tidewheel.errors import DeleteFailed
from tidewheel.model.message import Message, Receipt
from tidewheel.model.received import ReceivedMessage

__all__ = ["built", "environments", "package_index", "wheel"]

STACK, TOPIC = "reminders", "commits"
ALL, SMALL, PAUSED, PLAIN = (TOPIC, "all"), (TOPIC, "small"), (TOPIC, "paused"), (TOPIC, "plain")
READERS: tuple[Reader, ...] = (ALL, SMALL, PAUSED, PLAIN)
ARCHIVE = ("archive", "worker")
MESSAGES, SPAN_S, LEDGERS = 320, 45, 9
FEW_CALLS = ("urgent_concurrency=3", "bulk_concurrency=2", "work_concurrency=3")
"""Each of MiniStack's workers is a process."""


def now_s() -> float:
    """Returns the machine's time, which MiniStack has, too."""
    return time.time_ns() / 1_000_000_000


class Story:
    """The messages of one stack, and what became of each."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        keys, url = (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]), variables["AWS_ENDPOINT_URL"]
        session = boto3.Session(*keys, region_name=variables["AWS_DEFAULT_REGION"])
        self.tw = Tidewheel(STACK, session=session, endpoint_url=url)
        self.client = lambda service: session.client(service, endpoint_url=url)
        self.oracle = Oracle()
        self.readers: tuple[Reader, ...] = READERS
        self.unnamed: Counter[tuple[Reader, str]] = Counter()

    def sent(self, receipt: Receipt, body: str, *, small: bool = False) -> Receipt:
        """Expects a message at its readers."""
        readers = [reader for reader in READERS if small or reader != SMALL]
        self.oracle.expect(readers, receipt.id, body, receipt.deliver_at_ms)
        return receipt

    def take(self, reader: Reader) -> list[ReceivedMessage]:
        """Receives and deletes messages."""
        taken = self.tw.receive(*reader)
        with suppress(DeleteFailed):  # a repeated delete, after a lost answer: AWS takes it for done
            self.tw.delete(*reader, taken)
        return taken

    def collect(self) -> None:
        """Takes all available messages of all readers."""
        for reader in self.readers:
            while taken := self.take(reader):
                self.unnamed -= Counter((reader, each.body) for each in taken)
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

    @property
    def waits(self) -> bool:
        """Whether a reader has yet to get a message."""
        return bool(self.unnamed) or any(self.oracle.waiting(reader) for reader in READERS)

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
    with ministack(tmp_path) as variables:
        life(environments, tmp_path, variables, lambda _story, _command: None)


@pytest.mark.nightly
def test_a_stack_does_the_same_and_proves_itself_with_signatures_policies_and_tls(
    environments: Environments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ministack(tmp_path, guarded=True) as variables:
        monkeypatch.setenv("AWS_CA_BUNDLE", variables["AWS_CA_BUNDLE"])

        def further(story: Story, command: Callable[..., str]) -> None:
            guard(story, command, variables)
            prove(command)

        life(environments, tmp_path, variables, further)


def life(
    environments: Environments,
    folder: Path,
    variables: Mapping[str, str],
    further: Callable[[Story, Callable[..., str]], None],
) -> None:
    """Deploys a stack, uses, updates and removes it. `further` is given the running stack and its command line."""
    with told("the wheel and its environment"):
        installed = environments("[deploy]")

    def command(*words: str, code: int = 0) -> str:
        line: list[str | Path] = [installed.programs / "tidewheel", "--stack", STACK, *words]
        # uv looks for the functions' Python on the PATH.
        path = f"{fetch_ministack().parent.resolve()}:/usr/bin:/bin"
        return run(line, folder, code=code, **variables, PATH=path)

    options = [word for setting in FEW_CALLS for word in ("--set", setting)]
    with told("deploy"):
        command("deploy", "--yes", "--architecture", "x86_64", *options)
    assert "nothing is new" in command("deploy", "--yes")
    story = Story(variables)
    with told("story"):
        live(story, lambda: update(command))
    further(story, command)
    with told("destroy"):
        command("destroy", "--yes")
    assert "there is no stack" in command("destroy", "--yes", code=1)
    assert story.client("s3").list_buckets()["Buckets"] == []


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
        first = story.sent(tw.send(TOPIC, "first", delay="1s", key="first"), "first")
        story.until(lambda: not story.waits)
    assert set(tw.cancel(TOPIC, first.id).subscriptions) == {"all", "paused", "plain"}, "claimed, and cancelled"
    start = round(now_s()) + 30
    send_real(story, start)
    keyed = {body: story.sent(tw.send(TOPIC, body, deliver_at=start + SPAN_S, key=body), body) for body in "abcd"}
    large = "tide" * 300_000
    story.sent(tw.send(TOPIC, large, deliver_at=start + 30), large)
    send_plain(story, start + 35)
    tw.create_topic("ticks", slot_s=5, lookahead_s=20)
    tw.create_subscription("ticks", "all", reader="tidewheel")
    tw.send_recurring("ticks", "tick", "tick", every="60s", start=start + 15.0)
    late = tw.send("ticks", "late", deliver_at=start + 20, key="late")
    tw.pause(*PAUSED)
    paused_ms = round(now_s() * 1000)
    wait_in_ledgers(story, *keyed.values())
    assert tw.cancel(TOPIC, key="a") and tw.cancel(TOPIC, keyed["b"].id)
    moved = tw.reschedule(TOPIC, keyed["c"].id, deliver_at=start + SPAN_S + 10)
    for each in "abcd":
        story.oracle.withdraw(keyed[each].id)
    newer = tw.send(TOPIC, "e", deliver_at=start + SPAN_S, key="d", replace=True)
    wait_in_ledgers(story, story.sent(moved.receipt, "c"), story.sent(newer, "e"))
    lost_slot = lose_schedule(story)
    kept = fill_archive(story)
    change()
    story.until(lambda: now_s() > start + 30)
    tw.resume(*PAUSED)
    story.invoke("sweep")
    resumed_ms = round(now_s() * 1000) + 30_000
    story.until(lambda: tw.core.connection.storage.topic_states.existing(TOPIC).planned > lost_slot)
    empty_archive(story, kept)
    story.until(lambda: tw.get("ticks", late.id).state is MessageState.SENT)
    assert tw.cancel("ticks", late.id), "no consumer has claimed it"
    story.until(lambda: now_s() > start + SPAN_S + 12)
    story.invoke("sweep")
    story.until(lambda: not story.waits)
    for reader in READERS:
        story.oracle.may_be_late(reader, paused_ms, resumed_ms)
    verdict = story.oracle.verdict()
    print(verdict)
    assert (verdict.lost, verdict.early, verdict.unexpected, verdict.changed) == ([], [], [], [])
    assert verdict.messages > MESSAGES and verdict.arrived == verdict.copies
    ticks = tw.receive("ticks", "all")
    assert {each.body for each in ticks} == {"tick"}
    assert all((round(each.deliver_at.timestamp()) - start) % 60 == 15 for each in ticks)
    story.readers = ()
    for topic in ("ticks", "archive", TOPIC):
        tw.delete_topic(topic, delete_queues=True)


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
    """Sends a message with attributes and an envelope with two by SQS alone, whose ids nobody knows."""
    options = {"topic": TOPIC, "deliver_at": str(due_s)}
    attributes: Any = {f"tidewheel.{name}": {"DataType": "String", "StringValue": options[name]} for name in options}
    messages = [{"body": {"id": 17}}, {"body": "enveloped", "attributes": {"size": "small"}}]
    url = story.tw.core.connection.settings.address(None)
    story.client("sqs").send_message(QueueUrl=url, MessageBody="plain", MessageAttributes=attributes)
    story.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps({"tidewheel": options, "messages": messages}))
    others = [(reader, body) for reader in (ALL, PAUSED, PLAIN) for body in ("plain", '{"id":17}', "enveloped")]
    for each in (*others, (SMALL, "enveloped")):
        story.unnamed[each] += 1
        story.oracle.expect_recurring(*each, [due_s * 1000])


def wait_in_ledgers(story: Story, *receipts: Receipt) -> None:
    """Waits until messages are ingested. MiniStack's update of a function ends its calls."""
    story.until(lambda: all(story.tw.get(TOPIC, each.id).state is MessageState.WAITING for each in receipts))


def lose_schedule(story: Story) -> int:
    """Deletes the topic's schedules, so that only the sweep can plan the returned slot."""
    scheduler = story.client("scheduler")
    found = scheduler.list_schedules(GroupName=STACK, NamePrefix=f"{TOPIC}.")["Schedules"]
    assert found, "the topic has no schedule"
    for each in found:
        scheduler.delete_schedule(GroupName=STACK, Name=each["Name"])
    return int(story.tw.core.connection.storage.topic_states.existing(TOPIC).next_slot)


def fill_archive(story: Story) -> dict[str, str]:
    """Makes more ledgers than their topic may have, while its consumer fails until a message is a dead letter."""
    tw, kept = story.tw, dict[str, str]()
    tw.create_topic("archive", max_buckets=LEDGERS - 1)
    tw.create_subscription(*ARCHIVE, reader="plain", visibility_timeout_s=1)
    tw.send("archive", "poison", delay="1s")

    def fails(done: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: (tw.receive(*ARCHIVE), done())[1]

    for number in range(LEDGERS):
        kept[tw.send("archive", f"kept {number}", delay="2h").id] = f"kept {number}"
        story.until(fails(lambda: len(tw.ledgers("archive")) == len(kept)))
    story.until(fails(lambda: tw.dead_letters(*ARCHIVE)))
    return kept


def empty_archive(story: Story, kept: Mapping[str, str]) -> None:
    """Waits until the ledgers are merged, and lets all messages come from there, and the dead letter once more."""
    tw, came = story.tw, list[str]()
    with told("merge"):
        story.until(lambda: len(tw.ledgers("archive")) < LEDGERS)
    assert {each.id: each.body for each in tw.peek("archive", 2 * LEDGERS)} == kept
    for each in kept:
        assert tw.reschedule("archive", each, delay="1s")
    assert tw.redrive(*ARCHIVE).messages == 1
    wanted = sorted([*kept.values(), "poison"])
    story.until(lambda: came.extend(each.body for each in story.take(ARCHIVE)) or len(came) >= len(wanted))
    assert sorted(came) == wanted


def guard(story: Story, command: Callable[..., str], variables: Mapping[str, str]) -> None:
    """Sends and receives as two users with the printed policies. Each is refused the other's part."""
    name = ("guarded", "all")
    story.tw.create_topic(name[0])
    story.tw.create_subscription(*name, reader="tidewheel")
    sender, consumer = (
        Story({**variables, **user(variables, kind, command("policy", kind, *words, "--json"))}).tw
        for kind, words in {"sender": name[:1], "consumer": name}.items()
    )
    sent = sender.send(name[0], "private", delay="1s", key="private")
    story.until(lambda: [each.id for each in consumer.receive(*name)] == [sent.id])
    assert sender.cancel(name[0], sent.id).subscriptions == ("all",)
    for refused in (lambda: sender.receive(*name), lambda: consumer.send(name[0], "private")):
        with pytest.raises(Exception, match="AccessDenied"):
            refused()
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        Story({**variables, "AWS_SECRET_ACCESS_KEY": "other"}).client("sqs").list_queues()
    story.tw.delete_topic(name[0], delete_queues=True)


def prove(command: Callable[..., str]) -> None:
    """Lets the stack prove itself."""
    with told("prove"):
        page = command("prove", "--yes")
    print(page)
    assert re.search(r"^where +emulator$", page, re.MULTILINE)
