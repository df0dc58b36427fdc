"""Defines the commands that deploy and remove a stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli import INTERRUPTED
from tidewheel.cli.administration import AsJson, Yes, pairs
from tidewheel.cli.output import print_json, progress_bar
from tidewheel.cli.target import target
from tidewheel.errors import DeployRefused, InvalidValue, needs_extra
from tidewheel.model.untrusted import visible

if TYPE_CHECKING:
    from tidewheel.deploy.deploying import Deployment

_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403")

Role = Annotated[str | None, typer.Option(help="ARN of the role with which CloudFormation works.")]


def deploy(
    ctx: typer.Context,
    environment: Annotated[str | None, typer.Option(help="development, the default, or production.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show the changes.")] = False,
    yes: Yes = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="As log_level=DEBUG; log_level= is the default.")
    ] = None,
    spark: Annotated[bool | None, typer.Option("--spark/--no-spark", help="With or without Glue jobs.")] = None,
    architecture: Annotated[str | None, typer.Option(help="The functions': arm64 or x86_64.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag of all resources, as key=value.")] = None,
    role_arn: Role = None,
    import_existing: Annotated[
        bool, typer.Option("--import-existing", help="Take over what a deleted stack left.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Deploy the service to your AWS account, or update it. Shows the changes, and asks."""
    settings = dict(pairs("--set", set_)) | ({} if architecture is None else {"architecture": architecture})
    request: dict[str, Any] = {"ImportExistingResources": import_existing, **_role(role_arn)}
    if tag:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in pairs("--tag", tag)]
    with _deployment(ctx, yes, as_json) as deployment:
        done = deployment.deploy(plan=plan, environment=environment, spark=spark, settings=settings, **request)
    _tell(done, as_json, done["deployed"] or plan or not done["changes"], "deployed")


def destroy(ctx: typer.Context, yes: Yes = False, role_arn: Role = None, as_json: AsJson = False) -> None:
    """Remove a deployed service. Development loses all messages. Production keeps table, S3 bucket and queues."""
    with _deployment(ctx, yes, as_json, typed=True) as deployment:
        done = deployment.destroy(**_role(role_arn))
    _tell(done, as_json, done["destroyed"], "destroyed")


def _role(role_arn: str | None) -> dict[str, str]:
    return {} if role_arn is None else {"RoleARN": role_arn}


@contextmanager
def _deployment(ctx: typer.Context, yes: bool, as_json: bool, *, typed: bool = False) -> Iterator[Deployment]:
    """Yields the stack, with a bar while CloudFormation works. Tells missing permissions, and what Ctrl-C leaves.

    Args:
        ctx: Has the global options.
        yes: Whether all questions are answered.
        as_json: Whether standard output is for programs only.
        typed: Whether a person must answer with the stack's name.

    Raises:
        DeployRefused: AWS refused a call.
        InvalidValue: CloudFormation takes no such name of a stack.
    """
    with needs_extra(f"tidewheel {ctx.info_name}", "deploy"):
        from botocore.exceptions import ClientError

        from tidewheel.deploy.deploying import Deployment, Talk

    given, moves = target(ctx), list[Callable[[float, float], None]]()
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", given.stack):
        raise InvalidValue(
            "--stack", given.stack, "give letters, digits and '-', first a letter, as CloudFormation does"
        )

    def ask(question: str) -> bool:
        bars.close()  # a bar would be drawn over the question
        moves.clear()
        wanted = given.stack if typed else "y"
        asked = f"{question} Type {wanted}"
        with suppress(typer.Abort):  # Ctrl-C, or the end of input: the answer is no
            return yes or typer.prompt(asked, default="", show_default=False, err=True) == wanted
        return False

    with ExitStack() as bars:

        def progress(done: float, total: float) -> None:
            if not moves:
                moves.append(bars.enter_context(progress_bar("resources"))[1])
            moves[0](done, total)

        try:
            talk = Talk(lambda line: typer.echo(visible(line), err=as_json), ask, progress)
            yield Deployment(given.stack, given.session(), given.endpoint_url, talk)
        except KeyboardInterrupt:
            if moves:
                again = given.command(str(ctx.info_name))
                typer.echo(f"CloudFormation goes on by itself. To follow: {again}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except ClientError as error:
            if error.response["Error"]["Code"] not in _DENIED:
                raise
            match = re.search(r"not authorized to perform: ([\w:]+)", str(error))
            needed = match[1] if match else error.operation_name
            raise DeployRefused(f"you lack the permission {needed}. {error}") from None


def _tell(found: dict[str, Any], as_json: bool, went_on: bool, done: str) -> None:
    """Prints a result. The answer no ends with exit code 1, as a script that forgot --yes must notice."""
    if as_json:
        print_json(found)
    elif found[done]:
        typer.echo(f"{done} {found['place']}")
    if not went_on:
        raise typer.Exit(1)
