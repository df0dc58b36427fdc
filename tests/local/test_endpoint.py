"""The endpoint of `tidewheel dev` refuses what AWS refuses, and gives nothing to a client that has gone."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tidewheel.local import LocalTidewheel

JSON = "application/x-amz-json-1.0"
FORM = "application/x-www-form-urlencoded"
_numbers = itertools.count()


class Endpoint:
    """The endpoint of a local stack, asked by boto3 and by raw requests."""

    def __init__(self, stack: LocalTidewheel) -> None:
        self.port = int(stack.endpoint_url.rpartition(":")[2])
        self.sqs: Any = boto3.client(
            "sqs",
            endpoint_url=stack.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )

    def queue(self) -> str:
        return str(self.sqs.create_queue(QueueName=f"q-{next(_numbers)}")["QueueUrl"])

    def send_raw(self, service: str, body: str | bytes, kind: str = JSON, **headers: str) -> HTTPConnection:
        credential = f"AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/{service}/aws4_request"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/", body, {"Authorization": credential, "Content-Type": kind, **headers})
        return connection

    def ask(self, service: str, operation: str, **params: Any) -> tuple[int, str]:
        """Returns the answer's status, and the code of an error."""
        connection = self.send_raw(service, json.dumps(params), **{"X-Amz-Target": f"Any.{operation}"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text).get("__type", "").rpartition("#")[2]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with LocalTidewheel(clock="real") as stack:
        yield Endpoint(stack)


@pytest.mark.parametrize(
    ("service", "operation", "params", "code"),
    [
        ("sqs", "SendMessage", {"MessageBody": "x", "MessageDeduplicationId": "1"}, "InvalidParameterValue"),
        ("sqs", "ReceiveMessage", {"ReceiveRequestAttemptId": "1"}, "InvalidParameterValue"),
        ("sqs", "ReceiveMessage", {"WaitTimeSeconds": 21}, "InvalidParameterValue"),
        ("sqs", "ReceiveMessage", {"VisibilityTimeout": -1}, "InvalidParameterValue"),
        ("sqs", "SendMessage", {}, "ValidationException"),
        ("sqs", "SendMessage", {"MessageBody": 5}, "ValidationException"),
        ("sqs", "SendMessageBatch", {"Entries": {"Id": "1"}}, "ValidationException"),
        ("sqs", "SetQueueAttributes", {"Attributes": {"VisibilityTimeout": "soon"}}, "InvalidAttributeValue"),
        ("sqs", "SetQueueAttributes", {"Attributes": {"Colour": "red"}}, "InvalidAttributeName"),
        ("sqs", "Paint", {}, "UnknownOperationException"),
        ("sqs", "CancelMessageMoveTask", {"QueueUrl": None, "TaskHandle": "x"}, "UnknownOperationException"),
        ("dynamodb", "Paint", {"QueueUrl": None}, "UnknownOperationException"),
        ("ssm", "GetParameter", {"QueueUrl": None}, "ValidationException"),
        ("ssm", "Paint", {"QueueUrl": None}, "UnknownOperationException"),
        ("sqs", "SendMessage", {"MessageBody": "x", "DelaySeconds": None, "MessageAttributes": None}, ""),
    ],
)
def test_a_request_that_its_service_does_not_know_is_answered_with_a_code(
    endpoint: Endpoint, service: str, operation: str, params: dict[str, Any], code: str
) -> None:
    named = {"QueueUrl": endpoint.queue(), **params}
    assert endpoint.ask(service, operation, **named) == (400 if code else 200, code)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, "{"),
        (JSON, "[]"),
        (JSON, b"\xff"),
        (FORM, "Action=Paint"),
        (FORM, "Action=ReceiveMessage&QueueUrl=q&MaxNumberOfMessages=many"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_in_the_format_of_its_protocol(
    endpoint: Endpoint, kind: str, body: str | bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage"} if kind == JSON else {}
    answer = endpoint.send_raw("sqs", body, kind, **headers).getresponse()
    text = answer.read().decode()
    assert answer.status == 400
    assert '"__type"' in text if kind == JSON else "<Code>" in text
    assert capfd.readouterr().err == ""


def test_a_queue_was_created_and_changed_at_whole_seconds(endpoint: Endpoint) -> None:
    url = endpoint.queue()
    endpoint.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "5"})
    found = endpoint.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert int(found["CreatedTimestamp"]) <= int(found["LastModifiedTimestamp"])


@pytest.mark.parametrize("again", [False, True], ids=["the same queue", "another queue of its name"])
def test_a_receive_whose_client_has_gone_takes_nothing(endpoint: Endpoint, again: bool) -> None:
    url = endpoint.queue()
    poll = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20})
    for _ in range(3):
        gone = endpoint.send_raw("sqs", poll, **{"X-Amz-Target": "AmazonSQS.ReceiveMessage"})
        assert gone.sock is not None
        gone.sock.shutdown(socket.SHUT_RDWR)
        gone.close()
    if again:
        endpoint.sqs.delete_queue(QueueUrl=url)
        endpoint.sqs.create_queue(QueueName=url.rpartition("/")[2])
    endpoint.sqs.send_message(QueueUrl=url, MessageBody="hello")
    [message] = endpoint.sqs.receive_message(
        QueueUrl=url, WaitTimeSeconds=20, AttributeNames=["ApproximateReceiveCount"]
    )["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_the_client_of_a_refused_message_is_told_by_its_code(endpoint: Endpoint) -> None:
    with pytest.raises(ClientError, match=r"\(InvalidMessageContents\) when calling the SendMessage operation"):
        endpoint.sqs.send_message(QueueUrl=endpoint.queue(), MessageBody="\x01")
