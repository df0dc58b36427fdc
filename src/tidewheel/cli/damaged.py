"""Defines the commands `tidewheel damaged list`, `retry`, `restore` and `give-up`."""

from __future__ import annotations

from typing import Annotated

import typer

from tidewheel.cli.administration import AsJson, TopicName, Yes, confirm
from tidewheel.cli.output import show
from tidewheel.cli.target import client
from tidewheel.errors import UnknownDamaged

damaged = typer.Typer(no_args_is_help=True, help="Stored messages that cannot be read: list, retry, restore, give up.")

Id = Annotated[str, typer.Argument(help="The id that `damaged list` prints.")]


@damaged.command("list")
def list_(ctx: typer.Context, topic: TopicName, as_json: AsJson = False) -> None:
    """List what cannot be read: messages, and items of the table."""
    found = client(ctx).damaged(topic)
    states = {True: "damaged", False: "tried again"}
    rows = [
        (each.id or "", each.what, each.name, each.messages or "", states[each.damaged], each.reason) for each in found
    ]
    show(found, as_json, ["id", "what", "of", "messages (estimated)", "state", "reason"], rows, "nothing is damaged")


@damaged.command()
def retry(ctx: typer.Context, topic: TopicName, id: Id) -> None:
    """Read messages again. The next sweep sends what can be read now, except what was purged or cancelled."""
    client(ctx).retry_damaged(topic, id)
    typer.echo("the next sweep tries, within five minutes")


@damaged.command()
def restore(ctx: typer.Context, topic: TopicName, id: Id) -> None:
    """Copy S3's last good version back, then retry. Production keeps versions for 7 days, development none."""
    client(ctx).restore_damaged(topic, id)
    typer.echo("restored; the next sweep sends, within five minutes")


@damaged.command("give-up")
def give_up(
    ctx: typer.Context,
    topic: TopicName,
    id: Id,
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
