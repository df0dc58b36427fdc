"""`tidewheel topics` and `tidewheel subscriptions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.output import print_error, print_json, print_table
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue
from tidewheel.model.levels import parse_levels

if TYPE_CHECKING:
    from tidewheel.model.subscription import Subscription
    from tidewheel.model.topic import Topic

topics = typer.Typer(no_args_is_help=True, help="Create, list, update and delete topics.")
subscriptions = typer.Typer(no_args_is_help=True, help="Create, list, pause, resume, filter and delete subscriptions.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TopicName = Annotated[str, typer.Argument(help="The topic's name.")]
SubscriptionName = Annotated[str, typer.Argument(help="The subscription's name.")]


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
    name: TopicName,
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


@topics.command("update")
def update_topic(
    ctx: typer.Context,
    name: TopicName,
    setting: Annotated[
        list[str], typer.Option(help="A setting, as NAME=NUMBER, or NAME=none for no limit; repeatable.")
    ],
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic: all but slot_s and lookahead_s, such as retention_s=604800."""
    changes = {name: _setting(name, value) for name, value in pairs("--setting", setting)}
    _show_topics([client(ctx).update_topic(name, **changes)], as_json, also=list(changes))


@topics.command("delete")
def delete_topic(
    ctx: typer.Context,
    name: TopicName,
    delete_queues: Annotated[
        bool, typer.Option("--delete-queues", help="Delete its subscriptions' queues too, if Tidewheel made them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a topic and all that waits in it; its name is free again after about ten minutes."""
    if not yes:
        typer.confirm(f"Delete topic {name}, its subscriptions and all that waits in it?", abort=True, err=True)
    client(ctx).delete_topic(name, delete_queues=delete_queues)


@subscriptions.command("list")
def list_subscriptions(ctx: typer.Context, topic: TopicName, as_json: AsJson = False) -> None:
    """List a topic's subscriptions."""
    _show_subscriptions(client(ctx).subscriptions(topic), as_json)


@subscriptions.command("create")
def create_subscription(
    ctx: typer.Context,
    topic: TopicName,
    name: Annotated[str, typer.Argument(help="The subscription's name.")],
    position: Annotated[
        Position,
        typer.Option(
            "--from", help="latest: what is sent or dispatched from now on; earliest: also ledgers still kept."
        ),
    ] = Position.LATEST,
    queue_url: Annotated[str | None, typer.Option(help="An existing standard queue, instead of a new one.")] = None,
    visibility_timeout_s: Annotated[int, typer.Option(help="For a new queue.")] = 60,
    filter_policy: Annotated[
        str | None, typer.Option(help="Take only messages with these attributes: JSON, an SNS filter policy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a subscription with a queue and its dead-letter queue."""
    created = client(ctx).create_subscription(
        topic,
        name,
        initial_position=position.value,
        queue_url=queue_url,
        visibility_timeout_s=visibility_timeout_s,
        filter_policy=filter_policy,
    )
    if queue_url is not None:
        # Whether the queue lets them is seen at the first message only.
        print_error(f"the queue must let the service send to it; its policy: tidewheel policy queue {queue_url}")
    _show_subscriptions([created], as_json)


@subscriptions.command("pause")
def pause_subscription(ctx: typer.Context, topic: TopicName, name: SubscriptionName, as_json: AsJson = False) -> None:
    """Let nothing new enter a subscription's queue; nothing is lost meanwhile."""
    _show_subscriptions([client(ctx).pause(topic, name)], as_json)


@subscriptions.command("resume")
def resume_subscription(ctx: typer.Context, topic: TopicName, name: SubscriptionName, as_json: AsJson = False) -> None:
    """Send on what waits for a paused subscription, or for one whose queue was gone."""
    _show_subscriptions([client(ctx).resume(topic, name)], as_json)


@subscriptions.command("filter")
def filter_subscription(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    policy: Annotated[str | None, typer.Argument(help="JSON, an SNS filter policy.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Take all messages again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change which messages a subscription gets from now on."""
    if (policy is None) == (not everything):
        raise InvalidValue("POLICY", policy, "give a filter policy, or --all")
    _show_subscriptions([client(ctx).set_filter(topic, name, policy)], as_json)


@subscriptions.command("delete")
def delete_subscription(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    delete_queue: Annotated[
        bool, typer.Option("--delete-queue", help="Its queues too, with what is in them, if Tidewheel made them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a subscription and all that waits for it."""
    if not yes:
        typer.confirm(f"Delete subscription {name} of topic {topic}, and all that waits for it?", abort=True, err=True)
    _show_subscriptions([client(ctx).delete_subscription(topic, name, delete_queue=delete_queue)], as_json)


def pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """Reads NAME=VALUE options.

    Raises:
        InvalidValue: one has no '=', or a name is given twice.
    """
    found: list[tuple[str, str]] = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidValue(option, text, "write NAME=VALUE")
        if name in dict(found):
            raise InvalidValue(option, text, f"{name} is given twice")
        found.append((name, value))
    return found


def _setting(name: str, text: str) -> Any:
    if text == "none":
        return None
    return parse_levels(text) if name == "delay_levels" else _number(name, text)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidValue(name, text, "give a whole number") from None


def _show_topics(found: list[Topic], as_json: bool, also: Sequence[str] = ()) -> None:
    if as_json:
        print_json([asdict(each) for each in found])
        return
    rows = [
        (each.name, each.settings.slot_s, each.settings.lookahead_s, *(getattr(each.settings, name) for name in also))
        for each in found
    ]
    print_table(
        ["topic", "slot (s)", "lookahead (s)", *also], rows, "no topics; make one with: tidewheel topics create"
    )


def _show_subscriptions(found: list[Subscription], as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in found])
        return
    rows = [(each.name, each.state.value, each.filter_policy, each.queue_url) for each in found]
    print_table(["subscription", "state", "filter", "queue"], rows, "no subscriptions")
