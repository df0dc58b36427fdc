"""Defines the commands `tidewheel get`, `peek` and `stats`, which change nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from tidewheel.cli.administration import AsJson, TopicName
from tidewheel.cli.messages import selection
from tidewheel.cli.output import console, is_utf8, print_json, show, table
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue, PeekIncomplete, TidewheelError, UnknownTopic
from tidewheel.model.duration import read_time
from tidewheel.model.message import looks_like_id
from tidewheel.model.untrusted import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tidewheel.client.operations.histogram import EstimatedHistogram
    from tidewheel.client.operations.stats import SubscriptionStats, TopicStats
    from tidewheel.client.outcome import SubscriptionProgress
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.client.waiting import MessageStatus, WaitingMessage

Looked: TypeAlias = "TopicStats | AllTopics"

WATCH_S = 5.0
MOST_TOPICS = 100
"""Topics of which one look reads the statistics. Each takes about ten requests, see `topic_stats`."""
_SHOWN = 1000
"""Characters of a key or body that `peek` shows at most."""
UNKNOWN = 4
"""Exit code if no record has the message."""
_LONGEST = 40
"""Characters of a histogram's longest bar."""


class Bars(StrEnum):
    """The time that a bar of a histogram stands for."""

    HOUR = "hour"
    DAY = "day"


