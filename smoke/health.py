"""How the service itself is at the end: alarms, dead letters, functions that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from smoke.cloud import Cloud, Usage, resources
from smoke.verdict import Check

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

EXPECTED_ALARMS = ("Broken",)
"""Parts of the names of alarms that the trial's own broken queue sets off."""
_DEAD = ("DeadLetters", "Refused")
"""Parts of the logical ids of the queues that only people read."""
_CLIENTS_DEAD = "-dead"
_ALARMS_A_CALL = 100


def health(cloud: Cloud, usage: Usage) -> list[Check]:
    """Returns the checks of alarms, dead letters and functions."""
    found = resources(cloud.session, cloud.stack_name)
    alarms = [name for _, name in found.get("AWS::CloudWatch::Alarm", [])]
    return [_alarms(cloud, alarms), _dead_letters(cloud, found.get("AWS::SQS::Queue", [])), _throttles(usage)]


def _alarms(cloud: Cloud, names: list[str]) -> Check:
    """An alarm without data yet is not an alarm."""
    cloudwatch = cloud.session.client("cloudwatch")
    states: dict[str, str] = {}
    for start in range(0, len(names), _ALARMS_A_CALL):
        answer = cloudwatch.describe_alarms(AlarmNames=names[start : start + _ALARMS_A_CALL])
        states |= {each["AlarmName"]: str(each["StateValue"]) for each in answer["MetricAlarms"]}
    ringing = [name for name, state in states.items() if state == "ALARM"]
    unexpected = [name for name in ringing if not any(part in name for part in EXPECTED_ALARMS)]
    told = f", {len(ringing) - len(unexpected)} as expected" if len(ringing) > len(unexpected) else ""
    detail = ", ".join(unexpected) or f"{len(names)} alarms, {len(states)} of them with a state{told}"
    return Check(name="no alarm rings", passed=bool(names) is cloud.has_alarms and not unexpected, detail=detail)


def _dead_letters(cloud: Cloud, queues: list[tuple[str, str]]) -> Check:
    sqs = cloud.session.client("sqs")
    urls = [url for logical_id, url in queues if any(part in logical_id for part in _DEAD)]
    for page in sqs.get_paginator("list_queues").paginate(QueueNamePrefix=f"{cloud.stack_name}-"):
        urls += [url for url in page.get("QueueUrls", []) if url.endswith(_CLIENTS_DEAD)]
    counts = {url.rpartition("/")[2]: _depth(sqs, url) for url in urls}
    full = [f"{name}: {count}" for name, count in counts.items() if count]
    detail = ", ".join(full) or f"{len(counts)} queues of dead letters are empty"
    return Check(name="there are no dead letters", passed=bool(counts) and not full, detail=detail)


def _depth(sqs: SQSClient, url: str) -> int:
    try:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    except ClientError as error:
        if "NonExistent" in error.response["Error"]["Code"]:  # SQS lists a deleted queue for a minute
            return 0
        raise
    return int(found["Attributes"]["ApproximateNumberOfMessages"])


def _throttles(usage: Usage) -> Check:
    throttled = [f"{name}: {count}" for name, count in usage.throttles.items() if count]
    detail = ", ".join(throttled) or f"{sum(usage.invocations.values()):,} invocations"
    return Check(name="no function was throttled", passed=not throttled, detail=detail)
