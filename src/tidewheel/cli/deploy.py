"""Defines the commands that deploy and remove a stack."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli import INTERRUPTED
from tidewheel.cli.administration import AsJson
from tidewheel.cli.output import print_json
from tidewheel.cli.target import target
from tidewheel.errors import DeployRefused, needs_extra

if TYPE_CHECKING:
    from tidewheel.deploy.account import Account
    from tidewheel.deploy.deploying import Talk

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Role = Annotated[str | None, typer.Option(help="ARN of the role with which CloudFormation works.")]


def deploy(
    ctx: typer.Context,
    environment: Annotated[
        str | None,
        typer.Option(help="development or production. By default that of the deployed stack, or development."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show the changes.")] = False,
    yes: Yes = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, such as log_level=DEBUG. Repeat for more.")
    ] = None,
    spark: Annotated[bool | None, typer.Option("--spark/--no-spark", help="With or without Glue jobs.")] = None,
    architecture: Annotated[str | None, typer.Option(help="The functions': arm64 or x86_64.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag of all resources, as key=value.")] = None,
    role_arn: Role = None,
    permissions_boundary: Annotated[str | None, typer.Option(help="ARN of a policy that limits all roles.")] = None,
    assets_key: Annotated[str | None, typer.Option(help="ARN of a KMS key for the bucket with the archives.")] = None,
    import_existing: Annotated[
        bool, typer.Option("--import-existing", help="Take over what an earlier stack of this name left.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Deploy the service to your AWS account, or update it. Shows the changes, and asks."""
    with needs_extra("tidewheel.deploy", "deploy"):
        from tidewheel.deploy import deploying

    options = deploying.Options(
        environment=environment,
        spark=spark,
        architecture=architecture,
        settings=set_ or [],
        tags=dict(each.split("=", 1) for each in tag or []),
        role_arn=role_arn,
        boundary=permissions_boundary,
        assets_key=assets_key,
        import_existing=import_existing,
    )
    with _talk(yes, as_json, "tidewheel deploy") as talk:
        found = deploying.deploy(_account(ctx), ctx.obj.stack, options, talk, plan=plan)
    _tell(found, as_json, "deployed")


def destroy(ctx: typer.Context, yes: Yes = False, role_arn: Role = None, as_json: AsJson = False) -> None:
    """Remove a deployed service. Development loses all messages. Production keeps table, S3 bucket and queues."""
    with needs_extra("tidewheel.deploy", "deploy"):
        from tidewheel.deploy import destroying

    with _talk(yes, as_json, "tidewheel destroy", typed=ctx.obj.stack) as talk:
        found = destroying.destroy(_account(ctx), ctx.obj.stack, talk, role_arn)
    _tell(found, as_json, "destroyed")


def _account(ctx: typer.Context) -> Account:
    from tidewheel.deploy.account import Account

    given = target(ctx)
    return Account.of(given.session(), given.endpoint_url)


@contextmanager
def _talk(yes: bool, as_json: bool, command: str, typed: str | None = None) -> Iterator[Talk]:
    """Speaks with a person: on standard error, with a bar on a terminal. Names missing permissions.

    Args:
        yes: Whether all questions are answered.
        as_json: Whether standard output is for programs.
        command: The command to run again after Ctrl-C.
        typed: The text with which a person must answer. None: y.

    Raises:
        DeployRefused: AWS refused a call.
    """
    from botocore.exceptions import ClientError
    from rich.console import Console
    from rich.progress import Progress

    from tidewheel.deploy.deploying import Talk

    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    running = []
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("resources", total=None, visible=False)

        def ask(question: str) -> bool:
            if yes:
                return True
            bar.stop()
            wanted = f"type {typed}" if typed else "[y/N]"
            answer = typer.prompt(f"{question} {wanted}", default="", show_default=False, err=True)
            bar.start()
            return bool(answer == typed if typed else answer.strip().lower() in ("y", "yes"))

        def progress(done: float, total: float) -> None:
            running.append(done)
            bar.update(task, completed=done, total=total or None, visible=True)

        try:
            yield Talk(say=lambda line: console.print(line, markup=False), ask=ask, progress=progress)
        except KeyboardInterrupt:
            if running:
                console.print(f"CloudFormation goes on by itself. To follow and complete it: {command}", markup=False)
            raise typer.Exit(INTERRUPTED) from None
        except ClientError as error:
            if error.response["Error"]["Code"] not in _DENIED:
                raise
            match = re.search(r"not authorized to perform: ([\w:]+)", str(error))
            needed = match[1] if match else error.operation_name
            raise DeployRefused(f"you lack the permission {needed}: tidewheel docs deploy has all. {error}") from None


def _tell(found: dict[str, Any], as_json: bool, done: str) -> None:
    if as_json:
        print_json(found)
    elif found[done]:
        typer.echo(f"{done} {found['stack']}")
