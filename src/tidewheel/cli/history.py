"""Defines the commands `tidewheel sent`, `purge`, `replay`, `redrive`, `dead-letters` and `damaged`."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from tidewheel.cli.administration import AsJson, SubscriptionName, TopicName, Yes, confirm
from tidewheel.cli.inspection import fields_of, progress_words
from tidewheel.cli.messages import time_of
from tidewheel.cli.output import print_error, print_json, print_table, progress_bar, show
from tidewheel.cli.target import client
from tidewheel.clock import utc
from tidewheel.errors import InvalidValue, UnknownDamaged
from tidewheel.model.message import looks_like_id
from tidewheel.model.untrusted import visible

if TYPE_CHECKING:
    from tidewheel.client.history import SentMessage

From = Annotated[str | None, typer.Option("--from", help="Only messages due at or after this ISO 8601 time.")]
Until = Annotated[str | None, typer.Option("--until", help="Only messages due before this ISO 8601 time.")]
Behind = Annotated[str | None, typer.Option("--until", help="Only messages due before this time, or behind this id.")]
_NONE = "no such messages (those that were due soon after they were sent are not listed)"


def sent(
    ctx: typer.Context,
    topic: TopicName,
    subscription: Annotated[str | None, typer.Argument(help="Only messages sent to this subscription.")] = None,
    key: Annotated[str | None, typer.Option(help="Only messages with this key.")] = None,
    group: Annotated[str | None, typer.Option(help="Only messages of this group.")] = None,
    start: From = None,
    end: Behind = None,
    count: Annotated[int, typer.Option("--number", "-n", min=1, help="Maximum number of messages.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show messages that were sent, the newest first: when each queue took them, and when a consumer did."""
    until = end if end is not None and looks_like_id(end) else time_of(end, "--until")
    history = client(ctx).history(topic, subscription, time_of(start, "--from"), until, key, group)
    found = list(islice(history, count))
    if as_json:
        told = [fields_of(each.message) | {"cancelled": each.cancelled, "to": each.subscriptions} for each in found]
        names = ("looked_back_to", "complete", "reads", "unreadable")
        print_json({"messages": told} | {name: getattr(history, name) for name in names})
        return
    rows = [(it.message.deliver_at, it.id, it.message.key, it.message.attempt, _to(it)) for it in found]
    print_table(["due", "id", "key", "attempt", "sent to"], rows, _NONE)
    end_of_look = "" if history.complete else f"; it ended after {history.reads:,} reads"
    if len(found) == count:
        end_of_look = f"; go on with --until {found[-1].id}"
    typer.echo(f"looked back to {history.looked_back_to.isoformat(timespec='seconds')}{end_of_look}")
    for name, error in history.unreadable.items():
        typer.echo(visible(f"missing: {name}: {error}"))


def _to(it: SentMessage) -> str:
    to = "; ".join(f"{each.name}: {progress_words(each)}" for each in it.subscriptions)
    return f"{to}; cancelled meanwhile" if it.cancelled else to


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


Ids = Annotated[list[str] | None, typer.Option("--id", help="Only the letter with this id. Repeat the option.")]
Cause = Annotated[
    str | None, typer.Option(help="Only letters of this cause, as `tidewheel dead-letters list` prints it.")
]


def redrive(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name.")] = None,
    subscription: Annotated[str | None, typer.Argument(help="The subscription's name.")] = None,
    service: Annotated[
        bool, typer.Option("--service", help="Redrive the service's own queues, instead of a subscription's.")
    ] = False,
    ids: Ids = None,
    cause: Cause = None,
    as_json: AsJson = False,
) -> None:
    """Move dead letters back to the queue of a subscription, or to the service's own queues."""
    advice = "give a topic and a subscription, or --service"
    if service and (topic is not None or ids or cause):
        raise InvalidValue("TOPIC", topic, advice)
    if not service and (topic is None or subscription is None):
        raise InvalidValue("SUBSCRIPTION", subscription, advice)
    tidewheel = client(ctx)
    with progress_bar("redriving"):
        if topic is None or subscription is None:
            found = tidewheel.redrive_service()
        else:
            found = [tidewheel.redrive(topic, subscription, ids=ids, cause=cause)]
    rows = [(each.queue_url.rpartition("/")[2], each.dead_letter_arn, each.messages) for each in found]
    show(found, as_json, ["to queue", "from dead-letter queue", "messages"], rows)


