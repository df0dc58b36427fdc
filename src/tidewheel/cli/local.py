"""Defines the command `tidewheel local`, which runs the whole service on this machine."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which
from threading import Event
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidewheel.cli.settings import takes_settings
from tidewheel.cli.target import Target
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import InvalidValue
from tidewheel.local import LocalTidewheel
from tidewheel.model.settings import TopicSettings

_REFRESH_S = 1.0

app = typer.Typer(help="Run the whole service on this machine, without an AWS account.", no_args_is_help=True)


@app.callback()
def local() -> None:
    """Run the whole service on this machine, without an AWS account."""


@app.command()
@takes_settings(TopicSettings)
def up(
    ctx: typer.Context,
    settings: dict[str, Any],
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port for AWS clients, on 127.0.0.1.")] = 4566,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Create this topic, NAME or NAME:SUBSCRIPTION,... Repeat the option for more topics."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="The lowest level that functions log to standard error.")] = "WARNING",
) -> None:
    """Serve the stack in real time on a port, for any AWS client, until Ctrl-C. All state is in memory."""
    console = Console(stderr=True)
    target: Target = ctx.obj
    wanted = [_topic(each) for each in topic or ()]
    if settings and not wanted:
        name, value = next(iter(settings.items()))
        raise InvalidValue(name, value, "give --topic too, since a setting is for the topics that this command creates")
    with console.status("Deploying the stack ...") as status:
        stack = LocalTidewheel(clock="real", port=port, log_level=log_level, stack_name=target.stack)
        stack.open()
        try:
            url = stack.endpoint_url
            client = stack.client()
            for name, subscriptions in wanted:
                status.update(f"Creating topic {name} ...")
                client.create_topic(name, **settings)
                for subscription in subscriptions:
                    client.create_subscription(name, subscription)
        except BaseException:
            stack.close()
            raise
    ended = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())  # Python drops an exception in a callback of a weak reference
    try:
        console.print(f"Tidewheel is up at [bold]{url}[/], stack [bold]{stack.stack_name}[/]. Ctrl-C stops it.")
        console.print("In another shell:")
        for hint in _hints(url, stack.stack_name, wanted):
            console.print("  " + hint, soft_wrap=True, highlight=False, markup=False)
        console.print(f"For SQS, `aws` needs --endpoint-url {url}: it ignores the variable.", soft_wrap=True)
        with Live(_status(stack, client), console=console, refresh_per_second=2, transient=True) as live:
            seen = 0
            while not ended.wait(_REFRESH_S):
                for failure in stack.failures[seen:]:
                    live.console.print(f"[red]{failure.function} failed:[/] {str(failure.error)[:300]}")
                seen = len(stack.failures)
                live.update(_status(stack, client))
        console.print("Stopping ...")
    finally:
        stack.close()
    console.print("Stopped. All messages are gone.")


def _hints(url: str, stack: str, wanted: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Yields commands for another shell: they use what the options created, and create the rest."""
    program = "tidewheel" if which("tidewheel") else shlex.quote(str(Path(sys.argv[0]).resolve()))
    access = "AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_DEFAULT_REGION=us-east-1"
    yield f"export TIDEWHEEL_STACK={stack} AWS_ENDPOINT_URL={url} {access}"
    topic, subscriptions = max(wanted, key=lambda each: len(each[1]), default=("orders", ()))
    subscription = next(iter(subscriptions), "billing")
    if not wanted:
        yield f"{program} topics create {topic}"
    if not subscriptions:
        yield f"{program} subscriptions create {topic} {subscription}"
    yield f"{program} send {topic} hello --delay 5s && {program} receive {topic} {subscription} --wait 20"


def _topic(text: str) -> tuple[str, list[str]]:
    name, colon, subscriptions = text.partition(":")
    if colon and not subscriptions:
        raise InvalidValue("--topic", text, "give the subscriptions after the colon, as in NAME:SUBSCRIPTION,...")
    return name, [each for each in subscriptions.split(",") if each]


def _status(stack: LocalTidewheel, client: Tidewheel) -> Table:
    table = Table("topic", "waiting", "next due", "subscription", "in queue", box=None, padding=(0, 3, 0, 0))
    topics = client.topics()
    for topic in topics:
        stats = client.stats(topic.name)
        due = stats.next_due_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if stats.next_due_at else "-"
        rows = [(each.name, str(each.queue.visible) if each.queue else "?") for each in stats.subscriptions]
        for i, (name, depth) in enumerate(rows or [("-", "-")]):
            table.add_row(*((topic.name, str(stats.waiting), due) if i == 0 else ("", "", "")), name, depth)
    if not topics:
        table.add_row("no topics yet")
    calls = " ".join(f"{name} {count}" for name, count in sorted(stack.invocations.items()))
    table.caption = f"invocations: {calls}"
    table.caption_justify = "left"
    return table
