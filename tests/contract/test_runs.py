"""Tests the port Runs in memory and on AWS, with the exact requests to AWS."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from tests.contract.aws_resources import client
from tidewheel.aws.runs import AwsRuns
from tidewheel.errors import NotConfigured
from tidewheel.flows.ports import MergeSize, Runs
from tidewheel.memory import MemoryRuns

INVOKE = {"FunctionName": "the-compact", "InvocationType": "Event", "Payload": b'{"topic": "orders"}'}
START_JOB_RUN = {"JobName": "the-merge", "Arguments": {"--topic": "orders,mail"}}


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

    def assert_done(self) -> None:
        self.functions.assert_no_pending_responses()
        self.jobs.assert_no_pending_responses()


def test_merges_that_are_started_are_noted_in_memory() -> None:
    memory = MemoryRuns()
    port: Runs = memory
    port.merge("orders")
    assert port.merge_large(["orders", "mail"])
    assert memory.merges == [("orders", MergeSize.SMALL), ("orders", MergeSize.LARGE), ("mail", MergeSize.LARGE)]


def test_a_merge_is_one_request_on_aws_and_so_are_all_large_ones() -> None:
    aws = Aws()
    port: Runs = aws.port
    aws.functions.add_response("invoke", {"StatusCode": 202}, INVOKE)
    port.merge("orders")
    aws.jobs.add_response("start_job_run", {"JobRunId": "jr_1"}, START_JOB_RUN)
    assert port.merge_large(["orders", "mail"])
    aws.assert_done()


def test_a_dispatch_is_one_request_on_aws_and_is_noted_in_memory() -> None:
    aws, memory = Aws(), MemoryRuns()
    aws.functions.add_response("invoke", {"StatusCode": 202}, INVOKE | {"FunctionName": "the-dispatch"})
    ports: list[Runs] = [aws.port, memory]
    for port in ports:
        port.dispatch("orders")
    aws.assert_done()
    assert memory.dispatches == ["orders"]


def test_a_job_that_runs_already_is_to_be_started_later() -> None:
    aws = Aws()
    aws.jobs.add_client_error("start_job_run", "ConcurrentRunsExceededException", expected_params=START_JOB_RUN)
    assert not aws.port.merge_large(["orders", "mail"])
    aws.assert_done()


def test_the_largest_merge_is_small_where_there_is_no_job() -> None:
    assert Aws().port.largest is MemoryRuns().largest is MergeSize.LARGE
    without = Aws(merge_job=None).port
    assert without.largest is MemoryRuns(MergeSize.SMALL).largest is MergeSize.SMALL
    with pytest.raises(NotConfigured, match="no Spark jobs"):
        without.merge_large(["orders"])


def test_any_other_refusal_comes_out() -> None:
    aws = Aws()
    aws.jobs.add_client_error("start_job_run", "EntityNotFoundException")
    with pytest.raises(ClientError, match="EntityNotFoundException"):
        aws.port.merge_large(["orders"])
    aws.functions.add_client_error("invoke", "ResourceNotFoundException")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        aws.port.merge("orders")
