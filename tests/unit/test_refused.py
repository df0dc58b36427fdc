"""The kept document of a refused message gives the whole message back."""

from __future__ import annotations

import base64
import json

from tidewheel.model.received import QueuedMessage
from tidewheel.model.refused import refused_document, restored
from tidewheel.model.untrusted import json_object_of


def test_a_message_of_lambdas_event_is_restored_whole() -> None:
    record = {
        "messageId": "m1",
        "body": "a pack, or whatever it is",
        "attributes": {"SentTimestamp": "5", "ApproximateReceiveCount": "3"},
        "messageAttributes": {
            "bytes": {"dataType": "Binary", "binaryValue": base64.b64encode(b"\0\xff").decode()},
            "text": {"dataType": "String", "stringValue": "x"},
        },
        "eventSourceARN": "arn:aws:sqs:eu-west-1:1:bulk",
    }
    message = QueuedMessage.of_record(record)
    assert (message.id, message.sent_at_ms, message.receives) == ("m1", 5, 3)
    kept = json.dumps(refused_document(message, "no pack"))
    attributes = {
        "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
        "text": {"DataType": "String", "StringValue": "x"},
    }
    assert restored(json_object_of(kept)) == ("a pack, or whatever it is", attributes)
