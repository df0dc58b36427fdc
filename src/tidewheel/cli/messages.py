"""Defines the commands `tidewheel send` and `tidewheel receive`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.administration import AsJson, SubscriptionName, TopicName, pairs
from tidewheel.cli.output import print_error, show
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue, SendFailed
from tidewheel.model.duration import delay_of, read_time
from tidewheel.model.untrusted import exact_json_of

if TYPE_CHECKING:
    from tidewheel.client.finding import Selected
    from tidewheel.model.message import Message, Receipt
    from tidewheel.model.received import ReceivedMessage

Attribute = Annotated[
    list[str] | None, typer.Option(help="A message attribute, NAME=VALUE. Repeat the option for more.")
]
JsonBody = Annotated[
    bool | None,
    typer.Option(
        "--json-body/--text",
        help="Refuse a body that is not JSON; or send every body as text.",
        show_default="JSON objects and arrays are JSON, and other bodies are text",
    ),
]

STANDARD_INPUT = "-"


def send(
    ctx: typer.Context,
    topic: TopicName,
    body: Annotated[str, typer.Argument(help="The body of the message. '-' sends each line of standard input.")],
    delay: Annotated[
        str | None, typer.Option(help="Delay in seconds, or as text such as 90s, 15m, '3d 4h'.", show_default="0")
    ] = None,
    deliver_at: Annotated[
        str | None, typer.Option(help="ISO 8601 time with a time zone, such as 2027-01-31T09:00:00Z.")
    ] = None,
    delay_level: Annotated[
        int | None, typer.Option(help="A delay level of the topic, by default RocketMQ's 1 to 18. 0 is now.")
    ] = None,
    attribute: Attribute = None,
    key: Annotated[
        str | None, typer.Option(help="A name of yours. The message is dropped while another with this name waits.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the waiting message with the same --key.")
    ] = False,
    expires_in: Annotated[
        str | None,
        typer.Option(
            help="How long after its due time the message is still delivered, such as 10m.", show_default="always"
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The MessageGroupId in the subscriptions' queues, for SQS's fair queues.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help="Spread due times over this long after the given time, such as 15m.", show_default="none"),
    ] = None,
    max_wait: Annotated[
        str | None,
        typer.Option(help="With --replace: how long newer messages may put off the delivery.", show_default="forever"),
    ] = None,
    json_body: JsonBody = None,
    as_json: AsJson = False,
) -> None:
    """Send a message, or a message for each line of standard input."""
    from tidewheel.model.message import Message

    fields: dict[str, Any] = {"attributes": dict(pairs("--attribute", attribute)), "key": key, "replace": replace}
    fields |= {"delay": delay_of(delay), "deliver_at": time_of(deliver_at), "delay_level": delay_level}
    fields |= {"expires_in": delay_of(expires_in), "group": group, "window": delay_of(window)}
    fields["max_wait"] = delay_of(max_wait)
    service = client(ctx)
    if body != STANDARD_INPUT:
        _show_receipts([service.send(topic, body_of(body, json_body), **fields)], as_json)
        return

    numbers: list[int] = []  # of the lines that are messages
    failures: dict[int, Exception] = {}

    def messages() -> Iterator[Message]:
        for number, line in enumerate(typer.get_binary_stream("stdin"), start=1):
            text = line.decode(errors="surrogateescape").rstrip("\r\n")
            try:
                message = Message(body=body_of(text, json_body), **fields)
            except InvalidValue as error:
                failures[number] = error
                continue
            numbers.append(number)
            yield message

    receipts: list[Any] = []
    try:
        receipts = service.send_many(topic, messages())
    except SendFailed as error:
        receipts = [each for each in error.receipts if each is not None]
        unread = max([0, *numbers, *failures]) + 1  # its reading failed
        failures |= {[*numbers, unread][index]: each for index, each in error.failures.items()}
    except InvalidValue as error:
        if error.field != "messages":
            raise
        if not failures:
            raise InvalidValue("BODY", STANDARD_INPUT, "standard input has no lines") from None
    _show_receipts(receipts, as_json)
    if failures:
        for number in sorted(failures):
            print_error(f"line {number}: {failures[number]}")
        print_error(f"{len(failures)} of {len(failures) + len(receipts)} lines were not sent; all others were sent")
        raise typer.Exit(1)


def receive(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    maximum: Annotated[int, typer.Option("--max", help="Maximum number of messages.")] = 10,
    wait: Annotated[int, typer.Option(help="Seconds to wait for the first message, up to 20.")] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Do not delete. The messages come again after the visibility time-out.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Receive messages of a subscription: print them, and delete them from its queue."""
    service = client(ctx)
    found = service.receive(topic, subscription, max_messages=maximum, wait_s=wait)
    again = any(each.original_id for each in found)
    rows = [(each.id, each.deliver_at, each.body, _attributes(each), each.original_id)[: 4 + again] for each in found]
    columns = ["id", "due", "body", "attributes", "original_id"][: 4 + again]
    show([_received_json(each) for each in found], as_json, columns, rows, "nothing to receive")
    sys.stdout.flush()  # a message that could not be shown is not acknowledged
    if not keep:
        service.delete(topic, subscription, found)


def body_of(text: str, is_json: bool | None) -> Any:
    """Reads a body as text or JSON. None: JSON if the text is an object or an array.

    Raises:
        InvalidValue: the text shall be JSON, and is not.
    """
    if is_json or (is_json is None and text.lstrip()[:1] in ("{", "[")):
        try:
            return exact_json_of(text)
        except ValueError as error:
            if is_json:
                raise InvalidValue("BODY", text, f"give JSON, or leave --json-body out ({error})") from None
    return text


def selection(
    key_prefix: str | None, group: str | None, first: str | None, end: str | None, everything: bool
) -> Selected:
    """Reads the options that select many messages.

    Raises:
        InvalidValue: none is given, or a time cannot be read.
    """
    if not (key_prefix or group or first or end or everything):
        how = "select by --key-prefix, --group, --from or --until. For all messages of the topic, give --everything"
        raise InvalidValue("--key-prefix", key_prefix, how)
    selected: Selected = {"key_prefix": key_prefix, "group": group, "everything": everything}
    return selected | {"first": time_of(first, "--from"), "end": time_of(end, "--until")}


def time_of(text: str | None, option: str = "--deliver-at") -> datetime | None:
    """Reads a time.

    Raises:
        InvalidValue: the text is not a time, or has no time zone.
    """
    if text is None:
        return None
    found = read_time(text)
    if found is None or found.tzinfo is None:
        raise InvalidValue(option, text, "give an ISO 8601 time with a time zone, such as 2027-01-31T09:00:00Z")
    return found


def _show_receipts(sent: list[Receipt], as_json: bool) -> None:
    names = ("id", "topic", "deliver_at", "cancellable_until")
    found = [{name: getattr(each, name) for name in names} for each in sent]
    rows = [(each.id, each.deliver_at, each.cancellable_until or "a consumer has it") for each in sent]
    show(found, as_json, ["id", "due", "can be cancelled until"], rows, "nothing sent")


def _received_json(message: ReceivedMessage) -> dict[str, Any]:
    names = ("deliver_at", "sent_at", "receive_count", "group", "attempt", "original_id")
    as_they_are = {name: getattr(message, name) for name in names}
    encoding, attributes = message.encoding.name.lower(), dict(message.attributes)
    return {"id": message.id, "body": message.body, "encoding": encoding, "attributes": attributes, **as_they_are}


def _attributes(message: ReceivedMessage) -> str:
    return " ".join(f"{name}={value}" for name, value in message.attributes.items())
