"""Defines the commands `tidewheel get`, `peek` and `stats`, which change nothing."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from tidewheel.cli.administration import AsJson, TopicName
from tidewheel.cli.histogram import Bars, histogram_text
from tidewheel.cli.output import WIDE, is_utf8, print_json
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue, PeekIncomplete, TidewheelError, UnknownTopic

if TYPE_CHECKING:
    from tidewheel.client.stats import SubscriptionStats, TopicStats
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.client.waiting import MessageStatus, WaitingMessage

Looked: TypeAlias = "TopicStats | AllTopics"

WATCH_S = 5.0
COLUMNS = 80
"""The width without a terminal."""
MOST_TOPICS = 100
"""Topics of which one look reads the statistics. Each takes about ten requests, see `topic_stats`."""
_LEAST_BODY = 10
_KEY = 20
_ID_CHARACTERS = 26


def get(
    ctx: typer.Context,
    topic: TopicName,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id, which `tidewheel send` prints.")],
    as_json: AsJson = False,
) -> None:
    """Show the state of a message, such as waiting, sealed, sent, cancelled or unknown."""
    status = client(ctx).get(topic, message_id)
    if as_json:
        print_json(_status_json(status))
        return
    sys.stdout.write(_lines(_status_pairs(status)))


def peek(
    ctx: typer.Context,
    topic: TopicName,
    count: Annotated[int, typer.Option("--number", "-n", help="Maximum number of messages, up to 1000.")] = 10,
    after: Annotated[
        str | None, typer.Option(help="Start after this message id, or after a time such as 2027-01-31T09:00:00Z.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the next waiting messages by due time. The messages stay in the topic."""
    missing: PeekIncomplete | None = None
    try:
        found = client(ctx).peek(topic, count, after=_after(after))
    except PeekIncomplete as error:
        found, missing = cast("list[WaitingMessage]", error.messages), error
    if as_json:
        print_json([_message_json(each) for each in found])
    else:
        width = shutil.get_terminal_size((WIDE, 24)).columns if sys.stdout.isatty() else WIDE
        sys.stdout.write(messages_text(found, width))
    if missing is not None:
        raise missing


