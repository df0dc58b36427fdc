"""Defines the command `tidewheel` with its global options and commands.

`demo` and `console` need more packages, so their modules are loaded by the command only. Each has a typer application
named `app`, which takes the arguments after the command's name.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from typer.core import TyperGroup

from tidewheel.cli import (
    INTERRUPTED,
    administration,
    changes,
    console,
    cost,
    demo,
    deploy,
    dev,
    documentation,
    history,
    inspection,
    jobs,
    listen,
    messages,
    plain,
    policies,
    prove,
    worker,
)
from tidewheel.cli.advice import advised
from tidewheel.cli.arguments import Command
from tidewheel.cli.output import print_error
from tidewheel.cli.target import Target
from tidewheel.errors import TidewheelError

FIRST = """Tidewheel delays messages for Amazon SQS, from a second to ten years.

Start a service on this machine, without an AWS account:
  tidewheel dev --topic orders:billing
Then send a message and receive it, in another shell, with the lines that the command prints.

Deploy a service to AWS:  tidewheel docs deploy
Read the documentation:   tidewheel docs
List all commands:        tidewheel --help
"""
"""What `tidewheel` alone prints."""


class _Group(TyperGroup):
    """Prints an expected error as one line and ends with exit code 1. A defect keeps its traceback."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if not _expected(error):
                raise
            print_error(advised(error, ctx.obj))
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Group, invoke_without_command=True, pretty_exceptions_enable=False, help="Delayed messages for Amazon SQS."
)
_START, _MESSAGES, _LOOK = "Start here", "Send and receive messages", "Look inside"
_TOPICS, _OPERATE, _PROGRAMS = "Topics and subscriptions", "Operate", "Other programs"
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    _START: (documentation.docs, cost.cost, demo.demo, deploy.deploy, deploy.destroy),
    _MESSAGES: (messages.send, messages.receive, listen.listen, worker.worker, changes.cancel, changes.reschedule),
    _LOOK: (inspection.stats, inspection.get, inspection.peek, inspection.find, history.sent, console.console),
    _OPERATE: (
        inspection.doctor,
        prove.prove,
        history.purge,
        history.replay,
        history.redrive,
        plain.refused,
        jobs.merge,
        jobs.rebuild,
        jobs.import_messages,
    ),
    _PROGRAMS: (plain.explain,),
}
for panel, commands in _COMMANDS.items():
    for command in commands:
        app.command("import" if command is jobs.import_messages else None, rich_help_panel=panel)(command)
app.command("address", rich_help_panel=_PROGRAMS)(policies.print_address)
app.add_typer(dev.app, name="dev", rich_help_panel=_START)
app.add_typer(changes.recurring, name="recurring", rich_help_panel=_MESSAGES)
app.add_typer(administration.topics, name="topics", rich_help_panel=_TOPICS)
app.add_typer(administration.subscriptions, name="subscriptions", rich_help_panel=_TOPICS)
app.add_typer(history.dead_letters, name="dead-letters", rich_help_panel=_OPERATE)
app.add_typer(history.damaged, name="damaged", rich_help_panel=_OPERATE)
app.add_typer(policies.policy, name="policy", rich_help_panel=_PROGRAMS)
for each in (app, *(group.typer_instance for group in app.registered_groups)):
    for registered in each.registered_commands if each else ():
        registered.cls = Command


def _version(asked: bool) -> None:
    if asked:
        from tidewheel import __version__

        typer.echo(f"tidewheel {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    stack: Annotated[str, typer.Option(envvar="TIDEWHEEL_STACK", help="Name of the deployed stack.")] = "tidewheel",
    endpoint_url: Annotated[
        str | None,
        typer.Option(envvar="AWS_ENDPOINT_URL", help="URL of AWS, such as http://localhost:4566 for `tidewheel dev`."),
    ] = None,
    region: Annotated[str | None, typer.Option(help="AWS region.")] = None,
    profile: Annotated[str | None, typer.Option(help="AWS profile.")] = None,
    version: Annotated[  # noqa: ARG001 - _version answers
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Keeps the global options for the commands."""
    if ctx.obj is None:
        sources = {name: ctx.get_parameter_source(name) for name in ("stack", "endpoint_url")}
        typed = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
        ctx.obj = Target(stack=stack, endpoint_url=endpoint_url, region=region, profile=profile, typed=typed)
    if ctx.invoked_subcommand is None:
        typer.echo(FIRST, nl=False)


def run() -> None:
    """Runs the command line. SIGTERM is Ctrl-C, unless it is ignored. A closed stream is empty, or takes everything."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # told already: Python would try again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _expected(error: Exception) -> bool:
    """Returns whether a user can act on an error. Without botocore in memory, no error is botocore's.

    typer ends quietly when the reader of a pipe has gone.
    """
    if isinstance(error, (TidewheelError, OSError)):
        return not isinstance(error, BrokenPipeError)
    exceptions = sys.modules.get("botocore.exceptions")
    return exceptions is not None and isinstance(error, (exceptions.BotoCoreError, exceptions.ClientError))
