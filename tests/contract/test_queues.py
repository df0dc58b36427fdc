"""Tests the port Queues over SQS in memory and over moto's SQS."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.aws_resources import make_queue
from tests.contract.builders import a_message_id
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.clock import ManualClock
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports.queues import Queues, Release
from tidewheel.memory import MemorySqs, MemorySqsClient
from tidewheel.model.job import CatchUpJob, DrainJob, Job, PartJob, job_of
from tidewheel.model.message import HEADER_ATTRIBUTE
from tidewheel.model.park import ParkKey
from tidewheel.model.received import header_text
from tidewheel.model.subscription_state import DeliveryKey

KEY = DeliveryKey(topic="orders", subscription="billing", generation="s1", plan=100)


@dataclass(frozen=True, kw_only=True)
class QueuesUnderTest:
    """An implementation with a queue and a consumer. `received` returns texts and attributes, with the header."""

    queues: Queues
    url: str
    received: Callable[[], list[tuple[str, dict[str, str]]]]
    jobs: Callable[[], list[Job]]
    refused: Callable[[], list[dict[str, Any]]]
    remove: Callable[[], None]
    fail_entries: Callable[[str, str], None]


def on_sqs(sqs: Any) -> QueuesUnderTest:
    url, work, refused = make_queue(sqs), make_queue(sqs), make_queue(sqs)
    client = FailingEntries(sqs)

    def take(queue_url: str) -> list[Any]:
        taken: list[Any] = []
        while messages := sqs.receive_message(
            QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], VisibilityTimeout=900
        ).get("Messages"):
            taken += messages
        return taken

    def received() -> list[tuple[str, dict[str, str]]]:
        return [
            (each["Body"], {name: value["StringValue"] for name, value in each["MessageAttributes"].items()})
            for each in take(url)
        ]

    return QueuesUnderTest(
        queues=SqsQueues(
            client,
            work_queue_url=work,
            refused_queue_url=refused,
            ingest_queues=lambda topic: (work, work),
            sleep=lambda seconds: None,
        ),
        url=url,
        received=received,
        jobs=lambda: [job_of(each["Body"]) for each in take(work)],
        refused=lambda: [json.loads(each["Body"]) for each in take(refused)],
        remove=lambda: sqs.delete_queue(QueueUrl=url),
        fail_entries=client.failing.__setitem__,
    )


class FailingEntries:
    """SQS's client, which answers for entries of some texts with codes."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        self.failing: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sqs, name)

    def send_message_batch(self, **request: Any) -> Any:
        failed = [each for each in request["Entries"] if each["MessageBody"] in self.failing]
        request["Entries"] = [each for each in request["Entries"] if each not in failed]
        answer = self._sqs.send_message_batch(**request) if request["Entries"] else {}
        told = [{"Id": e["Id"], "Code": self.failing[e["MessageBody"]], "SenderFault": True} for e in failed]
        return {**answer, "Failed": [*answer.get("Failed", ()), *told]}


@pytest.fixture(params=["memory", "aws"])
def under_test(request: pytest.FixtureRequest) -> QueuesUnderTest:
    if request.param == "memory":
        return on_sqs(MemorySqsClient(MemorySqs(ManualClock(1000))))
    return on_sqs(request.getfixturevalue("sqs"))


def a_release(text: str = "hello", attributes: dict[str, str] | None = None, number: int = 0) -> Release:
    return Release(5000, text, attributes, header_text(a_message_id(number), 0, 17), len(text))


def test_ten_messages_arrive_with_their_texts_attributes_and_headers(under_test: QueuesUnderTest) -> None:
    releases = [
        a_release(f"text {n}, ünïcode 🌍", {"color": "red", "n": str(n)} if n % 2 else None, n) for n in range(10)
    ]
    assert under_test.queues.send(under_test.url, [(release, 0) for release in releases]) == []
    expected = [(r.text, {**(r.attributes or {}), HEADER_ATTRIBUTE: r.header}) for r in releases]
    assert sorted(under_test.received(), key=str) == sorted(expected, key=str)


def test_a_delayed_message_is_not_visible_yet(under_test: QueuesUnderTest) -> None:
    batch = [(a_release("now"), 0), (a_release("in a second"), 1), (a_release("in fifteen minutes"), 900)]
    assert under_test.queues.send(under_test.url, batch) == []
    assert [text for text, _ in under_test.received()] == ["now"]


def test_a_queue_that_is_gone_is_unavailable_by_its_url(under_test: QueuesUnderTest) -> None:
    under_test.remove()
    with pytest.raises(QueueUnavailable, match="queue"):
        under_test.queues.send(under_test.url, [(a_release(), 0)])


@pytest.mark.parametrize("code", ["KMS.InternalException", "AccessDenied"])
def test_messages_that_a_queue_took_are_known_whatever_it_answers_for_another_of_the_batch(
    under_test: QueuesUnderTest, code: str
) -> None:
    under_test.fail_entries("b", code)
    batch = [(a_release(text, number=number), 0) for number, text in enumerate("abc")]
    [refusal] = under_test.queues.send(under_test.url, batch)
    assert (refusal.index, refusal.permanent, refusal.throttled, refusal.code) == (1, False, True, code)
    assert sorted(text for text, _ in under_test.received()) == ["a", "c"]


def test_more_than_ten_messages_are_no_batch(under_test: QueuesUnderTest) -> None:
    with pytest.raises(ValueError, match="11"):
        under_test.queues.send(under_test.url, [(a_release(), 0)] * 11)


def test_all_parts_of_a_delivery_are_in_the_work_queue(under_test: QueuesUnderTest) -> None:
    under_test.queues.enqueue_parts(KEY, range(23))
    under_test.queues.enqueue_parts(KEY, [])
    under_test.queues.enqueue_parts(KEY, [99])
    parts = [job.part for job in under_test.jobs() if isinstance(job, PartJob) and job.key == KEY]
    assert sorted(parts) == [*range(23), 99]


def test_a_part_in_the_work_queue_names_its_delivery(under_test: QueuesUnderTest) -> None:
    under_test.queues.enqueue_parts(KEY, [4])
    assert under_test.jobs() == [PartJob(key=KEY, part=4)]


def test_parks_and_resumed_subscriptions_are_in_the_work_queue_too(under_test: QueuesUnderTest) -> None:
    park = ParkKey(topic="orders", subscription="billing", generation="s1", id="p1")
    under_test.queues.enqueue_parks([park])
    under_test.queues.enqueue_catch_up("orders", "billing", "s1")
    expected = [DrainJob(key=park), CatchUpJob(topic="orders", subscription="billing", generation="s1")]
    assert sorted(under_test.jobs(), key=str) == sorted(expected, key=str)


def test_a_refused_message_is_kept_with_all_that_is_known(under_test: QueuesUnderTest) -> None:
    document = {"queue_url": "q", "code": "InvalidMessageContents", "attributes": {"a": "b"}, "body": "\x00 \ud800 🌍"}
    under_test.queues.refuse(document)
    assert under_test.refused() == [document]
