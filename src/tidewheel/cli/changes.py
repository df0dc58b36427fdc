"""Defines the commands `tidewheel cancel`, `reschedule` and `recurring`, which change waiting messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.administration import AsJson, TopicName, pairs
from tidewheel.cli.messages import STANDARD_INPUT, Attribute, JsonBody, body_of, selection, time_of
from tidewheel.cli.output import progress_bar, show
from tidewheel.cli.target import client
from tidewheel.model.duration import delay_of

if TYPE_CHECKING:
    from tidewheel.client.finding import ChangedMessages, Selected
    from tidewheel.client.recurring import RecurringMessage
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.flows.delivery.cancel import CancelResult

TOO_LATE = 3
"""Exit code if a message is too late to cancel or to move."""

_MANY = 1_000_000
_NOT_FOUND = "no message with this key was found; what was sent so far will not come"

recurring = typer.Typer(no_args_is_help=True, help="Create, list and cancel recurring messages.")

Key = Annotated[str, typer.Argument(help="The key of the recurring message.")]


def cancel(
    ctx: typer.Context,
    topic: TopicName,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Message ids. '-' reads ids from standard input, one a line.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Cancel the messages with this key, instead of ids.")] = None,
    key_prefix: Annotated[str | None, typer.Option(help="Cancel all messages whose keys begin so.")] = None,
    group: Annotated[str | None, typer.Option(help="Cancel all messages of this group.")] = None,
    first: Annotated[str | None, typer.Option("--from", help="Only those due from this ISO 8601 time on.")] = None,
    end: Annotated[str | None, typer.Option("--until", help="Only those due before this ISO 8601 time.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Cancel all messages of the topic.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, however many there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cancel messages by id or key, or all that match. The exit code is 3 if a message is too late to cancel."""
    service, many = client(ctx), everything or any(each is not None for each in (key_prefix, group, first, end))
    if (dry_run or yes) and not many:
        raise typer.BadParameter("--dry-run and --yes go with what selects many")
    if bool(ids) + (key is not None) + many > 1:
        raise typer.BadParameter("give ids, --key, or what selects many")
    if many:
        selected = selection(key_prefix, group, first, end, everything)
        _cancel_all(service, topic, selected, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    if key is not None:
        results = [service.cancel(topic, key=key)]
    else:
        wanted = [line.strip() for line in sys.stdin if line.strip()] if ids == [STANDARD_INPUT] else ids or []
        if not wanted:
            raise typer.BadParameter("give at least one id, or --key")
        results = service.cancel_many(topic, wanted)
    documents = [{"id": each.id, **_said(each)} for each in results]
    columns = ["id", "result", "reason"]
    show(documents, as_json, columns, [[each.get(name) for name in columns] for each in documents], "nothing to cancel")
    if not all(results):
        raise typer.Exit(TOO_LATE)


def _said(answer: CancelResult) -> dict[str, str]:
    """Returns an answer's `result`, with a `reason` unless it is plain."""
    from tidewheel.flows.delivery.cancel import Cancelled

    if not isinstance(answer, Cancelled):
        return {"result": "too late", "reason": answer.reason}
    return {"result": "cancelled"} if answer.found else {"result": "cancelled", "reason": _NOT_FOUND}


def _cancel_all(service: Tidewheel, topic: str, selected: Selected, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Cancels all messages that match. Asks before, if there are very many."""

    def run(what: str, total: int = 0, *, dry: bool) -> ChangedMessages:
        with progress_bar(what) as (_, advance):
            return service.cancel_where(
                topic, dry_run=dry, progress=lambda done: advance(done.matched, max(done.matched, total)), **selected
            )

    if dry_run or not yes:
        cost = service.estimate(topic, **selected)
        if dry_run:
            keys = f", and ${cost.key_dollars * 1e6:.4f} a million keys" if selected.get("key_prefix") else ""
            read = f"about {cost.requests:,} requests, {cost.read_bytes / 1e6:,.1f} MB, ${cost.dollars:,.4f}"
            typer.echo(f"to count: {read}{keys}", err=True)
        done = run("counting", dry=True)
        dollars = (done.matched - done.sealed) * cost.cancel_dollars + done.sealed * cost.late_cancel_dollars
        if dry_run:
            typer.echo(f"to cancel: about ${dollars:,.4f}", err=True)
        elif done.matched > _MANY:
            typer.confirm(f"cancel {done.matched:,} messages, for about ${dollars:,.2f}?", abort=True, err=True)
    if not dry_run:
        done = run("cancelling", 0 if yes else done.matched, dry=False)
    counts = {"matched": done.matched, "cancelled": done.done, "too late": done.too_late}
    show(counts, as_json, list(counts), [tuple(counts.values())])
    if done.too_late:
        raise typer.Exit(TOO_LATE)


def reschedule(
    ctx: typer.Context,
    topic: TopicName,
    id: Annotated[str | None, typer.Argument(help="The message id.")] = None,
    key: Annotated[str | None, typer.Option(help="The message with this key, instead of an id.")] = None,
    delay: Annotated[
        str | None, typer.Option(help="Delay from now, in seconds or as text such as 90s, 15m, '3d 4h'.")
    ] = None,
    deliver_at: Annotated[str | None, typer.Option(help="ISO 8601 time with a time zone, instead of a delay.")] = None,
    as_json: AsJson = False,
) -> None:
    """Move a message to another time. The exit code is 3 if the message is too late to move, or cancelled."""
    from tidewheel.client.changes import Rescheduled

    result = client(ctx).reschedule(topic, id, key=key, delay=delay_of(delay), deliver_at=time_of(deliver_at))
    if isinstance(result, Rescheduled):
        shown: dict[str, Any] = {"id": result.receipt.id, "due": result.receipt.deliver_at, "result": "rescheduled"}
    else:
        shown = {"id": result.id, "due": None} | _said(result)
    show(shown, as_json, list(shown), [tuple(shown.values())])
    if not isinstance(result, Rescheduled):
        raise typer.Exit(TOO_LATE)


@recurring.command("create")
def create_recurring(
    ctx: typer.Context,
    topic: TopicName,
    key: Key,
    body: Annotated[str, typer.Argument(help="The body of each message.")],
    cron: Annotated[str | None, typer.Option(help="Five fields, such as '0 9 * * MON-FRI'.")] = None,
    every: Annotated[str | None, typer.Option(help="A fixed rate, such as 90s, 15m, 1d, instead of --cron.")] = None,
    timezone: Annotated[str, typer.Option(help="IANA name of the time zone of --cron.")] = "UTC",
    start: Annotated[
        str | None, typer.Option(help="Time of the first message at the earliest, ISO 8601 with a time zone.")
    ] = None,
    attribute: Attribute = None,
    expires_in: Annotated[
        str | None, typer.Option(help="Time after which a message that is due is no longer delivered, such as 10m.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="The MessageGroupId of each message.")] = None,
    window: Annotated[
        str | None, typer.Option(help="Shift all times by a constant below this, such as 15m.", show_default="none")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the recurring message with this key.")] = False,
    json_body: JsonBody = None,
    as_json: AsJson = False,
) -> None:
    """Create a message that comes again and again, by a cron rule or at a fixed rate."""
    made = client(ctx).send_recurring(
        topic,
        key,
        body_of(body, json_body),
        cron=cron,
        every=delay_of(every),
        timezone=timezone,
        start=time_of(start, "--start"),
        attributes=dict(pairs("--attribute", attribute)),
        expires_in=delay_of(expires_in),
        replace=replace,
        group=group,
        window=delay_of(window),
    )
    _show_recurring([made], as_json)


@recurring.command("list")
def list_recurring(ctx: typer.Context, topic: TopicName, as_json: AsJson = False) -> None:
    """List a topic's recurring messages."""
    _show_recurring(client(ctx).recurring(topic), as_json)


@recurring.command("cancel")
def cancel_recurring(ctx: typer.Context, topic: TopicName, key: Key) -> None:
    """End a recurring message."""
    client(ctx).cancel_recurring(topic, key)


def _show_recurring(found: list[RecurringMessage], as_json: bool) -> None:
    rows = [
        (each.key, each.cron or f"every {each.every_s} s", each.timezone if each.cron else None, each.next_at)
        for each in found
    ]
    show(found, as_json, ["key", "rule", "zone", "next"], rows, "no recurring messages")
