"""Defines the commands `tidewheel explain` and `refused`, for messages that programs send with SQS alone."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.administration import AsJson
from tidewheel.cli.messages import STANDARD_INPUT
from tidewheel.cli.output import print_json, show
from tidewheel.cli.target import client
from tidewheel.clock import current, utc
from tidewheel.errors import InvalidValue
from tidewheel.model.untrusted import visible

if TYPE_CHECKING:
    from tidewheel.model.plain import PlainMessages
    from tidewheel.model.received import QueuedMessage
    from tidewheel.model.validation import OutgoingMessage

_LAST_MS = 4_102_444_800_000
"""The year 2100. SQS's times are earlier."""
_UNKNOWN_ID = "00000000-0000-0000-0000-000000000000"
_OPTIONS = ("key", "replace", "max_wait_ms", "expires_at_ms", "group", "attributes")
_HOW = (
    "give what `aws sqs send-message --cli-input-json` takes: MessageBody, and MessageAttributes of DataType and value"
)


def explain(
    message: Annotated[
        str,
        typer.Argument(
            help="JSON as `aws sqs send-message --cli-input-json` takes it: a file, '-', or the text itself."
        ),
    ],
    topic: Annotated[
        str | None, typer.Option(help="The topic of the queue, if the topic has queues of its own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how a message of any program is read, or why it is refused, without AWS.

    SentTimestamp (ms) and MessageId beside the body tell when SQS took the message, and make its id.
    """
    from tidewheel.model.plain import read_plain

    queued = _queued(_text_of(message))
    read = read_plain(queued, topic)
    found = explained(read, with_ids=queued.id != _UNKNOWN_ID)
    if as_json:
        print_json(found)
    else:
        messages = [{"topic": read.topic, **each} for each in found["messages"]]
        given = [name for name in _OPTIONS if any(name in each for each in messages)]
        columns = ["does", "topic", "due", "id", *given, "body"]
        show(found, False, columns, [[each.get(name, "") for name in columns] for each in messages])
        for each in read.bad:
            typer.echo(visible(f"refused: messages[{each.place}]: {each.error}"))
    if read.bad:
        raise typer.Exit(1)


def explained(read: PlainMessages, *, with_ids: bool = True) -> dict[str, Any]:
    """Returns what becomes of plain messages: what is delivered when, which keys are cancelled, what is refused."""
    sent = [_sent(each, with_ids=with_ids) for each in read.messages]
    cancelled = [{"does": "cancel", "key": each.key, "seq": each.seq} for each in read.cancellations]
    refused = [{"place": each.place, "reason": str(each.error)} for each in read.bad]
    return {"topic": read.topic, "messages": sent + cancelled, "refused": refused}


def _sent(message: OutgoingMessage, *, with_ids: bool) -> dict[str, Any]:
    from tidewheel.model.message import id_text

    options = {} if message.options is None else message.options.document()
    due = utc(message.deliver_at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found = {"does": "send", "due": due, "due_ms": message.deliver_at_ms, "body": message.text, **options}
    if with_ids:
        found["id"] = id_text(message.id)
    if message.attributes:
        found["attributes"] = dict(message.attributes)
    return found


def _text_of(given: str) -> str:
    if given == STANDARD_INPUT:
        return sys.stdin.read()
    if given.lstrip().startswith("{"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidValue("message", given, "give a file in UTF-8") from None


def _queued(text: str) -> QueuedMessage:
    """Reads the JSON of `send-message`."""
    from tidewheel.model.received import QueuedMessage
    from tidewheel.model.untrusted import json_object_of, mapping, whole
    from tidewheel.model.untrusted import text as as_text

    try:
        given = {name: value for name, value in json_object_of(text).items() if value is not None}
        attributes = {name: _attribute(mapping(each)) for name, each in given.get("MessageAttributes", {}).items()}
        return QueuedMessage(
            id=as_text(given.get("MessageId", _UNKNOWN_ID)),
            body=as_text(given["MessageBody"]),
            attributes=attributes,
            sent_at_ms=min(whole(given.get("SentTimestamp", current().now_ms())), _LAST_MS),
            receives=1,
            queue_arn="",
            group=given.get("MessageGroupId"),
        )
    except (AttributeError, KeyError, ValueError) as error:
        raise InvalidValue("message", text, f"{_HOW} ({error})") from None


def _attribute(given: dict[str, Any]) -> dict[str, Any]:
    if given.get("BinaryValue") is not None:
        return {**given, "BinaryValue": base64.b64decode(given["BinaryValue"], validate=True)}
    return given


def refused(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List messages that the service refused, and why. `tidewheel redrive --service` sends them again."""
    found = client(ctx).refused(limit)
    rows = [
        (each.sqs_message_id, each.queue, each.sent_at or "", each.reason, json.dumps(each.body[:80])) for each in found
    ]
    show(found, as_json, ["SQS message id", "queue", "sent", "reason", "body"], rows, "nothing was refused")
