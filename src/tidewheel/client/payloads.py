"""Stores large bodies in S3, and restores them for the consumer (claim check).

    sender   PUT payloads/<topic>/<due date>/<id>-<attempt>, then the message, whose body is a pointer
    service  carries the pointer like any body
    consumer GET of the object that the header names

A plain consumer sees the pointer: `{"tidewheel_payload": "s3://<S3 bucket>/payloads/..."}`.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace

from tidewheel.client.connection import Connection
from tidewheel.errors import InvalidValue, ObjectMissing
from tidewheel.model.message import Encoding, id_text
from tidewheel.model.object_names import payload_name
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.validation import MAX_PAYLOAD_BYTES, OutgoingMessage

POINTER = "tidewheel_payload"


def store_payload(connection: Connection, topic: str, message: OutgoingMessage) -> OutgoingMessage:
    """Puts a message's body into S3. Returns the message with a pointer as its body."""
    text = message.text
    data = base64.b64decode(text) if message.encoding is Encoding.BYTES else text.encode()
    name = payload_name(topic, message.deliver_at_ms, id_text(message.id), connection.objects.new_attempt())
    connection.objects.put(name, data)
    pointer = json.dumps({POINTER: f"s3://{connection.settings.s3_bucket}/{name}"})
    return message.with_payload(name, pointer)


def fetch_payload(connection: Connection, message: ReceivedMessage) -> ReceivedMessage:
    """Returns a received message with its own body, read from S3 if the message has a pointer.

    Raises:
        ObjectMissing: the body was handed out more than 28 days ago and is collected.
        InvalidValue: the object is not a body that the client could have written.
    """
    if message.payload is None:
        return message
    data = connection.objects.get_range(message.payload, 0, MAX_PAYLOAD_BYTES + 1)
    if not data:
        raise ObjectMissing(message.payload)
    if len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidValue("payload", message.payload, f"its body is over {MAX_PAYLOAD_BYTES} bytes; drop the message")
    try:
        body = base64.b64encode(data).decode() if message.encoding is Encoding.BYTES else data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("payload", message.payload, "its body is not text in UTF-8; drop the message") from None
    return replace(message, body=body, payload=None)
