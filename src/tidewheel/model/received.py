"""Decodes messages that consumers or functions received, and the headers of the former.

The header is the value of the message attribute `tidewheel`: a JSON object with

    id       the message id              enc      0 text, 1 JSON, 2 base64 of bytes
    sent     sender's ms                 key      the sender's key
    exp      when it expires, ms         seq      the sender's count, with a key
    group    the sender's group              claim   the subscription's generation, if consumers claim the message
    attempt  how often it was tried      of       id of the first message, if it was sent again
    ref      the S3 object that holds the body
    sha256   with ref: the SHA-256 of the object's bytes, in hexadecimal
    bytes    with ref: the object's length
    only     the only subscription that gets the message
    attributes  the sender's attributes that had no room beside `tidewheel_id`
    traceparent, tracestate  the sender's trace context, if SQS takes no more attributes
    why      of a dead letter, why a consumer gave up (`client/operations/dead_letters.py`). After a redrive, `attempt`
             counts for nothing.
    first    sender's ms of the first message, if it had a key and was sent again; then `key` and `seq` are its too

Only the first three fields are always present.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidewheel.clock import utc
from tidewheel.errors import InvalidValue
from tidewheel.model.message import HEADER_ATTRIBUTE, ID_ATTRIBUTE, Encoding, MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.object_names import payload_topic
from tidewheel.model.untrusted import json_object_of, mapping, text, whole
from tidewheel.model.validation import Options

_TEXTS = {
    "key": "key",
    "ref": "payload",
    "sha256": "payload_sha256",
    "only": "only",
    "group": "group",
    "claim": "claim",
}
"""Field of the header -> attribute of `ReceivedMessage`."""
ATTEMPT, WHY = "attempt", "why"
TRACE_CONTEXT = ("traceparent", "tracestate")
"""The fields of W3C's trace context, as a header and a carrier of OpenTelemetry name them."""
X_RAY = "AWSTraceHeader"
TRACES = frozenset((*TRACE_CONTEXT, X_RAY))
"""Attributes that tracing adds, and that no filter sees."""
OPTIONS_OF_EXTRAS = {
    **{"attempt": "attempt", "of": "original_id", "ref": "payload"},
    **{"sha256": "payload_sha256", "bytes": "payload_bytes", "only": "only"},
    **{name: name for name in TRACE_CONTEXT},
}
"""Field of a header's extras -> the option with the same value."""
_EXTRAS = (("seq", "seq"), *OPTIONS_OF_EXTRAS.items())
_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A delivered message, decoded.

    Attributes:
        id: the message's stable id, the same in every copy.
        body: the body as SQS carried it (base64 for bytes).
        attributes: the sender's attributes.
        deliver_at: when the message was due.
        sent_at: when the sender sent the message.
        sqs_message_id, receipt_handle: SQS's own names for this copy.
        receive_count: how often SQS has handed out this copy.
        visible_at: when SQS made this copy receivable. Only the local runtime knows this time.
        key: the sender's key.
        seq: with sent_at, the version of a message with a key.
        expires_at: when the message's work is no longer wanted.
        attempt: how often `retry_later` sent the message again. 0 for the first time.
        original_id: the id of the first message, if this message was sent again.
        payload: the S3 object that holds the body. None for most messages, and once the body is put back.
        payload_sha256, payload_bytes: the SHA-256 and the length of a body in S3. Compare them with what you read.
        only: the only subscription that gets this message, if it was sent again. None: all subscriptions get it.
        first_sent_at: when the first message was sent, if this message was sent again and the first has a key.
        group: the sender's group, SQS's MessageGroupId.
        claim: the subscription's generation, if a consumer must claim the message before it handles it.
        header: the attribute with the header.
    """

    id: MessageId
    body: str
    encoding: Encoding
    attributes: Mapping[str, str]
    deliver_at: datetime
    sent_at: datetime
    sqs_message_id: str
    receipt_handle: str
    receive_count: int = 1
    visible_at: datetime | None = None
    key: str | None = None
    seq: int = 0
    expires_at: datetime | None = None
    attempt: int = 0
    original_id: MessageId | None = None
    payload: str | None = None
    payload_sha256: str | None = None
    payload_bytes: int | None = None
    only: str | None = None
    first_sent_at: datetime | None = None
    group: str | None = None
    claim: str | None = None
    header: str = field(default="", repr=False)

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The sender's `traceparent` and `tracestate`, for OpenTelemetry's `extract`. Empty if it traced nothing."""
        carrier = self.attributes if "traceparent" in self.attributes else json.loads(self.header or "{}")
        return {name: value for name in TRACE_CONTEXT if isinstance(value := carrier.get(name), str)}

    @property
    def version(self) -> tuple[int, int]:
        """The version of a message with a key, as sending time in ms and seq.

        The higher version of two messages is newer. A message that was sent again has the version of the first message.
        """
        return round((self.first_sent_at or self.sent_at).timestamp() * 1000), self.seq

    def json(self) -> Any:
        """Returns the body parsed as JSON."""
        return json.loads(self.body)

    def bytes(self) -> bytes:
        """Returns the sent bytes, or the text's UTF-8 bytes."""
        return base64.b64decode(self.body) if self.encoding is Encoding.BYTES else self.body.encode()


def header_extras(options: Options) -> str | None:
    """Returns the header's fields other than the key and the expiry, as JSON.

    Returns None if there are no such fields.
    """
    extras = {name: value for name, option in _EXTRAS if (value := getattr(options, option)) is not None}
    if options.first_version is not None:
        extras |= dict(zip(("key", "first", "seq"), options.first_version, strict=True))
    return _TO_JSON(extras) if extras else None


