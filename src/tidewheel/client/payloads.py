"""Restores large bodies from S3 for the consumer, and stores them anew for another time. See `storage.bodies`."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

from tidewheel.client.connection import Connection
from tidewheel.errors import BodyChanged, InvalidValue, ObjectMissing
from tidewheel.model.message import Encoding
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.validation import MAX_PAYLOAD_BYTES, OutgoingMessage
from tidewheel.storage.bodies import put_body


def move_payload(connection: Connection, topic: str, message: OutgoingMessage, old_id: str) -> OutgoingMessage:
    """Stores a large body of an old message again, since an object's lifetime depends on the due time in its name.

    S3 takes no CopyObject where policies demand that objects are created only, so the body is read and put.

    Raises:
        BodyChanged, InvalidValue, ObjectMissing: as of `fetch_payload`.
    """
    options = message.options
    if options is None or options.payload is None:
        return message
    data = _read(connection, old_id, options.payload, options.payload_sha256, options.payload_bytes)
    return put_body(connection.objects, connection.settings.s3_bucket, topic, message, data)


def fetch_payload(connection: Connection, message: ReceivedMessage) -> ReceivedMessage:
    """Returns a received message with its own body, read from S3 if the message has a pointer.

    Raises:
        BodyChanged: the object is not the body that was sent.
        ObjectMissing: the body was handed out more than 28 days ago and is collected.
        InvalidValue: the object is not a body that the client could have written.
    """
    if message.payload is None:
        return message
    data = _read(connection, message.id, message.payload, message.payload_sha256, message.payload_bytes)
    try:
        body = base64.b64encode(data).decode() if message.encoding is Encoding.BYTES else data.decode()
    except UnicodeDecodeError:
        raise InvalidValue("payload", message.payload, "its body is not text in UTF-8; drop the message") from None
    return replace(message, body=body, payload=None)


def _read(connection: Connection, message_id: str, name: str, sha256: str | None, length: int | None) -> bytes:
    """Reads a body, and checks its hash and length if the message has them. See `fetch_payload`."""
    most = MAX_PAYLOAD_BYTES if sha256 is None else min(length or 0, MAX_PAYLOAD_BYTES)
    data = connection.objects.get_range(name, 0, most + 1)
    if sha256 is not None:
        if len(data) != length or hashlib.sha256(data).hexdigest() != sha256:
            raise BodyChanged(message_id, name)
    elif not data:
        raise ObjectMissing(name)
    elif len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidValue("payload", name, f"its body is over {MAX_PAYLOAD_BYTES} bytes; drop the message")
    return data