dead_letters = typer.Typer(help="Look at dead letters, and delete them. `tidewheel redrive` moves them back.")


@dead_letters.command("list")
def list_dead_letters(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic's name. Without a name, all topics.")] = None,
    subscription: Annotated[str | None, typer.Argument(help="The subscription's name. Without a name, all.")] = None,
    count: Annotated[int, typer.Option("--number", "-n", help="Letters of each subscription, up to 100.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Look at dead letters, which stay where they are. A look counts as a receive.

    Letters with the same reason but for its numbers are one row, the newest first. With --json, each has its own.
    """
    from tidewheel.client.operations.dead_letters import grouped

    found = client(ctx).dead_letters(topic, subscription, count)
    rows = [
        (
            f"{each[0].topic}/{each[0].subscription}",
            each[0].cause,
            len(each),
            each[-1].dead_at,
            each[0].dead_at,
            each[0].id,
        )
        for each in grouped(found)
    ]
    columns = ["subscription", "cause", "letters", "first", "last", "newest id"]
    show([{"cause": each.cause, **asdict(each)} for each in found], as_json, columns, rows, "no dead letters")
    if rows and not as_json:
        print_error(f"looked at {len(found)}, at most {count} of each subscription")


@dead_letters.command("delete")
def delete_dead_letters(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    ids: Ids = None,
    cause: Cause = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters by id, or all of a cause."""
    confirm(yes, f"Delete these dead letters of {topic}/{subscription}?")
    deleted = client(ctx).delete_dead_letters(topic, subscription, ids=ids, cause=cause)
    show({"deleted": deleted}, as_json, ["deleted"], [(deleted,)])


damaged = typer.Typer(no_args_is_help=True, help="Stored messages that cannot be read: list, retry, restore, give up.")

DamagedId = Annotated[str, typer.Argument(help="The id that `damaged list` prints.")]


@damaged.command("list")
def list_damaged(ctx: typer.Context, topic: TopicName, as_json: AsJson = False) -> None:
    """List what cannot be read: messages, and items of the table."""
    found = client(ctx).damaged(topic)
    states = {True: "damaged", False: "tried again"}
    rows = [
        (each.id or "", each.what, each.name, each.messages or "", states[each.damaged], each.reason) for each in found
    ]
    show(found, as_json, ["id", "what", "of", "messages (estimated)", "state", "reason"], rows, "nothing is damaged")


@damaged.command()
def retry(ctx: typer.Context, topic: TopicName, id: DamagedId) -> None:
    """Read messages again. The next sweep sends what can be read now, except what was purged or cancelled."""
    client(ctx).retry_damaged(topic, id)
    typer.echo("the next sweep tries, within five minutes")


@damaged.command()
def restore(ctx: typer.Context, topic: TopicName, id: DamagedId) -> None:
    """Copy S3's last good version back, then retry. Production keeps versions for 7 days, development none."""
    client(ctx).restore_damaged(topic, id)
    typer.echo("restored; the next sweep sends, within five minutes")


@damaged.command("give-up")
def give_up(
    ctx: typer.Context,
    topic: TopicName,
    id: DamagedId,
    reason: Annotated[str, typer.Option("--reason", help="For the record in the queue of refused messages.")],
    yes: Yes = False,
) -> None:
    """Give messages up, with a record in the queue of refused messages."""
    tidewheel = client(ctx)
    if not yes:
        what = next((each for each in tidewheel.damaged(topic) if each.id == id), None)
        if what is None:
            raise UnknownDamaged(topic, id)
        messages = "" if what.messages is None else f", about {what.messages} messages"
        confirm(yes, f"Give up {id} of topic {topic}{messages}? This is final.")
    tidewheel.give_up_damaged(topic, id, reason)
