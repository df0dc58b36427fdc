"""Defines the command `tidewheel worker`, which runs a program's worker, and anew after each change of its files."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidewheel.cli.target import target
from tidewheel.errors import ExtraMissing, InvalidValue

if TYPE_CHECKING:
    from tidewheel.client.worker.worker import Worker

_END_S = 40
"""How long a worker may take to end before it is killed: longer than it needs to finish what it has in hand."""

_RELOADED_WAIT_S = 1
"""How long a poll waits with --reload: a worker reads its poll to the end before it begins anew."""


def worker(
    ctx: typer.Context,
    program: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Where the worker is, such as shop:worker.")],
    only: Annotated[str, typer.Option(metavar="TOPIC/SUBSCRIPTION", help="Work on this subscription alone.")] = "",
    reload: Annotated[bool, typer.Option("--reload", help="Begin anew when a .py file here changes.")] = False,
    reloaded: Annotated[bool, typer.Option("--reloaded", hidden=True)] = False,
) -> None:
    """Run a worker until Ctrl-C or SIGTERM.

    MODULE is imported from the present folder. NAME is its `tidewheel.Worker`.
    """
    if reload:
        _restart_at_changes()
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    found = load(program)
    found.client = found.client or target(ctx).client()
    if only:
        found.only(only)
    if reloaded:
        found.wait_s = min(found.wait_s, _RELOADED_WAIT_S)
    typer.echo(f"Working on {', '.join(found.addresses)}. Ctrl-C ends it.", err=True)
    found.run()


def _restart_at_changes() -> None:
    """Runs this command with --reloaded in a process, and ends and begins it anew when a file changes.

    The process has a session of its own: a terminal's Ctrl-C comes to it once, from here. A second one ends it at once.
    If it ended by itself, as after a syntax error, the next change begins it.
    """
    try:
        from watchfiles import PythonFilter, watch
    except ImportError:
        raise ExtraMissing("--reload", "no module named 'watchfiles'", "reload") from None
    command = [
        sys.executable,
        "-m",
        "tidewheel.cli",
        *("--reloaded" if each == "--reload" else each for each in sys.argv[1:]),
    ]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        for changes in watch(Path.cwd(), watch_filter=PythonFilter(), raise_interrupt=False):
            typer.echo(f"Changed: {', '.join(sorted({Path(path).name for _, path in changes}))}", err=True)
            _end(process)
            process = subprocess.Popen(command, start_new_session=True)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def load(program: str) -> Worker:
    """Returns the worker that a text such as "shop:worker" names.

    Raises:
        InvalidValue: there is no such worker.
    """
    from tidewheel.client.worker.worker import Worker

    module, _, name = program.partition(":")
    if not (module and name):
        raise InvalidValue("MODULE:NAME", program, "give a module and a name in it, such as shop:worker")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise InvalidValue("MODULE:NAME", program, f"there is no module {module} in {here}") from None
        traceback.print_exception(error, limit=-3)  # the program's own frames, not those of this command
        raise typer.Exit(1) from None
    if not isinstance(found, Worker):
        raise InvalidValue("MODULE:NAME", program, f"{module} has no tidewheel.Worker of the name {name!r}")
    return found
