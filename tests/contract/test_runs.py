"""Tests the port Runs in memory and on AWS, with the exact requests to AWS."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from tests.contract.aws_resources import client
from tidewheel.aws.runs import AwsRuns
from tidewheel.clock import ManualClock
from tidewheel.errors import NotConfigured
from tidewheel.flows.ports.runs import MergeSize, Runs
from tidewheel.memory import MemoryRuns, MemoryService

INVOKE = {"FunctionName": "the-compact", "InvocationType": "Event", "Payload": b'{"topic": "orders"}'}
START_JOB_RUN = {"JobName": "the-merge", "Arguments": {"--topic": "orders"}}


class Aws:
    """The port on stubbed clients. Each answer comes from the test."""

    def __init__(self, merge_job: str | None = "the-merge") -> None:
        lambda_client, glue_client = client("lambda"), client("glue")
        self.functions, self.jobs = Stubber(lambda_client), Stubber(glue_client)
        self.functions.activate()
        self.jobs.activate()
        self.port = AwsRuns(
            lambda: lambda_client,
            lambda: glue_client,
            dispatch_function="the-dispatch",
            compact_function="the-compact",
            merge_job=merge_job,
        )

    def expect(self, size: MergeSize) -> None:
        if size is MergeSize.SMALL:
            self.functions.add_response("invoke", {"StatusCode": 202}, INVOKE)
        else:
            self.jobs.add_response("start_job_run", {"JobRunId": "jr_1"}, START_JOB_RUN)

    def assert_done(self) -> None:
        self.functions.assert_no_pending_responses()
        self.jobs.assert_no_pending_responses()


@pytest.mark.parametrize("size", list(MergeSize))
def test_a_merge_that_is_started_is_noted_in_memory(size: MergeSize) -> None:
    memory = MemoryRuns()
    port: Runs = memory
    port.merge("orders", size)
    port.merge("mail", size)
    assert memory.merges == [("orders", size), ("mail", size)]


@pytest.mark.parametrize("size", list(MergeSize))
def test_a_merge_is_one_request_on_aws(size: MergeSize) -> None:
    aws = Aws()
    port: Runs = aws.port
    aws.expect(size)
    port.merge("orders", size)
    aws.assert_done()


def test_a_dispatch_is_one_request_on_aws_and_is_noted_in_memory() -> None:
    aws, memory = Aws(), MemoryRuns()
    aws.functions.add_response("invoke", {"StatusCode": 202}, INVOKE | {"FunctionName": "the-dispatch"})
    ports: list[Runs] = [aws.port, memory]
    for port in ports:
        port.dispatch("orders")
    aws.assert_done()
    assert memory.dispatches == ["orders"]


def test_the_payload_is_the_event_of_the_function() -> None:
    payload: Any = INVOKE["Payload"]
    assert json.loads(payload) == {"topic": "orders"}


def test_a_job_with_as_many_runs_as_it_may_have_counts_as_started() -> None:
    aws = Aws()
    aws.jobs.add_client_error("start_job_run", "ConcurrentRunsExceededException", expected_params=START_JOB_RUN)
    aws.port.merge("orders", MergeSize.LARGE)
    aws.assert_done()


def test_the_largest_merge_is_small_where_there_is_no_job() -> None:
    assert Aws().port.largest is MemoryRuns().largest is MergeSize.LARGE
    without = Aws(merge_job=None).port
    assert without.largest is MemoryRuns(MergeSize.SMALL).largest is MergeSize.SMALL
    with pytest.raises(NotConfigured, match="no Spark jobs"):
        without.merge("orders", MergeSize.LARGE)


def test_any_other_refusal_comes_out() -> None:
    aws = Aws()
    aws.jobs.add_client_error("start_job_run", "EntityNotFoundException")
    with pytest.raises(ClientError, match="EntityNotFoundException"):
        aws.port.merge("orders", MergeSize.LARGE)
    aws.functions.add_client_error("invoke", "ResourceNotFoundException")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        aws.port.merge("orders", MergeSize.SMALL)


def test_the_service_in_memory_starts_merges() -> None:
    service = MemoryService.at(ManualClock(5))
    service.runs.merge("orders", MergeSize.SMALL)
    assert service.runs.merges == [("orders", MergeSize.SMALL)]
