"""`tidewheel topics`, `tidewheel subscriptions` and `tidewheel stats`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.output import print_json, print_table
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from tidewheel.fence import Fence
    from tidewheel.subscription import Subscription

topics = typer.Typer(no_args_is_help=True, help="Create and list topics.")
subscriptions = typer.Typer(no_args_is_help=True, help="Create and list subscriptions.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Topic = Annotated[str, typer.Argument(help="The topic's name.")]


class Position(StrEnum):
    """Where a new subscription starts."""

    LATEST = "latest"
    EARLIEST = "earliest"


@topics.command("list")
def list_topics(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List all topics."""
    _show_topics(client(ctx).topics(), as_json)


@topics.command("create")
def create_topic(
    ctx: typer.Context,
    name: Topic,
    slot_s: Annotated[int | None, typer.Option(help="Length of a slot in seconds. [default: 300]")] = None,
    lookahead_s: Annotated[
        int | None, typer.Option(help="How long before a slot starts it is dispatched. [default: 480]")
    ] = None,
    setting: Annotated[list[str] | None, typer.Option(help="Another setting, as NAME=NUMBER; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic; one that exists with the same settings is fine."""
    changes: dict[str, Any] = {name: _number(name, value) for name, value in pairs("--setting", setting)}
    if slot_s is not None:
        changes["slot_s"] = slot_s
    if lookahead_s is not None:
        changes["lookahead_s"] = lookahead_s
    _show_topics([client(ctx).create_topic(name, **changes)], as_json)


@subscriptions.command("list")
def list_subscriptions(ctx: typer.Context, topic: Topic, as_json: AsJson = False) -> None:
    """List a topic's subscriptions."""
    _show_subscriptions(client(ctx).subscriptions(topic), as_json)


@subscriptions.command("create")
def create_subscription(
    ctx: typer.Context,
    topic: Topic,
    name: Annotated[str, typer.Argument(help="The subscription's name.")],
    position: Annotated[
        Position,
        typer.Option(
            "--from", help="latest: what is sent or dispatched from now on; earliest: also ledgers still kept."
        ),
    ] = Position.LATEST,
    queue_url: Annotated[str | None, typer.Option(help="An existing standard queue, instead of a new one.")] = None,
    visibility_timeout_s: Annotated[int, typer.Option(help="For a new queue.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Create a subscription with a queue and its dead-letter queue."""
    created = client(ctx).create_subscription(
        topic,
        name,
        initial_position=position.value,
        queue_url=queue_url,
        visibility_timeout_s=visibility_timeout_s,
    )
    _show_subscriptions([created], as_json)


def stats(ctx: typer.Context, topic: Topic, as_json: AsJson = False) -> None:
    """Show what waits in a topic, and how far its subscriptions have come."""
    found = client(ctx).stats(topic)
    if as_json:
        print_json(asdict(found))
        return
    print_table(
        ["topic", "waiting", "next due", "last due", "oldest slot", "buckets", "ledger bytes"],
        [
            (
                found.topic,
                found.waiting,
                found.next_due_at,
                found.last_due_at,
                found.oldest_slot_at,
                found.buckets,
                found.ledger_bytes,
            )
        ],
        "",
    )
    print_table(
        ["subscription", "state", "lag (slots)", "open parts", "receivable", "delayed", "in flight", "queue"],
        [
            (
                each.name,
                each.state.value,
                each.lag_slots,
                each.open_parts,
                *((each.queue.visible, each.queue.delayed, each.queue.in_flight) if each.queue else (None,) * 3),
                each.queue_url,
            )
            for each in found.subscriptions
        ],
        "no subscriptions",
    )


def pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """Reads NAME=VALUE options.

    Raises:
        InvalidValue: one has no '='.
    """
    found = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidValue(option, text, "write NAME=VALUE")
        found.append((name, value))
    return found


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidValue(name, text, "give a whole number") from None


def _show_topics(fences: list[Fence], as_json: bool) -> None:
    if as_json:
        print_json([{"topic": each.topic, **asdict(each.settings)} for each in fences])
        return
    rows = [(each.topic, each.settings.slot_s, each.settings.lookahead_s) for each in fences]
    print_table(["topic", "slot (s)", "lookahead (s)"], rows, "no topics; make one with: tidewheel topics create")


def _show_subscriptions(found: list[Subscription], as_json: bool) -> None:
    if as_json:
        print_json([_subscription_json(each) for each in found])
        return
    rows = [(each.name, each.state.value, each.queue_url) for each in found]
    print_table(["subscription", "state", "queue"], rows, "no subscriptions")


def _subscription_json(subscription: Subscription) -> dict[str, Any]:
    return {
        "topic": subscription.topic,
        "subscription": subscription.name,
        "state": subscription.state.value,
        "queue_url": subscription.queue_url,
    }
