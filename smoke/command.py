"""The command `python -m smoke`: asks whether it may, tries the service in the caller's account, shows the result."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from smoke.aws_cloud import ENVIRONMENT, AwsCloud, Caller
from smoke.interrupts import end_on_termination
from smoke.local_cloud import LocalCloud
from smoke.price import estimate_dollars
from smoke.removal import Removal, remove
from smoke.report import Report
from smoke.trial import run

PREFIX = "tidewheel-smoke-"
"""Every stack that a trial makes is named so, and nothing else is ever removed."""
PASSED, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
_HEX_BYTES = 3


def main(arguments: list[str] | None = None, *, ask: Callable[[str], str] = input) -> int:
    """Runs a trial; returns the exit code."""
    options = _options(arguments)
    end_on_termination()
    stack = f"{PREFIX}{secrets.token_hex(_HEX_BYTES)}"
    if options.local:
        return _local(stack, options)
    session = boto3.Session(profile_name=options.profile, region_name=options.region)
    cloud = AwsCloud(options.remove or stack, session, print)
    try:
        caller = cloud.caller()
    except (ClientError, BotoCoreError) as error:
        print(f"no trial: {error}", file=sys.stderr)
        return REFUSED
    if not caller.region:
        print("no trial: no Region is set; give --region, or set AWS_REGION", file=sys.stderr)
        return REFUSED
    if options.remove:
        return _remove(cloud)
    print(_plan(caller, stack, options))
    if not _consents(caller, options, ask):
        print("no trial: nothing was made", file=sys.stderr)
        return REFUSED
    try:
        report = run(cloud, rebuild_on=options.rebuild, keep=options.keep, say=_say)
    finally:
        cloud.close()
    return _show(report, options.report)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    """Returns the options; those that would be found wanting after the trial are refused before it."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.local and options.remove:
        parser.error("--remove is for an account: what --local makes ends with it, so leave one of the two out")
    folder = options.report.parent
    if options.report.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        parser.error(f"--report: {options.report} cannot be written: make the folder {folder}, or name another file")
    return options


def _parser() -> argparse.ArgumentParser:
    description = "Deploys a stack into the account that is logged in, uses all of it, measures, and removes it again."
    parser = argparse.ArgumentParser(prog="python -m smoke", description=description)
    parser.add_argument("--yes", action="store_true", help="do not ask; the account that is logged in pays")
    parser.add_argument("--keep", action="store_true", help="leave the stack for a look at it")
    parser.add_argument(
        "--rebuild",
        choices=("here", "glue", "nowhere"),
        default="here",
        help="where the rebuild runs; glue costs more [default: here]",
    )
    parser.add_argument("--profile", help="profile of the credentials")
    parser.add_argument("--region", help="where to deploy [default: the profile's]")
    parser.add_argument("--report", type=Path, default=Path("smoke-report.json"), help="file of the report")
    parser.add_argument("--local", action="store_true", help="rehearse on the emulated AWS; costs nothing")
    parser.add_argument("--remove", metavar="STACK", type=_smoke_stack, help="remove what an earlier trial left")
    return parser


def _smoke_stack(name: str) -> str:
    if not name.startswith(PREFIX):
        raise argparse.ArgumentTypeError(f"{name!r} is not the stack of a trial: those begin with {PREFIX}")
    return name


def _plan(caller: Caller, stack: str, options: argparse.Namespace) -> str:
    removed = "stays, since you say --keep" if options.keep else "is removed afterwards, with everything in it"
    return (
        f"account {caller.account}, Region {caller.region}, as {caller.arn}\n"
        f"The stack {stack} (environment {ENVIRONMENT}) is deployed, used for about 20 minutes, and {removed}.\n"
        f"The rebuild runs {options.rebuild}. It costs about ${estimate_dollars(options.rebuild):.2f} at most.\n"
        "The CDK's bootstrap bucket keeps the functions' code; it is the account's."
    )


def _consents(caller: Caller, options: argparse.Namespace, ask: Callable[[str], str]) -> bool:
    """Whether the caller typed the account's number; without anybody to ask, only --yes will do."""
    if options.yes:
        return True
    try:
        return ask(f"Type the account's number to go on [{caller.account}]: ").strip() == caller.account
    except EOFError:
        return False


def _local(stack: str, options: argparse.Namespace) -> int:
    cloud = LocalCloud(stack)
    try:
        report = run(cloud, rebuild_on=options.rebuild, keep=False, say=_say)
        report.emulated = True
        return _show(report, options.report)
    finally:
        cloud.close()


def _remove(cloud: AwsCloud) -> int:
    removal = Removal()
    remove(cloud.session, cloud.stack_name, removal, _say)
    print(f"removed: {', '.join(removal.removed) or 'nothing'}")
    for left in removal.leftovers:
        print(f"LEFT: {left.name}: {left.why}\n      remove it with: {left.command}")
    return FAILED if removal.leftovers else PASSED


def _show(report: Report, path: Path) -> int:
    print("\n".join(report.lines()))
    path.write_text(report.to_json(), encoding="utf-8")
    print(f"report: {path}")
    if report.interrupted:
        return INTERRUPTED
    return PASSED if report.passed else FAILED


def _say(line: str) -> None:
    print(line, flush=True)
