"""Stores large bodies in S3, and leaves a pointer in the message (claim check).

    sender   PUT payloads/<topic>/<due date>/<id>-<attempt>, then the message, whose body is a pointer
    service  carries the pointer like any body
    consumer GET of the object that the header names, compared with the hash and length in the header

A plain consumer sees the pointer: `{"tidewheel_payload": "s3://<S3 bucket>/payloads/..."}`.
"""

from __future__ import annotations

import base64
import json

from tidewheel.model.message import Encoding, id_text
from tidewheel.model.object_names import payload_name
from tidewheel.model.validation import OutgoingMessage
from tidewheel.storage.objects import Objects

POINTER = "tidewheel_payload"


def store_body(
    objects: Objects, s3_bucket: str, topic: str, message: OutgoingMessage, attempt: str | None = None
) -> OutgoingMessage:
    """Puts a message's body into S3. Returns the message with a pointer as its body.

    Args:
        attempt: the end of the object's name, which may exist already. None: a new name.
    """
    text = message.text
    data = base64.b64decode(text) if message.encoding is Encoding.BYTES else text.encode()
    return put_body(objects, s3_bucket, topic, message, data, attempt)


def put_body(
    objects: Objects, s3_bucket: str, topic: str, message: OutgoingMessage, data: bytes, attempt: str | None = None
) -> OutgoingMessage:
    """Puts a body's bytes into S3, as `store_body` does."""
    name = payload_name(topic, message.deliver_at_ms, id_text(message.id), attempt or objects.new_attempt())
    objects.put(name, data, new=attempt is None)
    return message.with_payload(name, json.dumps({POINTER: f"s3://{s3_bucket}/{name}"}), data)