def header_text(
    message_id: MessageId,
    encoding: int,
    sent_at_ms: int,
    *,
    key: str | None = None,
    expires_at_ms: int | None = None,
    group: str | None = None,
    claim: str | None = None,
    extras: str | None = None,
) -> str:
    """Returns a header. Headers without a key or extras are below HEADER_BYTES.

    Args:
        extras: the result of `header_extras`.
    """
    text = f'{{"id":"{message_id}","enc":{encoding},"sent":{sent_at_ms}'
    if key is not None:
        text += f',"key":{_TO_JSON(key)}'
    if expires_at_ms is not None:
        text += f',"exp":{expires_at_ms}'
    if group is not None:
        text += f',"group":{_TO_JSON(group)}'
    if claim is not None:
        text += f',"claim":"{claim}"'
    if extras is not None:
        text += f",{extras[1:-1]}"
    return text + "}"


def parse_received(raw: Mapping[str, Any]) -> ReceivedMessage:
    """Decodes a message of SQS's ReceiveMessage answer, or a record of a Lambda SQS event.

    Raises:
        InvalidValue: the message was not delivered by Tidewheel.
    """
    lambda_style = "messageAttributes" in raw
    attributes = raw.get("messageAttributes") or raw.get("MessageAttributes") or {}
    key = "stringValue" if lambda_style else "StringValue"
    values = {name: value[key] for name, value in attributes.items() if key in value}
    try:
        header_value = text(values.pop(HEADER_ATTRIBUTE))
        header = json_object_of(header_value)
        message_id = MessageId(header["id"])
        if values.get(ID_ATTRIBUTE) == message_id:
            del values[ID_ATTRIBUTE]
        values |= {name: text(value) for name, value in mapping(header.get("attributes", {})).items()}
        binary = id_bytes(message_id)
        encoding = Encoding(header["enc"])
        sent_at = utc(header["sent"])
        deliver_at = utc(id_deliver_at_ms(binary))
        expires_at = utc(header["exp"]) if "exp" in header else None
        first_sent_at = utc(header["first"]) if "first" in header else None
        numbers: dict[str, Any] = {name: whole(header.get(name, 0)) for name in ("seq", ATTEMPT)}
        if WHY in header:  # it was redriven
            numbers[ATTEMPT] = 0
        texts: dict[str, Any] = {field: text(header[name]) for name, field in _TEXTS.items() if name in header}
        body_bytes = whole(header["bytes"]) if "bytes" in header else None
        original_id = MessageId(text(header["of"])) if "of" in header else None
        if original_id is not None:
            id_bytes(original_id)
        if "ref" in header and (payload_topic(texts["payload"]) is None or not {"sha256", "bytes"} <= header.keys()):
            raise ValueError("ref is not the name of a body, or has no hash or length")
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        how = f"not a message that Tidewheel delivered ({error!r})"
        raise InvalidValue(f"attribute {HEADER_ATTRIBUTE}", dict(attributes), how) from None
    system = raw.get("attributes") or raw.get("Attributes") or {}
    return ReceivedMessage(
        id=message_id,
        body=raw["body"] if lambda_style else raw["Body"],
        encoding=encoding,
        attributes=values,
        deliver_at=deliver_at,
        sent_at=sent_at,
        sqs_message_id=raw["messageId"] if lambda_style else raw["MessageId"],
        receipt_handle=raw["receiptHandle"] if lambda_style else raw["ReceiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        expires_at=expires_at,
        original_id=original_id,
        payload_bytes=body_bytes,
        first_sent_at=first_sent_at,
        header=header_value,
        **numbers,
        **texts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message of a queue of the service, as the function received the message.

    Attributes:
        id: SQS's id of the message.
        attributes: in boto3's form, with binary values as bytes.
        sent_at_ms: when SQS took the message, by SQS's clock.
        receives: how often SQS handed the message out.
        queue_arn: the queue.
        group: SQS's MessageGroupId.
        trace: X-Ray's header.
        receipt_handle: by which the queue deletes the message.
    """

    id: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    sent_at_ms: int
    receives: int
    queue_arn: str
    group: str | None = None
    trace: str | None = None
    receipt_handle: str = ""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> QueuedMessage:
        """Reads a record of Lambda's event, which has binary values as base64."""
        attributes: dict[str, dict[str, Any]] = {}
        for name, value in record["messageAttributes"].items():
            given = attributes[name] = {"DataType": value["dataType"]}
            if value.get("binaryValue") is not None:
                given["BinaryValue"] = base64.b64decode(value["binaryValue"])
            else:
                given["StringValue"] = value.get("stringValue")
        system = {"MessageAttributes": attributes, "Attributes": record["attributes"]}
        system |= {"MessageId": record["messageId"], "ReceiptHandle": record.get("receiptHandle", "")}
        return cls.of_received({"Body": record["body"], **system}, record["eventSourceARN"])

    @classmethod
    def of_received(cls, raw: Mapping[str, Any], queue_arn: str) -> QueuedMessage:
        """Reads a message of boto3's receive_message, with all attributes."""
        return cls(
            id=raw["MessageId"],
            body=raw["Body"],
            attributes=raw.get("MessageAttributes", {}),
            sent_at_ms=int(raw["Attributes"]["SentTimestamp"]),
            receives=int(raw["Attributes"]["ApproximateReceiveCount"]),
            queue_arn=queue_arn,
            group=raw["Attributes"].get("MessageGroupId"),
            trace=raw["Attributes"].get("AWSTraceHeader"),
            receipt_handle=raw.get("ReceiptHandle", ""),
        )