def stats(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name. Without a name, all topics.")] = None,
    seconds: Annotated[
        float | None,
        typer.Argument(min=0.1, help="With --watch, the seconds between two updates.", show_default=f"{WATCH_S:.0f}"),
    ] = None,
    by: Annotated[Bars | None, typer.Option(help="Show a histogram of due times, by hour or by day.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update the output until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the waiting messages of a topic, and the progress of its subscriptions, or a line for each topic."""
    if seconds is not None and not watch:
        raise InvalidValue("SECONDS", seconds, "give --watch too, or leave SECONDS out")
    if by is not None and topic is None:
        raise InvalidValue("--by", by.value, "name a topic, or leave --by out")
    service = client(ctx)

    def look() -> Looked:
        return _all_topics(service) if topic is None else service.stats(topic)

    if not watch:
        found = look()
        _show(found, by, as_json)
        if isinstance(found, AllTopics) and found.failures:
            raise typer.Exit(1)
        return

    def looks() -> Iterator[Looked]:
        while True:
            yield look()
            time.sleep(seconds or WATCH_S)

    if as_json or not sys.stdout.isatty():
        for found in looks():
            _show(found, by, as_json)
            sys.stdout.flush()
        return
    _redraw(looks(), by)


def messages_text(found: Sequence[WaitingMessage], width: int) -> str:
    """Returns messages as lines that fit a width. Keys and bodies are cut, ids are not.

    Args:
        found: the messages.
        width: of a line, in characters.
    """
    if not found:
        return "nothing waits\n"
    keys = [_cut(each.key or "-", _KEY) for each in found]
    keyed = any(each.key is not None for each in found)
    rows = [("id", "due (UTC)", "key", "body")]
    rows += [(each.id, _time(each.deliver_at), key, each.body) for each, key in zip(found, keys, strict=True)]
    before = [max(len(row[i]) for row in rows) for i in range(3 if keyed else 2)]
    room = max(_LEAST_BODY, width - sum(before) - 2 * len(before))
    lines = ["  ".join([*(f"{row[i]:<{size}}" for i, size in enumerate(before)), _cut(row[3], room)]) for row in rows]
    return "\n".join(lines) + "\n"


def _cut(text: str, room: int) -> str:
    """Returns text as one line of at most `room` printable characters."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text[: 4 * room].split()))
    return line if len(line) <= room and len(text) <= 4 * room else f"{line[: room - 3]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class AllTopics:
    """The statistics of the first MOST_TOPICS topics, by name.

    Attributes:
        topics: those that can be read.
        failures: the error of each other topic.
        more: how many topics come after these.
    """

    topics: list[TopicStats]
    failures: dict[str, str]
    more: int


def _all_topics(service: Tidewheel) -> AllTopics:
    """Reads the statistics of all topics. One that cannot be read hides no other."""
    from botocore.exceptions import ClientError

    names = [each.name for each in service.topics()]
    found = AllTopics(topics=[], failures={}, more=max(0, len(names) - MOST_TOPICS))
    for name in names[:MOST_TOPICS]:
        try:
            found.topics.append(service.stats(name))
        except UnknownTopic:  # deleted since
            continue
        except (TidewheelError, ClientError) as error:
            found.failures[name] = str(error)
    return found


def _show(found: Looked, by: Bars | None, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
    else:
        width = shutil.get_terminal_size((COLUMNS, 24)).columns
        sys.stdout.write(_text(found, by, width, is_utf8()))


def _text(found: Looked, by: Bars | None, width: int, blocks: bool) -> str:
    if not isinstance(found, AllTopics):
        return stats_text(found, by, width, blocks)
    text = _table(_TOPIC_COLUMNS, [_topic_row(each) for each in found.topics], width) if found.topics else "no topics\n"
    text += "".join(f"{name}: cannot be read: {error}\n" for name, error in found.failures.items())
    return text + (
        f"and {found.more:,} more topics: name one, or list them with: tidewheel topics list\n" * (found.more > 0)
    )


def _topic_row(each: TopicStats) -> list[str]:
    numbers = (each.waiting, each.sealed, each.in_flight, each.dead, each.damaged + each.unreadable)
    stopped = sum(sub.state.value != "ACTIVE" for sub in each.subscriptions)
    return [each.topic, _time(each.next_due_at), *(f"{number:,}" for number in (*numbers, stopped))]


def _redraw(looks: Iterator[Looked], by: Bars | None) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    blocks = is_utf8()  # of the terminal: Live puts another standard output in its place
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for found in looks:
            lines = [f"{datetime.now(UTC):%H:%M:%S} UTC; Ctrl-C ends it", ""]
            lines += _text(found, by, console.width, blocks).splitlines()
            if len(lines) > console.height - 1:
                lines[console.height - 2 :] = ["... (the rest does not fit)"]
            live.update(Text("\n".join(lines), no_wrap=True, overflow="crop"), refresh=True)


def stats_text(found: TopicStats, by: Bars | None, width: int, blocks: bool) -> str:
    """Returns a topic's statistics as text for people.

    Args:
        found: the statistics.
        by: the bars of the histogram. None: no histogram.
        width: of a line, in characters.
        blocks: whether the terminal shows block characters. Otherwise bars are made of '#'.
    """
    pairs = [
        ("topic", found.topic),
        ("waiting", f"{found.waiting:,}"),
        ("sealed", f"{found.sealed:,}"),
        ("in flight", f"{found.in_flight:,}"),
        ("dead", f"{found.dead:,}"),
        ("oldest due", _time(found.oldest_due_at, " UTC")),
        ("next due", _time(found.next_due_at, " UTC")),
        ("last due", _time(found.last_due_at, " UTC")),
        ("ledgers", f"{'over ' * found.partial}{found.buckets:,} ({found.ledger_bytes:,} bytes)"),
    ]
    for name, number in (("unreadable", found.unreadable), ("damaged", found.damaged)):
        if number:
            pairs.append((name, f"{number:,} (see tidewheel damaged list {found.topic})"))
    text = _lines(pairs) + "\n"
    if found.subscriptions:
        text += _table(_SUBSCRIPTION_COLUMNS, [_subscription_row(each) for each in found.subscriptions], width)
    else:
        text += "no subscriptions\n"
    if by is None:
        return text
    histogram = found.by_hour if by is Bars.HOUR else found.by_day
    return text + "\n" + histogram_text(histogram, by, width, blocks)


_TOPIC_COLUMNS = ("topic", "next due (UTC)", "waiting", "sealed", "in flight", "dead", "damaged", "stopped")
_SUBSCRIPTION_COLUMNS = ("subscription", "state", "receivable", "delayed", "taken", "dead", "parked", "lag", "parts")


def _subscription_row(each: SubscriptionStats) -> list[str]:
    queue = each.queue
    depths = (None,) * 3 if queue is None else (queue.visible, queue.delayed, queue.in_flight)
    numbers = (*depths, each.dead, each.parked, each.lag_slots, each.open_parts)
    return [each.name, each.state.value, *("-" if number is None else f"{number:,}" for number in numbers)]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Returns aligned columns, names to the left and numbers to the right. A long name gets its own line."""
    widths = [max(len(each) for each in column) for column in zip(columns, *rows, strict=True)]
    apart = sum(widths) + 2 * (len(widths) - 1) > width
    if apart:
        widths[0] = 0
    lines = []
    for row in (columns, *rows):
        name = "" if apart else row[0]
        cells = [f"{name:<{widths[0]}}", f"{row[1]:<{widths[1]}}"]
        cells += [f"{cell:>{widths[i]}}" for i, cell in enumerate(row[2:], start=2)]
        lines += [row[0]] if apart else []
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _lines(pairs: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in pairs)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in pairs)


def _time(at: datetime | None, zone: str = "") -> str:
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}{zone}"


def _after(text: str | None) -> str | datetime | None:
    if text is None or (len(text) == _ID_CHARACTERS and text.isalnum()):
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        how = "give a message id, or a time such as 2027-01-31T09:00:00Z"
        raise InvalidValue("--after", text, how) from None


def _status_pairs(status: MessageStatus) -> list[tuple[str, str]]:
    pairs = [("id", str(status.id)), ("state", status.state.value), ("due", _precise(status.deliver_at))]
    if status.moved_to is not None:
        pairs.append(("moved to", status.moved_to))
    message = status.message
    if message is not None:
        pairs.append(("sent", _precise(message.sent_at)))
        if message.expires_at is not None:
            pairs.append(("expires", _precise(message.expires_at)))
        if message.key is not None:
            pairs.append(("key", message.key))
        if message.group is not None:
            pairs.append(("group", message.group))
        if message.attempt:
            pairs.append(("attempt", f"{message.attempt} of {message.original_id}"))
        pairs += [("attribute", f"{name}={value}") for name, value in message.attributes.items()]
        pairs.append(("body", message.body))
    for each in status.subscriptions:
        pairs.append((each.name, f"{each.place.value} ({each.state.value})"))
    return pairs


def _precise(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def _status_json(status: MessageStatus) -> dict[str, Any]:
    return {
        "id": status.id,
        "state": status.state.value,
        "deliver_at": status.deliver_at,
        "moved_to": status.moved_to,
        "message": None if status.message is None else _message_json(status.message),
        "subscriptions": [asdict(each) for each in status.subscriptions],
    }


def _message_json(message: WaitingMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "deliver_at": message.deliver_at,
        "body": message.body,
        "encoding": message.encoding.name.lower(),
        "attributes": dict(message.attributes),
        "sent_at": message.sent_at,
        "key": message.key,
        "expires_at": message.expires_at,
        "attempt": message.attempt,
        "original_id": message.original_id,
        "payload": message.payload,
        "group": message.group,
    }
