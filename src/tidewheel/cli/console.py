"""Defines the command `tidewheel console`, which serves the console of a deployed stack on this machine."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from tidewheel.cli.administration import AsJson
from tidewheel.cli.output import print_json
from tidewheel.cli.target import target
from tidewheel.errors import needs_extra

if TYPE_CHECKING:
    import boto3

NOBODY = "unknown: AWS did not tell"


def console(
    ctx: typer.Context,
    stack: Annotated[str | None, typer.Option(help="Name of the deployed stack; also before the command.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes any free port.")] = 8420,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Show the buttons that cancel, pause, purge and more.")
    ] = False,
    hide_bodies: Annotated[
        bool, typer.Option("--hide-bodies", help="Leave bodies and attributes out of all pages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a page of waiting messages, their due times, and troubles, until Ctrl-C.

    The page uses your own AWS credentials, and listens on 127.0.0.1 only. Without --allow-changes it only reads.
    """
    with needs_extra("tidewheel console", "console"):
        from tidewheel.console import ConsoleServer, RequestMeter

    chosen = target(ctx)
    if stack is not None:
        chosen = replace(chosen, stack=stack)
    session = chosen.session()
    meter = RequestMeter(session)
    client = chosen.client(session)
    client.core.connection.settings  # noqa: B018  # a wrong stack or wrong credentials are told at once
    log_audit()
    server = ConsoleServer(
        client,
        port=port,
        changes=allow_changes,
        requests=meter,
        hide_bodies=hide_bodies,
        who="local" if chosen.here else caller(session),
        opened=tell_opened,
    )
    with server:
        if as_json:
            print_json({"console": server.url, "stack": chosen.stack, "changes": allow_changes})
            sys.stdout.flush()
        else:
            rights = "It may change the stack" if allow_changes else "It only reads: --allow-changes lets it change"
            typer.echo(f"The console of stack {chosen.stack}: {server.url}\n{rights}. Ctrl-C stops it.")
        Event().wait()


def tell_opened(next_url: str) -> None:
    """Prints that a browser has opened the console, and the address for another."""
    typer.echo(f"A browser has opened the console. For another: {next_url}", err=True)


def caller(session: boto3.Session) -> str:
    """Returns the ARN of the session's credentials, for the audit line."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return str(session.client("sts").get_caller_identity()["Arn"])
    except (BotoCoreError, ClientError):
        return NOBODY


def log_audit() -> None:
    """Writes the console's audit lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    audit = logging.getLogger("tidewheel.console.audit")
    audit.handlers[:] = [handler]
    audit.setLevel(logging.INFO)
    audit.propagate = False
