"""The endpoint with faults behaves as documented."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError
from moto.server import ThreadedMotoServer

from tests.slow_endpoint import Mode, SlowEndpoint


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


def client(endpoint: SlowEndpoint, service: str, read_timeout: float = 30) -> Any:
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    config = Config(retries={"total_max_attempts": 1}, read_timeout=read_timeout, s3={"addressing_style": "path"})
    return session.client(service, endpoint_url=endpoint.url, config=config)  # type: ignore[call-overload]


def test_all_services_are_passed_on_with_their_bodies(moto: str) -> None:
    with SlowEndpoint(moto) as endpoint:
        sqs, s3 = client(endpoint, "sqs"), client(endpoint, "s3")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="hello")
        assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "hello"
        s3.create_bucket(Bucket="things")
        s3.put_object(Bucket="things", Key="a/b c", Body=b"\0" * 100_000)
        assert s3.head_object(Bucket="things", Key="a/b c")["ContentLength"] == 100_000
        assert s3.get_object(Bucket="things", Key="a/b c")["Body"].read() == b"\0" * 100_000
        assert endpoint.count("sqs") == 3 and endpoint.count("sqs", "SendMessage") == 1
        assert endpoint.count("s3", "PUT") == 2


@pytest.mark.parametrize(
    ("service", "call", "throttled"),
    [
        ("dynamodb", "list_tables", "ProvisionedThroughputExceededException"),
        ("sqs", "list_queues", "RequestThrottled"),
        ("s3", "list_buckets", "SlowDown"),
        ("ssm", "describe_parameters", "ThrottlingException"),
        ("lambda", "list_functions", "TooManyRequestsException"),
    ],
)
def test_each_service_refuses_in_its_own_words(service: str, call: str, throttled: str) -> None:
    with SlowEndpoint(mode=Mode.THROTTLE) as endpoint:
        with pytest.raises(ClientError) as caught:
            getattr(client(endpoint, service), call)()
        assert caught.value.response["Error"]["Code"] == throttled
        endpoint.be(Mode.ERROR)
        with pytest.raises(ClientError) as caught:
            getattr(client(endpoint, service), call)()
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert endpoint.count(service) == 2


def test_a_hanging_endpoint_answers_nothing_and_lets_go_of_its_requests_when_it_is_well(moto: str) -> None:
    with SlowEndpoint(moto, Mode.HANG) as endpoint:
        with pytest.raises(ReadTimeoutError):
            client(endpoint, "sqs", read_timeout=0.3).list_queues()
        endpoint.be(Mode.OK)
        client(endpoint, "sqs").list_queues()
        assert endpoint.count("sqs") == 2


def test_one_operation_is_lost_and_the_others_are_well(moto: str) -> None:
    with SlowEndpoint(moto) as endpoint:
        sqs = client(endpoint, "sqs")
        endpoint.be(Mode.LOST, lambda asked: asked.operation == "CreateQueue")
        with pytest.raises(ReadTimeoutError):
            client(endpoint, "sqs", read_timeout=3).create_queue(QueueName="made")
        assert sqs.get_queue_url(QueueName="made")["QueueUrl"].endswith("/made")


def test_connections_are_refused_and_then_accepted_at_the_same_url(moto: str) -> None:
    with SlowEndpoint(moto) as endpoint:
        sqs = client(endpoint, "sqs")
        sqs.list_queues()
        endpoint.be(Mode.REFUSE)
        with pytest.raises((EndpointConnectionError, ConnectionClosedError)):
            sqs.list_queues()
        with pytest.raises(EndpointConnectionError):
            sqs.list_queues()
        endpoint.be(Mode.OK)
        sqs.list_queues()


def test_a_late_answer_is_an_answer(moto: str) -> None:
    with SlowEndpoint(moto, Mode.LATE, late_s=0.15) as endpoint:
        begin_s = time.monotonic()
        client(endpoint, "sqs").list_queues()
        assert time.monotonic() - begin_s >= 0.15
