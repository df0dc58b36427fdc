"""Defines the command `tidewheel address`, which prints where and how programs without the SDK send."""

from __future__ import annotations

import re
import shlex
from typing import Annotated
from urllib.parse import urlsplit

import typer

from tidewheel.cli.administration import AsJson
from tidewheel.cli.output import print_json, print_table
from tidewheel.cli.policies import service_settings
from tidewheel.cli.target import target
from tidewheel.errors import InvalidValue
from tidewheel.shipped import DOCS, shipped

PAGE = "other-languages.md"
PROGRAMS = {"cli": "send.sh", "js": "send.mjs", "java": "Send.java", "go": "send.go", "php": "send.php"}
"""Language -> the page's program."""
VARIABLE = "TIDEWHEEL_ADDRESS"
"""The environment variable that the programs read."""
_TOPIC = "orders"
"""The topic of the page's programs."""


def address(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Option(help="A topic, which may have a queue of its own.")] = None,
    language: Annotated[str, typer.Option(help=f"The program's language: {', '.join(PROGRAMS)}.")] = "cli",
    as_json: AsJson = False,
) -> None:
    """Print the queue to which programs send without the SDK, and a program that sends a message."""
    from tidewheel.policies import address_arn

    if language not in PROGRAMS:
        raise InvalidValue("language", language, f"give one of {', '.join(PROGRAMS)}")
    settings = service_settings(ctx)
    arn = address_arn(settings, topic)
    url = settings.address(topic)
    endpoint_url = target(ctx).endpoint_url
    if endpoint_url is not None:  # some SDKs send to the host of the queue's URL
        url = endpoint_url.rstrip("/") + urlsplit(url).path
    if as_json:
        print_json({"url": url, "arn": arn})
        return
    print_table(["", ""], [("URL", url), ("ARN", arn)])
    typer.echo(f"\nexport {VARIABLE}={shlex.quote(url)}\n\n{program(language, topic or _TOPIC)}", nl=False)


def program(language: str, topic: str) -> str:
    """Returns the page's program in a language, for a topic."""
    page = (shipped(DOCS) / PAGE).read_text(encoding="utf-8")
    name = re.escape(PROGRAMS[language])
    [found] = re.findall(rf"^<!-- examples/languages/{name} -->\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(found).replace(_TOPIC, topic)
