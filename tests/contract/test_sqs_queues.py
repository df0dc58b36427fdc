"""Tests SqsQueues against refusals of a small fake SQS."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.contract.builders import a_message_id
from tidewheel.aws.sqs_queues import ATTEMPTS, SqsQueues, refused_body
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports import QueueMessage
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.park import ParkKey
from tidewheel.model.received import header_text
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.task import PartTask, task_of

KEY = DeliveryKey(topic="orders", subscription="billing", generation="s1", plan=100)


@dataclass
class Sqs:
    """Keeps all sent entries. `refuse` may raise for a request, or return the failing entries."""

    refuse: Callable[[list[Any]], list[dict[str, Any]]] = lambda entries: []
    requests: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    def send_message_batch(self, **request: Any) -> Any:
        self.requests.append(request)
        failed = self.refuse(request["Entries"])
        ids = {entry["Id"] for entry in failed}
        self.bodies += [entry["MessageBody"] for entry in request["Entries"] if entry["Id"] not in ids]
        return {"Successful": [], "Failed": failed}

    def send_message(self, **request: Any) -> Any:
        self.requests.append(request)
        return {}


def error(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "because"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "SendMessageBatch",
    )


def queues(sqs: Sqs, pauses: list[float] | None = None) -> SqsQueues:
    pause = ([] if pauses is None else pauses).append
    return SqsQueues(
        sqs,  # type: ignore[arg-type]
        work_queue_url="work",
        refused_queue_url="refused",
        ingest_queues=lambda topic: (f"{topic}-urgent", f"{topic}-bulk"),
        sleep=pause,
    )


def releases(*texts: str) -> list[tuple[QueueMessage, int]]:
    return [(QueueMessage(0, text, None, header_text(a_message_id(n), 1, 5), 1), n) for n, text in enumerate(texts)]


def fails(**codes: tuple[str, bool]) -> Callable[[list[Any]], list[dict[str, Any]]]:
    """Refuses entries by their text, with a code and whether the sender is at fault."""

    def refuse(entries: list[Any]) -> list[dict[str, Any]]:
        return [
            {
                "Id": e["Id"],
                "Code": codes[e["MessageBody"]][0],
                "SenderFault": codes[e["MessageBody"]][1],
                "Message": "m",
            }
            for e in entries
            if e["MessageBody"] in codes
        ]

    return refuse


def raises_if(code: str, applies: Callable[[list[str]], bool]) -> Callable[[list[Any]], list[dict[str, Any]]]:
    def refuse(entries: list[Any]) -> list[dict[str, Any]]:
        if applies([entry["MessageBody"] for entry in entries]):
            raise error(code)
        return []

    return refuse


# ---- send
def test_a_batch_is_one_request_with_ids_delays_and_typed_attributes() -> None:
    sqs = Sqs()
    release = QueueMessage(0, "text", {"color": "red"}, "header", 1)
    assert queues(sqs).send("q", [(release, 7), *releases("b")]) == []
    [request] = sqs.requests
    assert request["QueueUrl"] == "q"
    assert request["Entries"][0] == {
        "Id": "0",
        "MessageBody": "text",
        "DelaySeconds": 7,
        "MessageAttributes": {
            "color": {"DataType": "String", "StringValue": "red"},
            "tidewheel": {"DataType": "String", "StringValue": "header"},
        },
    }
    assert request["Entries"][1]["Id"] == "1"


def test_more_than_ten_messages_are_no_batch() -> None:
    with pytest.raises(ValueError, match="11"):
        queues(Sqs()).send("q", releases(*"abcdefghijk"))


def test_entries_that_failed_are_refusals_by_whose_fault_it_was() -> None:
    sqs = Sqs(fails(b=("InvalidMessageContents", True), d=("InternalError", False), c=("RequestThrottled", True)))
    found = queues(sqs).send("q", releases("a", "b", "c", "d"))
    assert [(r.index, r.permanent, r.code, r.reason) for r in found] == [
        (1, True, "InvalidMessageContents", "m"),
        (2, False, "RequestThrottled", "m"),
        (3, False, "InternalError", "m"),
    ]


@pytest.mark.parametrize(
    "code", ["InvalidMessageContents", "AWS.SimpleQueueService.BatchRequestTooLong", "InvalidParameterValue"]
)
def test_one_bad_message_does_not_spoil_the_batch(code: str) -> None:
    sqs = Sqs(raises_if(code, lambda texts: "bad" in texts))
    [refusal] = queues(sqs).send("q", releases("a", "bad", "c"))
    assert (refusal.index, refusal.permanent, refusal.code, refusal.reason) == (1, True, code, "because")
    assert sqs.bodies == ["a", "c"]


def test_messages_that_are_too_large_together_are_sent_one_by_one() -> None:
    sqs = Sqs(raises_if("AWS.SimpleQueueService.BatchRequestTooLong", lambda texts: len(texts) > 1))
    assert queues(sqs).send("q", releases("a", "b", "c")) == []
    assert sqs.bodies == ["a", "b", "c"]


@pytest.mark.parametrize(
    "code",
    [
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "AccessDenied",
        "AccessDeniedException",
        "KmsAccessDenied",
        "KMS.DisabledException",
        "KMS.NotFoundException",
        "AWS.SimpleQueueService.UnsupportedOperation",
    ],
)
def test_a_queue_that_refuses_everything_is_unavailable(code: str) -> None:
    sqs = Sqs(raises_if(code, lambda texts: True))
    with pytest.raises(QueueUnavailable, match=f"queue q does not accept messages: {code}: because"):
        queues(sqs).send("q", releases("a", "b"))
    assert len(sqs.requests) == 1
    with pytest.raises(QueueUnavailable):
        queues(Sqs(fails(a=(code, True), b=(code, False)))).send("q", releases("a", "b"))


def test_what_a_batch_took_before_one_of_its_messages_had_an_error_is_known() -> None:
    def refuse(entries: list[Any]) -> list[dict[str, Any]]:
        if len(entries) > 1:
            raise error("InvalidMessageContents")
        if entries[0]["MessageBody"] in "bc":
            raise (
                error("AccessDenied") if entries[0]["MessageBody"] == "b" else EndpointConnectionError(endpoint_url="x")
            )
        return []

    sqs = Sqs(refuse)
    found = queues(sqs).send("q", releases("a", "b", "c", "d"))
    assert [(r.index, r.permanent) for r in found] == [(1, False), (2, False)]
    assert sqs.bodies == ["a", "d"]


@pytest.mark.parametrize(("code", "status"), [("KMS.ThrottlingException", 400), ("RequestThrottled", 403), ("X", 503)])
def test_a_throttled_batch_may_be_tried_again(code: str, status: int) -> None:
    def refuse(entries: list[Any]) -> list[dict[str, Any]]:
        raise error(code, status)

    found = queues(Sqs(refuse)).send("q", releases("a", "b"))
    assert [(r.index, r.permanent) for r in found] == [(0, False), (1, False)]


def test_an_error_that_is_neither_the_queue_s_nor_a_message_s_comes_out() -> None:
    with pytest.raises(ClientError, match="ExpiredToken"):
        queues(Sqs(raises_if("ExpiredToken", lambda texts: True))).send("q", releases("a"))


# ---- the work queue
def test_parts_go_ten_a_request() -> None:
    sqs = Sqs()
    queues(sqs).enqueue_parts(KEY, range(23))
    assert [len(request["Entries"]) for request in sqs.requests] == [10, 10, 3]
    assert {request["QueueUrl"] for request in sqs.requests} == {"work"}
    assert [task_of(body) for body in sqs.bodies] == [PartTask(key=KEY, part=part) for part in range(23)]


def test_each_topic_is_a_group_of_the_work_queue() -> None:
    sqs = Sqs()
    service = queues(sqs)
    service.enqueue_parts(KEY, [1])
    service.enqueue_parks([ParkKey(topic="trials", subscription="billing", generation="s1", id="1")])
    service.enqueue_catch_up("alarms", "billing", "s1")
    groups = [entry["MessageGroupId"] for request in sqs.requests for entry in request["Entries"]]
    assert groups == [KEY.topic, "trials", "alarms"]


def test_who_may_not_send_to_the_work_queue_learns_it() -> None:
    with pytest.raises(QueueUnavailable, match="work does not accept messages: AccessDenied"):
        queues(Sqs(raises_if("AccessDenied", lambda texts: True))).enqueue_catch_up("orders", "billing", "s1")


def test_parts_that_were_not_taken_are_tried_again() -> None:
    seen: list[int] = []

    def refuse(entries: list[Any]) -> list[dict[str, Any]]:
        seen.append(len(entries))
        if len(seen) > 2:
            return []
        return [{"Id": e["Id"], "Code": "InternalError", "SenderFault": False} for e in entries[: 3 - len(seen)]]

    sqs, pauses = Sqs(refuse), list[float]()
    queues(sqs, pauses).enqueue_parts(KEY, range(5))
    assert seen == [5, 2, 1]
    assert len(pauses) == 2
    jobs = [task_of(body) for body in sqs.bodies]
    assert sorted(job.part for job in jobs if isinstance(job, PartTask)) == [0, 1, 2, 3, 4]


def test_parts_that_are_never_taken_are_an_error() -> None:
    sqs = Sqs(lambda entries: [{"Id": entries[0]["Id"], "Code": "InternalError", "SenderFault": False, "Message": "m"}])
    with pytest.raises(QueueUnavailable, match="work does not accept messages: 1 tasks were not taken in 4 tries: m"):
        queues(sqs).enqueue_parts(KEY, range(3))
    assert len(sqs.requests) == ATTEMPTS


# ---- refused messages
def test_a_refused_message_is_one_request_in_ascii() -> None:
    sqs = Sqs()
    queues(sqs).refuse({"body": "\x00ü\ud800"})
    assert sqs.requests == [{"QueueUrl": "refused", "MessageBody": '{"body": "\\u0000\\u00fc\\ud800"}'}]


@pytest.mark.parametrize("character", ["x", "ü", "🌍", "\x00"])
def test_a_refused_message_too_large_for_sqs_is_cut_and_says_so(character: str) -> None:
    body = character * SQS_MAX_BYTES
    text = refused_body({"code": "MessageTooLong", "body": body, "attributes": {"a": "b"}})
    document = json.loads(text)
    assert len(text) <= SQS_MAX_BYTES
    assert len(text) > SQS_MAX_BYTES // 4
    assert document["cut"] == {"body": SQS_MAX_BYTES}
    assert body.startswith(document["body"].rstrip("\ud83c"))
    assert (document["code"], document["attributes"]) == ("MessageTooLong", {"a": "b"})


def test_attributes_too_large_for_sqs_are_cut_too() -> None:
    text = refused_body({"body": "b" * SQS_MAX_BYTES, "attributes": {"a": "a" * SQS_MAX_BYTES}})
    assert len(text) <= SQS_MAX_BYTES
    assert set(json.loads(text)["cut"]) == {"attributes", "body"}


@pytest.mark.parametrize("urgent", [False, True])
def test_a_pack_is_forwarded_in_one_request_as_the_client_sends_it(urgent: bool) -> None:
    sqs = Sqs()
    queues(sqs).forward("orders", 120, b"a pack", urgent=urgent)
    assert sqs.requests == [
        {
            "QueueUrl": "orders-urgent" if urgent else "orders-bulk",
            "MessageBody": '{"topic": "orders", "messages": 120}',
            "MessageAttributes": {"pack": {"DataType": "Binary", "BinaryValue": b"a pack"}},
            "MessageGroupId": "orders",
        }
    ]
