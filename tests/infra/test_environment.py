"""Validates environments. Each error names the field, the value and the correction."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from aws_cdk import RemovalPolicy

from tidewheel.cdk.environment import MAX_DEDICATED_TOPICS, Environment
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import MAX_SEND_THREADS, MAX_SKEW_MS, ServiceSettings

QUEUE_ARN = "arn:aws:sqs:eu-west-1:111122223333:mail"
ROLE_ARN = "arn:aws:iam::111122223333:role/reader"
IMPOSSIBLE: dict[str, tuple[Any, ...]] = {
    "name": ("", None, 7),
    "removal_policy": ("RETAIN", None),
    "log_retention": (30, None),
    "ingest_memory_mib": (-1, 127, 10_241, 512.0, "512", True),
    "dispatch_memory_mib": (127, 10_241),
    "deliver_memory_mib": (127, 10_241),
    "sweep_memory_mib": (127, 10_241),
    "compact_memory_mib": (127, 10_241),
    "merge_workers": (0, 1, 2.5),
    "rebuild_workers": (1,),
    "import_workers": (1,),
    "import_role_arns": ("arn:aws:iam::1:role/x", [ROLE_ARN], ("reader",)),
    "max_skew_ms": (-5000, -1, MAX_SKEW_MS + 1, 0.5),
    "send_threads": (0, MAX_SEND_THREADS + 1),
    "sweep_interval_s": (0, 90, 360),
    "subscriber_queue_arns": (QUEUE_ARN, [QUEUE_ARN], (7,), ("mail",)),
    "dedicated_topics": (
        "orders",
        ("no topic",),
        ("orders", "orders"),
        tuple(map(str, range(MAX_DEDICATED_TOPICS + 1))),  # one too many
    ),
    "encryption_key_arn": ("", 7),
    "own_key": (None, 1),
    "deleted_object_days": (0, 1.5, True),
    "warm_read_units": (0, 11_999, 12_000.0, True),
    "warm_write_units": (0, 3_999, "4000"),
    "access_log_bucket": ("", 7),
    "urgent_concurrency": (1, 1001),
    "bulk_concurrency": (1, 1001),
    "work_concurrency": (1, 1001),
    "reserved_concurrency": (7, {"dispatch": 0}, {"dispatch": 1.5}, {"nothing": 5}),
    "alarms": (1, "no"),
    "dashboard": ("no",),
    "metrics": (None,),
    "tracing": ("",),
    "log_level": ("LOUD", None),
    "oldest_due_alarm_s": (59, 300.5),
    "queue_age_alarm_s": (959,),
    "spark": (1, None, "no"),
    "glue_version": ("", None, "5.1", "6", "6.0 ", "7.0"),
}
POSSIBLE: dict[str, tuple[Any, ...]] = {
    "ingest_memory_mib": (128, 10_240),
    "rebuild_workers": (2, 100),
    "max_skew_ms": (0, MAX_SKEW_MS),
    "send_threads": (1, MAX_SEND_THREADS),
    "import_role_arns": ((), (ROLE_ARN,), ("${Token[Reader.Arn.7]}",)),
    "subscriber_queue_arns": ((), (QUEUE_ARN,), ("${Token[Mail.Arn.7]}",)),
    "deleted_object_days": (None, 1),
    "warm_read_units": (None, 12_000),
    "warm_write_units": (None, 4_000, 40_000),
    "urgent_concurrency": (2, 1000),
    "glue_version": ("6.0", "6.1"),
    "reserved_concurrency": ({"dispatch": 1},),
    "removal_policy": tuple(RemovalPolicy),
}


def each(table: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [(name, value) for name, values in table.items() for value in values]


def test_every_field_has_values_that_are_refused() -> None:
    assert IMPOSSIBLE.keys() == {field.name for field in fields(Environment)}


@pytest.mark.parametrize(("name", "value"), each(IMPOSSIBLE))
def test_a_value_that_cannot_be_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=name):
        Environment.production(**{name: value})


@pytest.mark.parametrize(("name", "value"), each(POSSIBLE))
def test_the_least_and_the_greatest_value_are_taken(name: str, value: Any) -> None:
    assert getattr(Environment.development(**{name: value}), name) == value


@pytest.mark.parametrize("policy", list(RemovalPolicy))
def test_only_what_is_to_be_destroyed_is_not_protected(policy: RemovalPolicy) -> None:
    assert Environment.production(removal_policy=policy).protected is (policy is not RemovalPolicy.DESTROY)


TEXTS = {
    "stack": "s",
    "table": "t",
    "s3_bucket": "b",
    "urgent_queue_url": "u",
    "bulk_queue_url": "k",
    "work_queue_url": "w",
    "refused_queue_url": "r",
    "schedule_group": "g",
    "schedule_role_arn": "a",
    "dispatch_arn": "d",
    "schedule_dead_letter_arn": "l",
    "compact_function": "c",
    "merge_job": "m",
}


@pytest.mark.parametrize(("name", "value"), [("max_skew_ms", "-1"), ("send_threads", "0")])
def test_a_function_refuses_settings_that_would_make_messages_early_or_send_none(name: str, value: str) -> None:
    values = {f"TIDEWHEEL_{key.upper()}": text for key, text in TEXTS.items()}
    assert ServiceSettings.from_environment(values).max_skew_ms == 100
    with pytest.raises(InvalidValue, match=name):
        ServiceSettings.from_environment(values | {f"TIDEWHEEL_{name.upper()}": value})
