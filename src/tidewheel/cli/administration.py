"""Defines the commands `tidewheel topics` and `tidewheel subscriptions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.arguments import takes_settings
from tidewheel.cli.output import print_error, show
from tidewheel.cli.target import client
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import SubscriptionSettings, TopicSettings

if TYPE_CHECKING:
    from tidewheel.model.topic import Subscription, Topic

topics = typer.Typer(no_args_is_help=True, help="Create, list, update and delete topics.")
subscriptions = typer.Typer(no_args_is_help=True, help="Create, list, pause, resume, filter and delete subscriptions.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TopicName = Annotated[str, typer.Argument(help="The topic's name.")]
SubscriptionName = Annotated[str, typer.Argument(help="The subscription's name.")]
_TOPIC_NAMES = ("name", "settings", "created_at", "waiting", "recurring")
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@topics.command("list")
def list_topics(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List all topics."""
    _show_topics(client(ctx).topics(), as_json)


@topics.command("create")
@takes_settings(TopicSettings)
def create_topic(ctx: typer.Context, name: TopicName, settings: dict[str, Any], as_json: AsJson = False) -> None:
    """Create a topic. An existing topic that has the given settings is left as it is."""
    _show_topics([client(ctx).create_topic(name, **settings)], as_json)


@topics.command("update")
@takes_settings(TopicSettings, fixed=False)
def update_topic(ctx: typer.Context, name: TopicName, settings: dict[str, Any], as_json: AsJson = False) -> None:
    """Change settings of a topic."""
    if not settings:
        raise InvalidValue("settings", settings, "give at least one setting, such as --retention-days 30")
    _show_topics([client(ctx).update_topic(name, **settings)], as_json, also=list(settings))


@topics.command("delete")
def delete_topic(
    ctx: typer.Context,
    name: TopicName,
    delete_queues: Annotated[
        bool,
        typer.Option("--delete-queues", help="Also delete the queues of the subscriptions that Tidewheel created."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a topic with its waiting messages. The name is free again after about ten minutes."""
    confirm(yes, f"Delete topic {name}, its subscriptions and all waiting messages?")
    client(ctx).delete_topic(name, delete_queues=delete_queues)


@subscriptions.command("list")
def list_subscriptions(ctx: typer.Context, topic: TopicName, as_json: AsJson = False) -> None:
    """List a topic's subscriptions."""
    _show_subscriptions(client(ctx).subscriptions(topic), as_json)


@subscriptions.command("create")
@takes_settings(SubscriptionSettings)
def create_subscription(
    ctx: typer.Context, topic: TopicName, name: SubscriptionName, settings: dict[str, Any], as_json: AsJson = False
) -> None:
    """Create a subscription with a queue and its dead-letter queue."""
    created = client(ctx).create_subscription(topic, name, **settings)
    if "queue_url" in settings:
        # Whether the queue allows this shows only at the first message.
        print_error(
            f"the queue must let the service send. Print the policy with: tidewheel policy queue {created.queue_url}"
        )
    _show_subscriptions([created], as_json)


@subscriptions.command("pause")
def pause_subscription(ctx: typer.Context, topic: TopicName, name: SubscriptionName, as_json: AsJson = False) -> None:
    """Stop new messages from entering a subscription's queue. No message is lost."""
    _show_subscriptions([client(ctx).pause(topic, name)], as_json)


@subscriptions.command("resume")
def resume_subscription(ctx: typer.Context, topic: TopicName, name: SubscriptionName, as_json: AsJson = False) -> None:
    """Resume a paused or broken subscription. Waiting messages are sent."""
    _show_subscriptions([client(ctx).resume(topic, name)], as_json)


@subscriptions.command("filter")
def filter_subscription(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    policy: Annotated[str | None, typer.Argument(help="An SNS filter policy, as JSON.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Take the filter away: deliver all messages.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change the filter of a subscription for later messages."""
    if (policy is None) == (not everything):
        raise InvalidValue("POLICY", policy, "give a filter policy, or --all")
    _show_subscriptions([client(ctx).set_filter(topic, name, policy)], as_json)


@subscriptions.command("delete")
def delete_subscription(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    delete_queue: Annotated[
        bool,
        typer.Option(
            "--delete-queue", help="Also delete its queues with their messages, if Tidewheel created the queues."
        ),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a subscription with its waiting messages."""
    confirm(yes, f"Delete subscription {name} of topic {topic}, with its waiting messages?")
    _show_subscriptions([client(ctx).delete_subscription(topic, name, delete_queue=delete_queue)], as_json)


def confirm(yes: bool, question: str) -> None:
    """Asks a question, unless `--yes` was given. Ends the command if the answer is no."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


def pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """Reads NAME=VALUE options.

    Raises:
        InvalidValue: an option has no '=', or a name is given twice.
    """
    found: list[tuple[str, str]] = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidValue(option, text, "give NAME=VALUE")
        if name in dict(found):
            raise InvalidValue(option, text, f"give {name} once")
        found.append((name, value))
    return found


def _show_topics(found: list[Topic], as_json: bool, also: Sequence[str] = ()) -> None:
    settings, columns = ("slot_s", "lookahead_s", *also), ["topic", "slot (s)", "lookahead (s)", *also]
    rows: list[list[object]] = [
        [each.name, *(None if each.problem else getattr(each.settings, name) for name in settings)] for each in found
    ]
    if any(each.problem for each in found):
        columns, rows = [*columns, "problem"], [[*row, each.problem] for row, each in zip(rows, found, strict=True)]
    documents = [
        {"name": it.name, "problem": it.problem} if it.problem else {name: getattr(it, name) for name in _TOPIC_NAMES}
        for it in found
    ]
    show(documents, as_json, columns, rows, "no topics. Create a topic with: tidewheel topics create NAME")


def _show_subscriptions(found: list[Subscription], as_json: bool) -> None:
    rows = [(each.name, each.state.value, each.filter_policy, each.queue_url) for each in found]
    show(found, as_json, ["subscription", "state", "filter", "queue"], rows, "no subscriptions")
