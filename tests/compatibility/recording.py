"""A recording of a stack's whole data as a file. Every later release must go on from the file.

The file is gzip of one JSON object; bytes are base64 text:

    {"release": ..., "layout": ..., "now_ms": ..., "stack": ...,
     "items": [...],                 the table, as DynamoDB's low-level client gives it
     "objects": {name: bytes},       the S3 bucket
     "queues": [{"name": ..., "role": ..., "attributes": {...}, "tags": {...},
                 "messages": [{"body": ..., "attributes": {...}, "wait_s": ...}]}],
     "schedules": [{"name": ..., "expression": ..., "input": ...}],
     "expected": {"<topic>/<subscription>": [[deliver_at_ms, digest of the body], ...]},
     "steps": [[at_ms, verb, argument, ...], ...],
     "gone": [topic, ...]}

The stack's own queues go by their role, since a later release may name them otherwise.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidewheel.local import LocalTidewheel
from tidewheel.model.settings import ServiceSettings, parameter_name

OWN_QUEUES = {role: f"{role}_queue_url" for role in ("urgent", "bulk", "work", "refused")}
_KEPT_ATTRIBUTES = ("VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQueue:
    """A queue and its messages.

    Attributes:
        role: which of the stack's own queues it is; None: a subscription's, or its dead letters'.
        messages: body, attributes as SQS takes them, and in how many seconds each can be received.
    """

    name: str
    role: str | None
    attributes: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The expected aftermath of a recording.

    Attributes:
        expected: "<topic>/<subscription>" -> when each of its messages is due, and the digest of its body.
        steps: what its users do later: when, a verb of `aftermath.VERBS`, and the verb's arguments.
        gone: topics of which nothing must be left.
    """

    expected: dict[str, list[tuple[int, str]]]
    steps: list[list[Any]]
    gone: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The whole data of a stack at a moment, and its expected aftermath."""

    release: str
    layout: int
    now_ms: int
    stack: str
    items: list[dict[str, Any]]
    objects: dict[str, bytes]
    queues: list[RecordedQueue]
    schedules: list[dict[str, str]]
    story: Story

    def write(self, path: Path) -> None:
        """Writes the file. The same recording gives the same bytes."""
        document = asdict(self)
        document |= document.pop("story")
        text = json.dumps(document, default=_text_of_bytes, sort_keys=True, separators=(",", ":"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads the file."""
        document = json.loads(gzip.decompress(path.read_bytes()), object_hook=_with_bytes)
        expected = {whom: [(due, digest) for due, digest in all_] for whom, all_ in document.pop("expected").items()}
        story = Story(expected=expected, steps=document.pop("steps"), gone=document.pop("gone"))
        queues = [RecordedQueue(**each) for each in document.pop("queues")]
        return cls(queues=queues, story=story, **document)


def _text_of_bytes(value: object) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value)} is not recorded")


def _with_bytes(document: dict[str, Any]) -> Any:
    return base64.b64decode(document["base64"]) if set(document) == {"base64"} else document


def settings_of(stack: LocalTidewheel) -> ServiceSettings:
    """Returns where a stack's parts are."""
    name = parameter_name(stack.stack_name)
    return ServiceSettings.from_json(
        stack.session.client("ssm").get_parameter(Name=name)["Parameter"]["Value"], f"SSM parameter {name}"
    )


# ---- from a stack
def take(stack: LocalTidewheel, *, release: str, layout: int, story: Story) -> Recording:
    """Records the whole data of an open stack."""
    settings = settings_of(stack)
    dynamodb: Any = stack.session.client("dynamodb")
    pages = dynamodb.get_paginator("scan").paginate(TableName=settings.table)
    return Recording(
        release=release,
        layout=layout,
        now_ms=stack.clock.now_ms(),
        stack=stack.stack_name,
        items=[item for page in pages for item in page["Items"]],
        objects=_objects(stack, settings),
        queues=list(_queues(stack, settings)),
        schedules=_schedules(stack, settings),
        story=story,
    )


def _objects(stack: LocalTidewheel, settings: ServiceSettings) -> dict[str, bytes]:
    s3: Any = stack.session.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=settings.s3_bucket)
    names = [each["Key"] for page in pages for each in page.get("Contents", ())]
    return {name: s3.get_object(Bucket=settings.s3_bucket, Key=name)["Body"].read() for name in names}


