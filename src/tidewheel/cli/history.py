"""`tidewheel purge`, `tidewheel replay` and `tidewheel redrive`: drop what waits, bring back what was."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidewheel.cli.administration import AsJson, SubscriptionName, TopicName
from tidewheel.cli.output import print_json, print_table
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from tidewheel.client.redrive import RedriveResult

From = Annotated[str | None, typer.Option("--from", help="Only what is due from this ISO 8601 time on.")]
Until = Annotated[str | None, typer.Option("--until", help="Only what is due before this ISO 8601 time.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def purge(
    ctx: typer.Context,
    topic: TopicName,
    start: From = None,
    end: Until = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Drop what was sent to a topic until now: everything, or what is due in a range of time."""
    first, last = _time("--from", start), _time("--until", end)
    if not yes:
        what = "everything that waits" if start is None and end is None else "what is due in this range"
        typer.confirm(f"Drop {what} in topic {topic}?", abort=True, err=True)
    purged = client(ctx).purge(topic, start=first, end=last)
    if as_json:
        print_json(asdict(purged))
        return
    rows = [(purged.messages, purged.ledgers, _at(purged.sent_before_ms))]
    print_table(["messages (estimated)", "ledgers freed", "sent before"], rows, "")


def replay(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    start: From = None,
    end: Until = None,
    as_json: AsJson = False,
) -> None:
    """Deliver again, to one subscription, what was delivered and is still kept (setting retention_s)."""
    replayed = client(ctx).replay(topic, subscription, start=_time("--from", start), end=_time("--until", end))
    if as_json:
        print_json(asdict(replayed))
        return
    rows = [(replayed.messages, replayed.plans, replayed.skipped, _at(replayed.first_ms), _at(replayed.end_ms))]
    print_table(["messages (estimated)", "deliveries", "under way already", "due from", "due before"], rows, "")


def redrive(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name.")] = None,
    subscription: Annotated[str | None, typer.Argument(help="The subscription's name.")] = None,
    service: Annotated[bool, typer.Option("--service", help="The service's own queues instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move what is in a dead-letter queue back to the queue that it came from."""
    if service:
        if topic is not None:
            raise InvalidValue("TOPIC", topic, "give a topic and a subscription, or --service")
        _show(client(ctx).redrive_service(), as_json)
        return
    if topic is None or subscription is None:
        raise InvalidValue("SUBSCRIPTION", subscription, "give a topic and a subscription, or --service")
    _show([client(ctx).redrive(topic, subscription)], as_json)


def _show(found: list[RedriveResult], as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in found])
        return
    rows = [(each.queue_url.rpartition("/")[2], each.dead_letter_arn, each.messages) for each in found]
    print_table(["to queue", "from dead-letter queue", "messages"], rows, "")


def _time(option: str, text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(option, text, "write a time such as 2027-01-31T09:00:00Z") from None


def _at(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
