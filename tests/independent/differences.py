"""Differences of DynamoDB Local, ElasticMQ and versitygw from AWS, and the tests excluded for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A behaviour of a server that differs from AWS.

    Attributes:
        part: whose behaviour.
        does: what the part does.
        aws: what AWS does.
        here: how these tests deal with the difference.
    """

    part: str
    does: str
    aws: str
    here: str


DIFFERENCES = (
    Difference(
        part="DynamoDB Local",
        does="lets a write wait while a transaction has its item",
        aws="refuses the write with TransactionConflict",
        here="the race refuses such writes itself, before they reach the server (tests/independent/network.py)",
    ),
    Difference(
        part="DynamoDB Local",
        does="gives each access key a database of its own",
        aws="tables belong to an account, whoever's keys it has",
        here="started with -sharedDb",
    ),
    Difference(
        part="DynamoDB Local",
        does="never throttles",
        aws="throttles a partition above 1,000 write units a second",
        here="tests of throttling plant the answer",
    ),
)

EXCLUDED = {
    "test_memory_sqs.py": "compares the SQS in memory with moto's, and moves moto's clock",
    "test_wheel.py::test_each_slot_that_was_armed_has_one_schedule[aws]": "no part has EventBridge Scheduler",
    "test_wheel.py::test_arming_a_slot_again_is_fine_and_changes_nothing[aws]": "no part has EventBridge Scheduler",
    "test_wheel.py::test_all_schedules_of_a_topic_are_deleted_and_no_others[aws]": "no part has EventBridge Scheduler",
}
"""Contract suites and tests that cannot run on the parts, each with the reason."""