def get(
    ctx: typer.Context,
    topic: TopicName,
    message_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The message's id, which `tidewheel send` prints.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Instead of the id: the newest message with this key.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a message, such as waiting, sealed or sent. The exit code is 4 if no record has the message."""
    status = client(ctx).get(topic, message_id, key=key)
    show(_status_json(status), as_json, ["", ""], _status_pairs(status))
    if status.state == "unknown":
        raise typer.Exit(UNKNOWN)


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
        print_json([fields_of(each) for each in found])
    else:
        print_messages(found)
    if missing is not None:
        raise missing


def find(
    ctx: typer.Context,
    topic: TopicName,
    key_prefix: Annotated[str | None, typer.Option(help="Those whose keys begin so, in the order of keys.")] = None,
    group: Annotated[str | None, typer.Option(help="Those of this group, by due time.")] = None,
    first: Annotated[str | None, typer.Option("--from", help="Those due from this ISO 8601 time on.")] = None,
    end: Annotated[str | None, typer.Option("--until", help="Those due before this ISO 8601 time.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All messages of the topic.")] = False,
    count: Annotated[int, typer.Option("--number", "-n", min=1, help="Maximum number of messages.")] = 100,
    after: Annotated[str | None, typer.Option(help="Go on behind this key or, without --key-prefix, id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find waiting messages by the prefix of their key, their group or due time. The messages stay in the topic."""
    selected = selection(key_prefix, group, first, end, everything) | {"after": after}
    found = list(islice(client(ctx).find(topic, **selected), count))
    rows = [(each.id, each.deliver_at, each.key, each.original_id) for each in found]
    columns = ["id", "due", "key", "original_id"]
    show([dict(zip(columns, row, strict=True)) for row in rows], as_json, columns, rows, "no such messages")


def stats(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name. Without a name, all topics.")] = None,
    by: Annotated[Bars | None, typer.Option(help="Show a histogram of due times, by hour or by day.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help=f"Look again every {WATCH_S:.0f} s, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the waiting messages of a topic, and the progress of its subscriptions, or a line for each topic."""
    if by is not None and topic is None:
        raise InvalidValue("--by", by.value, "name a topic, or leave --by out")
    service = client(ctx)

    def looks() -> Iterator[Looked]:
        while True:
            yield _all_topics(service) if topic is None else service.stats(topic)
            if not watch:
                return
            time.sleep(WATCH_S)

    if watch and not as_json and sys.stdout.isatty():
        _redraw(looks(), by)
    for found in looks():
        if as_json:
            print_json(found)
        else:
            console().print(*_parts(found, by, is_utf8()), sep="\n")
        sys.stdout.flush()
    if isinstance(found, AllTopics) and found.failures:
        raise typer.Exit(1)


def doctor(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name. Without a name, all, and the service.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong, the worst first. The exit code is 1 if anything but a pause is."""
    from tidewheel.client.operations.health import Problem

    found = client(ctx).health(topic)
    rows = [(each.problem.value, each.what, each.since, each.remedy, f"tidewheel docs {each.page}") for each in found]
    show(found, as_json, ["problem", "what", "since", "what to do", "more"], rows, "all is well")
    if any(each.problem is not Problem.PAUSED for each in found):
        raise typer.Exit(1)


def print_messages(found: Sequence[WaitingMessage]) -> None:
    """Prints messages as lines, with groups if a message has one. A terminal cuts all texts to its width, but no id."""
    if not found:
        typer.echo("nothing waits")
        return
    texts = ["key", *(name for name in ("group", "original_id") if any(getattr(it, name) for it in found)), "body"]
    rows = [(it.id, _time(it.deliver_at), *(_line(getattr(it, name) or "-") for name in texts)) for it in found]
    shown = table(["id", "due (UTC)", *texts], rows)
    shown.columns[0].no_wrap = shown.columns[1].no_wrap = True
    console().print(shown)


def _line(text: str) -> Text:
    """Returns the beginning of a text as one line, which a terminal cuts to its width."""
    from rich.text import Text

    return Text(visible(" ".join(text[:_SHOWN].split())), no_wrap=True, overflow="ellipsis")


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


def _parts(found: Looked, by: Bars | None, blocks: bool) -> list[RenderableType]:
    from rich.text import Text

    if not isinstance(found, AllTopics):
        return stats_parts(found, by, blocks)
    parts: list[RenderableType] = [table(_TOPIC_COLUMNS, [_topic_row(each) for each in found.topics])]
    if not found.topics:
        parts = ["no topics"]
    parts += [Text(visible(f"{name}: cannot be read: {error}")) for name, error in found.failures.items()]
    if found.more:
        parts.append(f"and {found.more:,} more topics: name one, or list them with: tidewheel topics list")
    return parts


def _topic_row(each: TopicStats) -> list[object]:
    numbers = (each.waiting, each.sealed, each.in_flight, each.dead, each.damaged + each.unreadable)
    stopped = sum(sub.state.value != "ACTIVE" for sub in each.subscriptions)
    return [each.topic, _time(each.next_due_at), *numbers, stopped]


def _redraw(looks: Iterator[Looked], by: Bars | None) -> None:
    from rich.console import Group
    from rich.live import Live

    blocks = is_utf8()  # of the terminal: Live puts another standard output in its place
    with Live(console=console(), auto_refresh=False) as live:
        for found in looks:
            heading = f"{datetime.now(UTC):%H:%M:%S} UTC; Ctrl-C ends it"
            live.update(Group(heading, "", *_parts(found, by, blocks)), refresh=True)


def stats_parts(found: TopicStats, by: Bars | None, blocks: bool) -> list[RenderableType]:
    """Returns a topic's statistics for people.

    Args:
        found: the statistics.
        by: the bars of the histogram. None: no histogram.
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
    parts: list[RenderableType] = [table(["", ""], pairs), ""]
    if found.subscriptions:
        parts.append(table(_SUBSCRIPTION_COLUMNS, [_subscription_row(each) for each in found.subscriptions]))
    else:
        parts.append("no subscriptions")
    if by is not None:
        parts += ["", *histogram_parts(found.by_hour if by is Bars.HOUR else found.by_day, by, blocks)]
    return parts


def histogram_parts(histogram: EstimatedHistogram, by: Bars, blocks: bool) -> list[RenderableType]:
    """Returns a histogram with a heading. A run of empty bars is a single line with its length.

    Args:
        histogram: the counts.
        by: the time that a bar stands for.
        blocks: whether the terminal shows block characters. Otherwise bars are made of '#'.
    """
    pattern = "%Y-%m-%d %H:%M" if by is Bars.HOUR else "%Y-%m-%d"
    most = max(histogram.bars)
    rows: list[tuple[str, object, str]] = []
    for count, bars in groupby(zip(histogram.starts(), histogram.bars, strict=True), key=lambda bar: bar[1]):
        starts = [at for at, _ in bars]
        if not count:
            rows.append((f"({len(starts)} empty {by.value}{'s' if len(starts) > 1 else ''})", "", ""))
        else:
            bar = ("█" if blocks else "#") * max(1, round(count / most * _LONGEST))
            rows += [(f"{at:{pattern}}", count, bar) for at in starts]
    if histogram.later:
        rows.append(("later", histogram.later, ""))
    return [f"waiting by {by.value}, UTC (estimated)", table(["", "", ""], rows)]


_TOPIC_COLUMNS = ("topic", "next due (UTC)", "waiting", "sealed", "in flight", "dead", "damaged", "stopped")
_SUBSCRIPTION_COLUMNS = ("subscription", "state", "receivable", "delayed", "taken", "dead", "parked", "lag", "parts")


def _subscription_row(each: SubscriptionStats) -> list[object]:
    queue = each.queue
    depths = (None,) * 3 if queue is None else (queue.visible, queue.delayed, queue.in_flight)
    return [each.name, each.state.value, *depths, each.dead, each.parked, each.lag_slots, each.open_parts]


def _time(at: datetime | None, zone: str = "") -> str:
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}{zone}"


def _after(text: str | None) -> str | datetime | None:
    found = None if text is None else read_time(text)
    if text is None or looks_like_id(text):
        return text
    if found is None:
        raise InvalidValue("--after", text, "give a message id, or a time such as 2027-01-31T09:00:00Z")
    return found


def _status_pairs(status: MessageStatus) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str | None]] = [
        ("id", status.id),
        ("state", status.state.value),
        ("due", _precise(status.deliver_at)),
        ("sealed", f"about {_precise(status.seals_at)}"),
        ("moved to", status.moved_to),
        ("cancelled late", "yes" if status.cancelled_late else None),
        ("claimed by", ", ".join(status.claimed_by) or None),
        ("meaning", status.explanation),
    ]
    if (message := status.message) is not None:
        pairs += [
            ("sent", _precise(message.sent_at)),
            ("expires", _precise(message.expires_at)),
            ("key", message.key),
            ("group", message.group),
            ("attempt", f"{message.attempt} of {message.original_id}" if message.attempt else None),
            *(("attribute", f"{name}={value}") for name, value in message.attributes.items()),
            ("body", message.body),
        ]
    known = {each.name for each in status.subscriptions}
    pairs += [(each.name, "does not get it") for each in status.recipients if each.excluded and each.name not in known]
    pairs += [(each.name, progress_words(each)) for each in status.subscriptions]
    return [(name, value) for name, value in pairs if value is not None]


def progress_words(each: SubscriptionProgress) -> str:
    """Returns a subscription's progress with a message as words."""
    words = [each.place.value]
    if each.sent_from is not None and each.sent_until is not None:
        first, last = (_time(at) for at in (each.sent_from, each.sent_until))
        words[0] += f" {first}" if first == last else f" {first} to {last[11:]}"
    if each.taken_at is not None:
        words.append(f"taken {_time(each.taken_at)}")
    if each.why is not None:
        words.append(each.why)
    if each.replayed:
        words.append("a replay")
    if each.state is None or each.state != "ACTIVE":
        words.append("the subscription is deleted" if each.state is None else f"the subscription is {each.state}")
    return ", ".join(words)


def _precise(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


_STATUS_NAMES = (
    *("id", "state", "deliver_at", "seals_at", "moved_to", "claimed_by", "cancelled_late"),
    *("explanation", "ledger", "recipients", "subscriptions"),
)


def _status_json(status: MessageStatus) -> dict[str, Any]:
    message = None if status.message is None else fields_of(status.message)
    found = {name: getattr(status, name) for name in _STATUS_NAMES}
    return found | {"message": message}


def fields_of(message: WaitingMessage) -> dict[str, Any]:
    """Returns a message as JSON."""
    found = {each.name: getattr(message, each.name) for each in fields(message)}
    return found | {"encoding": message.encoding.name.lower(), "attributes": dict(message.attributes)}
