"""The endpoint of `tidewheel dev`, asked by web pages and by AWS clients."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel

PAGE = "http://localhost:3000"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with LocalTidewheel(clock="real") as stack:
        stack.client().create_topic("orders")
        stack.client().create_subscription("orders", "billing")
        yield int(stack.endpoint_url.rpartition(":")[2])


def ask(port: int, line: str, *headers: str, body: str = "") -> tuple[int, str, str]:
    """Sends a raw request. Returns the answer's status, lower-case headers, and body."""
    sent = [line, *headers, "Connection: close", *([f"Content-Length: {len(body)}"] if body else []), "", body]
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall("\r\n".join(sent).encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    head, _, content = answer.partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), content


def client(port: int, name: str, host: str = "127.0.0.1", **config: Any) -> Any:
    return boto3.client(  # type: ignore[call-overload]
        name,
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


def refused(answer: tuple[int, str, str], named: str) -> None:
    """Checks that an answer is a refusal with a reason, and not readable by web pages."""
    status, head, text = answer
    assert status == 403
    assert text.startswith("Refused: ")
    assert named in text
    assert "access-control" not in head


def works(port: int) -> None:
    """Checks that the topic is unchanged."""
    session = boto3.Session("local", "local", region_name="us-east-1")
    tw = Tidewheel(session=session, endpoint_url=f"http://127.0.0.1:{port}")
    assert [each.name for each in tw.topics()] == ["orders"]


LIST_QUEUES = "Action=ListQueues&Version=2012-11-05"


@pytest.mark.parametrize(
    ("line", "headers", "body", "named"),
    [
        ("POST / HTTP/1.1", [f"Origin: {PAGE}", f"Content-Type: {FORM}"], LIST_QUEUES, PAGE),
        ("POST / HTTP/1.1", ["Origin: null", f"Content-Type: {FORM}"], LIST_QUEUES, "null"),
        ("POST / HTTP/1.1", ["Sec-Fetch-Site: cross-site", f"Content-Type: {FORM}"], LIST_QUEUES, "cross-site"),
        ("GET /?Action=ListQueues HTTP/1.1", ["Sec-Fetch-Site: same-site"], "", "same-site"),
        ("GET / HTTP/1.1", ["Sec-Fetch-Site: none"], "", "none"),
        ("GET /page.html HTTP/1.1", ["sec-fetch-site: same-origin"], "", "same-origin"),
        (
            "OPTIONS / HTTP/1.1",
            [f"Origin: {PAGE}", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-amz-target"],
            "",
            PAGE,
        ),
    ],
)
def test_a_web_page_is_refused(port: int, line: str, headers: list[str], body: str, named: str) -> None:
    refused(ask(port, line, f"Host: 127.0.0.1:{port}", *headers, body=body), named)


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example", "localhost.rebound.example", "127.0.0.1.rebound.example", "notlocalhost",
        "rebound.example/.localhost", "rebound.example,localhost", "localhost@rebound.example", "10.0.0.1", "[::2]",
        "",
    ],
)  # fmt: skip
def test_a_name_that_was_made_to_resolve_to_this_machine_is_refused(port: int, host: str) -> None:
    refused(ask(port, "GET / HTTP/1.1", f"Host: {host}"), f"Host is {host!r}")


def test_a_request_without_a_host_or_with_two_is_refused(port: int) -> None:
    refused(ask(port, "GET / HTTP/1.0"), "Host is ''")
    refused(ask(port, "GET / HTTP/1.1", "Host: localhost", "Host: rebound.example"), "rebound.example")
    refused(ask(port, "GET http://rebound.example/ HTTP/1.1", "Host: localhost"), "rebound.example")


@pytest.mark.parametrize(
    "path",
    [
        "/moto-api", "/moto-api/", "/moto-api/reset", "/moto-api/data.json?x=1", "/moto-api?/..", "//moto-api/reset",
        "///moto-api/reset", "/./moto-api/reset", "/x/../moto-api/reset", "/%2Fmoto-api/reset", "%2Fmoto-api/reset",
        "/moto%2Dapi/reset", "/%6doto-api%2freset", "http://localhost/moto-api/reset",
    ],
)  # fmt: skip
def test_motos_own_interface_is_closed_to_everybody(port: int, path: str) -> None:
    refused(ask(port, f"POST {path} HTTP/1.1", "Host: localhost"), "moto-api")
    works(port)


def test_a_signature_for_motos_own_interface_opens_it_to_nobody(port: int) -> None:
    signed = "Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/amazonaws.com/motoapi/aws4_request, Signature=a"
    for path in ("/reset", "/x/moto-api/reset", "//x//moto-api/reset", "/favicon.ico"):
        assert ask(port, f"POST {path} HTTP/1.1", "Host: localhost", signed)[0] >= 400
    works(port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "tidewheel.localhost", "[::1]", "127.8.8.8"])
def test_a_client_may_name_this_machine_as_it_likes(port: int, host: str) -> None:
    headers = f"Host: {host}:{port}", f"Content-Type: {FORM}", "Sec-Fetch-Mode: cors"  # Node's fetch sends it
    signed = "Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sqs/aws4_request, Signature=a"
    status, _, text = ask(port, "POST / HTTP/1.1", *headers, signed, body=LIST_QUEUES)
    assert status == 200
    assert "orders" in text


def test_sqs_and_dynamodb_answer_boto3_as_before(port: int) -> None:
    sqs, dynamodb = client(port, "sqs"), client(port, "dynamodb", "localhost")
    url = sqs.create_queue(QueueName="mine")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "hello"
    assert dynamodb.list_tables()["TableNames"]


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_s3_answers_boto3_as_before_in_both_styles(port: int, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo  # not every machine resolves names below localhost
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more))
    s3 = client(port, "s3", "localhost", s3={"addressing_style": style})
    s3.create_bucket(Bucket=f"{style}-bucket")
    s3.put_object(Bucket=f"{style}-bucket", Key="a/moto-api/b c", Body=b"content", Metadata={"its-name": "x"})
    assert s3.get_object(Bucket=f"{style}-bucket", Key="a/moto-api/b c")["Body"].read() == b"content"
    head = s3.head_object(Bucket=f"{style}-bucket", Key="a/moto-api/b c")
    assert (head["ContentLength"], head["Metadata"]) == (7, {"its-name": "x"})
    address = s3.generate_presigned_url("get_object", Params={"Bucket": f"{style}-bucket", "Key": "a/moto-api/b c"})
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.read() == b"content"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=f"{style}-bucket")["Contents"]] == ["a/moto-api/b c"]


def test_an_sdk_that_uses_another_name_reads_why_it_is_refused(port: int) -> None:
    sqs = client(port, "sqs")
    sqs.meta.events.register("before-sign", lambda request, **_: request.headers.add_header("Host", "up.example"))
    with pytest.raises(ClientError, match=r"Host is 'up\.example'.*Use localhost"):
        sqs.list_queues()
