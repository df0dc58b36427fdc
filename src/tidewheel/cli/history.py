"""Defines the commands `tidewheel purge`, `replay` and `redrive`."""

from __future__ import annotations

from typing import Annotated

import typer

from tidewheel.cli.administration import AsJson, SubscriptionName, TopicName, Yes, confirm
from tidewheel.cli.messages import time_of
from tidewheel.cli.output import progress_bar, show
from tidewheel.cli.target import client
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue

From = Annotated[str | None, typer.Option("--from", help="Only messages due at or after this ISO 8601 time.")]
Until = Annotated[str | None, typer.Option("--until", help="Only messages due before this ISO 8601 time.")]


def purge(
    ctx: typer.Context,
    topic: TopicName,
    start: From = None,
    end: Until = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Drop all messages sent to a topic before now, or only messages due in a range of time."""
    first, last = time_of(start, "--from"), time_of(end, "--until")
    dropped = "all waiting messages" if start is None and end is None else "the messages due in this range"
    confirm(yes, f"Drop {dropped} of topic {topic}?")
    service = client(ctx)
    with progress_bar("purging"):
        purged = service.purge(topic, start=first, end=last)
    rows = [(purged.messages, purged.ledgers, utc(purged.sent_before_ms))]
    show(purged, as_json, ["messages (estimated)", "ledgers freed", "sent before"], rows)


def replay(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    start: From = None,
    end: Until = None,
    as_json: AsJson = False,
) -> None:
    """Deliver past messages again to one subscription. The setting retention_days says how long messages are kept."""
    service, first, last = client(ctx), time_of(start, "--from"), time_of(end, "--until")
    with progress_bar("replaying"):
        replayed = service.replay(topic, subscription, start=first, end=last)
    rows = [(replayed.messages, replayed.plans, replayed.skipped, utc(replayed.first_ms), utc(replayed.end_ms))]
    columns = ["messages (estimated)", "deliveries", "under way already", "due from", "due before"]
    show(replayed, as_json, columns, rows)


def redrive(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name.")] = None,
    subscription: Annotated[str | None, typer.Argument(help="The subscription's name.")] = None,
    service: Annotated[
        bool, typer.Option("--service", help="Redrive the service's own queues, instead of a subscription's.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move dead letters back to the queue of a subscription, or to the service's own queues."""
    advice = "give a topic and a subscription, or --service"
    if service and topic is not None:
        raise InvalidValue("TOPIC", topic, advice)
    if not service and (topic is None or subscription is None):
        raise InvalidValue("SUBSCRIPTION", subscription, advice)
    tidewheel = client(ctx)
    with progress_bar("redriving"):
        if topic is None or subscription is None:
            found = tidewheel.redrive_service()
        else:
            found = [tidewheel.redrive(topic, subscription)]
    rows = [(each.queue_url.rpartition("/")[2], each.dead_letter_arn, each.messages) for each in found]
    show(found, as_json, ["to queue", "from dead-letter queue", "messages"], rows)
