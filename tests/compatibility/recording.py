"""A recording of a service's whole data as a file. Every later release must go on from the file.

The file is gzip of one JSON object, with bytes as {"base64": text}. The service is `MemoryTidewheel`: its table,
objects, messages and schedules are those of AWS, as the contract suites prove.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidewheel.clock import utc
from tidewheel.local import MemoryTidewheel
from tidewheel.model.settings import ServiceSettings

OWN_QUEUES = ("urgent", "bulk", "work", "refused")
_KEPT_ATTRIBUTES = ("VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The whole data of a service at a moment, and its expected aftermath.

    Attributes:
        items, objects: the table's items, and the objects by name.
        queues: each with its role (None: a subscription's, or its dead letters'), name, attributes, tags, and messages,
            of which each has a body, attributes, and the seconds until it can be received.
        schedules: topic, slot and time of each.
        expected: "<topic>/<subscription>" -> when each of its messages is due, and the digest of its body.
        steps: what its users do later: when, a verb of `test_recordings.VERBS`, and the verb's arguments.
        gone: topics of which nothing must be left.
    """

    release: str
    layout: int
    now_ms: int
    items: list[dict[str, Any]]
    objects: dict[str, bytes]
    queues: list[dict[str, Any]]
    schedules: list[tuple[str, int, int]]
    expected: dict[str, list[tuple[int, str]]]
    steps: list[list[Any]]
    gone: list[str]

    def write(self, path: Path) -> None:
        """Writes the file. The same recording gives the same bytes."""
        text = json.dumps(asdict(self), default=_text_of_bytes, sort_keys=True, separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Reads the file."""
        return cls(**json.loads(gzip.decompress(path.read_bytes()), object_hook=_with_bytes))


def _text_of_bytes(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _with_bytes(document: dict[str, Any]) -> Any:
    return base64.b64decode(document["base64"]) if set(document) == {"base64"} else document


def data_of(stack: MemoryTidewheel) -> dict[str, Any]:
    """Returns the whole data of a service, as a recording has it."""
    objects = stack.service.objects
    return {
        "now_ms": stack.clock.now_ms(),
        "items": stack.service.dynamodb.items(),
        "objects": {name: objects.get_range(name, 0, 1 << 40) for name in objects.names()},
        "queues": _queues(stack),
        "schedules": sorted(stack.service.wheel.schedules.values()),
    }


def settings_of(stack: MemoryTidewheel) -> ServiceSettings:
    """Returns where a service's parts are."""
    return stack.client().core.connection.settings


def _queues(stack: MemoryTidewheel) -> list[dict[str, Any]]:
    roles = {getattr(settings_of(stack), f"{role}_queue_url"): role for role in OWN_QUEUES}
    found = [stack.queue(url) for url in stack.sqs.list_queues()["QueueUrls"]]
    return [
        {
            "role": roles.get(queue.url),
            "name": queue.url.rpartition("/")[2],
            "attributes": {name: text for name, text in queue.attributes.items() if name in _KEPT_ATTRIBUTES},
            "tags": stack.sqs.list_queue_tags(QueueUrl=queue.url).get("Tags", {}),
            "messages": [
                {
                    "body": each.body,
                    "attributes": dict(each.message_attributes),
                    "wait_s": max(0, -((stack.clock.now_ms() - each.ready_at_ms) // 1000)),
                }
                for each in queue.everything
            ],
        }
        for queue in found
        if queue.url in roles or not queue.url.rpartition("/")[2].startswith("tidewheel_")
    ]


def restored(recording: Recording) -> MemoryTidewheel:
    """Makes a service of this release in the state of the recording."""
    stack = MemoryTidewheel(start=utc(recording.now_ms))
    for item in recording.items:
        stack.service.dynamodb.put_item(TableName="memory", Item=item)
    for name, data in recording.objects.items():
        stack.service.objects.put(name, data)
    for topic, slot, fires_at_ms in recording.schedules:
        stack.service.wheel.schedule(topic, slot, fires_at_ms)
    # Dead letters first: the others name them.
    for queue in sorted(recording.queues, key=lambda each: "RedrivePolicy" in each["attributes"]):
        if queue["role"] is None:
            made = stack.sqs.create_queue(QueueName=queue["name"], Attributes=queue["attributes"], tags=queue["tags"])
            url = made["QueueUrl"]
        else:
            url = getattr(settings_of(stack), f"{queue['role']}_queue_url")
        for each in queue["messages"]:
            stack.sqs.send_message(
                QueueUrl=url,
                MessageBody=each["body"],
                MessageAttributes=each["attributes"],
                DelaySeconds=each["wait_s"],
            )
    return stack
