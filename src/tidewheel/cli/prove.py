"""Defines the command `tidewheel prove`, which tries a deployed stack for ten minutes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tidewheel.cli.administration import AsJson, Yes, confirm
from tidewheel.cli.output import print_json
from tidewheel.cli.target import target
from tidewheel.client import dev_service

_FILE = Path("tidewheel-prove.json")


def prove(
    ctx: typer.Context,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the result.")] = _FILE,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Prove a deployed stack in ten minutes, for less than $0.50, on two topics of its own.

    Ends with exit code 1 if a bound breaks: for messages that are lost, early or late, for copies, for a schedule that
    is not healed, for units beside the model of `tidewheel cost`, or for what could not be removed.
    """
    from tidewheel.prove import proof

    its = target(ctx)

    def units() -> Mapping[str, float]:
        service = None if its.dev is None else dev_service.service_for(its.endpoint_url)
        return {} if service is None else service.units

    where = "local" if its.dev is not None else "aws" if its.endpoint_url is None else "emulator"
    confirm(yes, f"Send 2,000 messages through stack {its.stack} ({where}), on two topics that are deleted afterwards?")
    result = proof.prove(
        its.session(),
        its.stack,
        its.endpoint_url,
        where=where,
        units=units,
        say=lambda line: typer.echo(line, err=True),
    )
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json(result)
    for line in () if as_json else proof.page(result):
        typer.echo(line)
    if result["broken"]:
        raise typer.Exit(1)