def _queues(stack: LocalTidewheel, settings: ServiceSettings) -> Iterator[RecordedQueue]:
    sqs: Any = stack.session.client("sqs")
    own = {getattr(settings, name): role for role, name in OWN_QUEUES.items()}
    for url in sqs.list_queues()["QueueUrls"]:
        tags = sqs.list_queue_tags(QueueUrl=url).get("Tags", {})
        if url not in own and "tidewheel:topic" not in tags:
            continue
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        yield RecordedQueue(
            name=url.rpartition("/")[2],
            role=own.get(url),
            attributes={name: found[name] for name in _KEPT_ATTRIBUTES if name in found},
            tags=tags,
            messages=[_message(each, stack.clock.now_ms()) for each in stack.queue(url).everything],
        )


def _message(message: Any, now_ms: int) -> dict[str, Any]:
    attributes = {
        name: {part: value[part] for part in ("DataType", "StringValue", "BinaryValue") if value.get(part) is not None}
        for name, value in message.message_attributes.items()
    }
    return {
        "body": message.body,
        "attributes": attributes,
        "wait_s": max(0, -((now_ms - message.ready_at_ms) // 1000)),
    }


def _schedules(stack: LocalTidewheel, settings: ServiceSettings) -> list[dict[str, str]]:
    scheduler: Any = stack.session.client("scheduler")
    pages = scheduler.get_paginator("list_schedules").paginate(GroupName=settings.schedule_group)
    found = [
        scheduler.get_schedule(GroupName=settings.schedule_group, Name=each["Name"])
        for page in pages
        for each in page["Schedules"]
        # The sweep's own is the template's: it has no topic before a dot.
        if "." in each["Name"]
    ]
    return [
        {"name": each["Name"], "expression": each["ScheduleExpression"], "input": each["Target"]["Input"]}
        for each in found
    ]


# ---- into a stack
@contextmanager
def restored(recording: Recording) -> Iterator[LocalTidewheel]:
    """Opens a stack of this release in the state of the recording."""
    start = datetime.fromtimestamp(recording.now_ms / 1000, UTC)
    with LocalTidewheel(start=start, stack_name=recording.stack) as stack:
        settings = settings_of(stack)
        dynamodb: Any = stack.session.client("dynamodb")
        s3: Any = stack.session.client("s3")
        for item in recording.items:
            dynamodb.put_item(TableName=settings.table, Item=item)
        for name, data in recording.objects.items():
            s3.put_object(Bucket=settings.s3_bucket, Key=name, Body=data)
        _restore_queues(stack, settings, recording.queues)
        _restore_schedules(stack, settings, recording.schedules)
        yield stack


def _restore_queues(stack: LocalTidewheel, settings: ServiceSettings, queues: list[RecordedQueue]) -> None:
    sqs: Any = stack.session.client("sqs")
    # Dead letters first: the others name them.
    for queue in sorted(queues, key=lambda each: "RedrivePolicy" in each.attributes):
        if queue.role is not None:
            url = getattr(settings, OWN_QUEUES[queue.role])
        else:
            url = sqs.create_queue(QueueName=queue.name, Attributes=queue.attributes, tags=queue.tags)["QueueUrl"]
        for each in queue.messages:
            sqs.send_message(
                QueueUrl=url,
                MessageBody=each["body"],
                MessageAttributes=each["attributes"],
                DelaySeconds=each["wait_s"],
            )


def _restore_schedules(stack: LocalTidewheel, settings: ServiceSettings, schedules: list[dict[str, str]]) -> None:
    scheduler: Any = stack.session.client("scheduler")
    for each in schedules:
        scheduler.create_schedule(
            Name=each["name"],
            GroupName=settings.schedule_group,
            ScheduleExpression=each["expression"],
            ScheduleExpressionTimezone="UTC",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": settings.dispatch_arn,
                "RoleArn": settings.schedule_role_arn,
                "Input": each["input"],
                "DeadLetterConfig": {"Arn": settings.schedule_dead_letter_arn},
            },
        )
