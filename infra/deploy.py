"""Deploys, compares or removes the stack with the pinned CDK command line.

`python -m infra.deploy {deploy,diff,destroy} [options] [arguments of the CDK]`

Before a change it names the account, the Region, the environment and the stack, and asks. `deploy` bootstraps the
Region for the CDK if nobody has. `destroy` empties the S3 bucket of a stack whose data goes with the stack.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import boto3
import botocore.exceptions

from infra.application import DEFAULT_ENVIRONMENT, DEFAULT_STACK
from infra.environments import ENVIRONMENTS
from infra.service_stack import ENVIRONMENT_OUTPUT
from tidewheel.deploy.assets import Bucket

REPOSITORY = Path(__file__).resolve().parent.parent
BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
"""The SSM parameter that `cdk bootstrap` leaves in a Region, with the CDK's default qualifier."""

Run = Callable[[Sequence[str], Mapping[str, str]], int]


class DeployRefused(Exception):
    """The deployment cannot begin. The message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The place that a command changes.

    Attributes:
        account: The AWS account's 12 digits.
        region: The AWS Region.
        environment: An entry of `ENVIRONMENTS`.
        stack: The stack's name.
        bootstrapped: Whether the Region has what the CDK needs.
        deployed: The environment of the stack that is there. None: there is none, or it does not say.
        s3_bucket: The stack's S3 bucket, which `destroy` empties. None: there is none, or the bucket stays.
    """

    account: str
    region: str
    environment: str
    stack: str
    bootstrapped: bool
    deployed: str | None
    s3_bucket: Bucket | None

    def __str__(self) -> str:
        return f"stack {self.stack}, environment {self.environment}, account {self.account}, Region {self.region}"


def main(
    arguments: Sequence[str] | None = None,
    *,
    ask: Callable[[str], str] = input,
    run: Run = lambda command, variables: (
        subprocess.run(command, env=dict(variables), cwd=REPOSITORY, check=False).returncode
    ),
) -> int:
    """Runs a command of the CDK on the stack. Returns the exit code.

    Args:
        arguments: The command line's; None: those of the process.
        ask: Shows a question and returns the answer.
        run: Runs a program with environment variables and returns its exit code.
    """
    options, of_cdk = _parser().parse_known_args(arguments)
    try:
        _check_arguments(of_cdk)
        target = _target(_session(options.profile), options.environment, options.stack)
        if options.command == "deploy" and not options.change_environment:
            _check_environment(target)
        cdk = _command_line()
        bootstraps = options.command == "deploy" and not target.bootstrapped
        also = "; the Region is bootstrapped for the CDK first, with its roles and bucket" if bootstraps else ""
        print(f"{options.command}: {target}{also}", flush=True)
        environment = ENVIRONMENTS[target.environment]
        if options.command == "deploy" and environment.spark:  # no call of AWS tells which versions a Region has
            print(f"The Region must have Glue {environment.glue_version}, or the environment spark=False.")
        if options.command != "diff" and not options.yes and not _confirmed(ask):
            print("Nothing was changed.")
            return 1
    except DeployRefused as refused:
        print(f"{options.command}: {refused}", file=sys.stderr)
        return 1
    # The CDK would choose a Region by rules of its own.
    variables = {**os.environ, "AWS_REGION": target.region, "AWS_DEFAULT_REGION": target.region}
    if options.profile is not None:
        variables["AWS_PROFILE"] = options.profile
    context = ["--context", f"environment={target.environment}", "--context", f"stack={target.stack}"]
    if bootstraps:
        code = run([*cdk, "bootstrap", f"aws://{target.account}/{target.region}", *context], variables)
        if code:
            return code
    # The answer above stands for the CDK's own questions.
    answers = {"deploy": ["--require-approval", "never"], "destroy": ["--force"], "diff": []}[options.command]
    command = [*cdk, options.command, target.stack, *context, *answers, *of_cdk]
    if options.command == "destroy" and target.s3_bucket is not None:
        return _destroy(target.s3_bucket, lambda: run(command, variables))
    return run(command, variables)


def _destroy(s3_bucket: Bucket, run: Callable[[], int]) -> int:
    """Empties the bucket and runs a removal. Tries once again: a function may have written."""
    s3_bucket.empty()
    if code := run():
        s3_bucket.empty()
        code = run()
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.deploy", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("deploy", "diff", "destroy"))
    parser.add_argument("--environment", choices=sorted(ENVIRONMENTS), default=DEFAULT_ENVIRONMENT)
    parser.add_argument("--stack", default=DEFAULT_STACK, help="the stack's name (default: %(default)s)")
    parser.add_argument("--profile", help="the AWS profile of the credentials")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--change-environment", action="store_true", help="deploy another environment onto a stack that is there"
    )
    return parser


def _check_arguments(of_cdk: Sequence[str]) -> None:
    """Refuses arguments that would make the CDK change another account, Region or stack."""
    for word in of_cdk:
        if re.search(r"(^|=)(environment|stack)=", word):
            raise DeployRefused(f"{word} is not for the CDK here: give --environment or --stack.")


def _check_environment(target: Target) -> None:
    """Refuses an environment other than the deployed environment, since the stack might lose protection."""
    if target.deployed is not None and target.deployed != target.environment:
        raise DeployRefused(
            f"the stack {target.stack} has the environment {target.deployed}, not {target.environment}: "
            f"give --environment {target.deployed}, or --change-environment if you mean it."
        )


def _session(profile: str | None) -> boto3.Session:
    try:
        # boto3 knows one of the two names of a Region's variable, the CDK both.
        return boto3.Session(profile_name=profile, region_name=os.environ.get("AWS_REGION"))
    except botocore.exceptions.ProfileNotFound as error:
        raise DeployRefused(str(error)) from error


def _target(session: boto3.Session, environment: str, stack: str) -> Target:
    if session.region_name is None:
        raise DeployRefused("no Region is set: export AWS_REGION, or set one in your AWS profile.")
    try:
        account = session.client("sts").get_caller_identity()["Account"]
        # Not found is an empty answer of this call, and an error of get_parameter.
        found = session.client("ssm").get_parameters(Names=[BOOTSTRAP_PARAMETER])["Parameters"]
        outputs = _outputs(session, stack)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise DeployRefused(f"AWS refused your credentials or cannot be reached: {error}") from error
    deployed, bucket = outputs.get(ENVIRONMENT_OUTPUT), outputs.get("S3BucketName")
    goes = deployed in ENVIRONMENTS and not ENVIRONMENTS[deployed].protected
    return Target(
        account=account,
        region=session.region_name,
        environment=environment,
        stack=stack,
        bootstrapped=bool(found),
        deployed=deployed,
        s3_bucket=Bucket(s3=session.client("s3"), name=bucket, owner=account) if bucket and goes else None,
    )


def _outputs(session: boto3.Session, stack: str) -> dict[str, str]:
    """Returns the outputs of a stack. Returns nothing without a stack."""
    try:
        [found] = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return {}
        raise
    return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}


def _command_line() -> list[str]:
    """Returns the pinned CDK command line, which `npm ci` installs."""
    node = shutil.which("node")
    cdk = REPOSITORY / "node_modules" / "aws-cdk" / "bin" / "cdk"
    if node is None or not cdk.is_file():
        raise DeployRefused("the CDK's command line is missing: install Node 22 or newer, then run `npm ci`.")
    return [node, str(cdk)]


def _confirmed(ask: Callable[[str], str]) -> bool:
    try:
        return ask("Go on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
