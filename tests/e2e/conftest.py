"""Options and environment of the suite.

`pytest tests/e2e` rehearses on the local stack. `pytest tests/e2e --account`, or `make aws-smoke`, deploys a stack to
the account that is logged in, runs the same scenarios there, and removes it whatever happens.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.e2e.account import AccountCloud
from tests.e2e.cloud import PREFIX, Cloud, DeployFailed
from tests.e2e.local import LocalCloud
from tests.e2e.removal import Removal, patient, remove
from tests.e2e.stage import Stage

SUITE = "test_suite.py"
"""The tests of the suite itself: no scenarios."""
SCENARIO_S = 10_800
"""The longest that a scenario on an account may take."""
MOST_DOLLARS = 1.0
"""A whole run at most, rounded up: requests, alarms and the hours of the KMS key come to cents."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """A run's cloud and removals.

    Attributes:
        account: the account's cloud; None in a rehearsal.
        removals: what was removed, and what is left.
    """

    account: AccountCloud | None = None
    removals: list[Removal] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether everything to be removed is gone."""
        return all(removal.finished and not removal.left for removal in self.removals)


TRIAL = pytest.StashKey[Trial]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e", "end-to-end scenarios")
    group.addoption("--account", action="store_true", help="run on the AWS account that is logged in, which pays")
    group.addoption("--environment", default="smoke", help="of infra/environments.py [default: smoke]")
    group.addoption("--region", help="where to deploy [default: the profile's]")
    group.addoption("--profile", help="profile of the credentials")
    group.addoption("--yes", action="store_true", help="do not ask before the deployment")
    group.addoption("--keep", action="store_true", help="leave the stack for a look at it")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TRIAL] = Trial()
    if config.getoption("account", False):
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves the tests of the suite itself out of a run on an account."""
    return True if config.getoption("account", False) and collection_path.name == SUITE else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items if config.getoption("account", False) else []:
        # By a signal: a thread would end the process, and leave the stack.
        item.add_marker(pytest.mark.timeout(SCENARIO_S, func_only=True, method="signal"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prints the planned changes, and continues only with the caller's consent."""
    config = session.config
    if not config.getoption("account", False) or not session.items or config.option.collectonly:
        return
    aws = boto3.Session(profile_name=config.option.profile, region_name=config.option.region)
    try:
        caller = aws.client("sts").get_caller_identity()
    except (ClientError, BotoCoreError) as error:
        pytest.exit(f"nothing was made: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
    if not aws.region_name:
        pytest.exit("nothing was made: give --region, or set AWS_REGION", returncode=pytest.ExitCode.USAGE_ERROR)
    stack = f"{PREFIX}{secrets.token_hex(3)}"
    end = "stays, since you say --keep" if config.option.keep else "is removed afterwards, with everything in it"
    print(
        f"\naccount {caller['Account']}, Region {aws.region_name}, as {caller['Arn']}\n"
        f"The stack {stack} (environment {config.option.environment}) is deployed, used for up to "
        f"four hours, and {end}.\n"
        f"It costs about ${MOST_DOLLARS:.2f} at most. The bootstrap bucket of the CDK keeps the archives.",
        flush=True,
    )
    if not config.option.yes and not _consents(caller["Account"]):
        pytest.exit("nothing was made: the account's number was not typed", returncode=pytest.ExitCode.USAGE_ERROR)
    config.stash[TRIAL].account = AccountCloud(stack, config.option.environment, aws)


def _consents(account: str) -> bool:
    try:
        return input(f"Type the account's number to go on [{account}]: ").strip() == account
    except EOFError:
        return False


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    """Returns one scope per run on an account, and per module for local stacks, since a process has room for one."""
    return "session" if config.getoption("account", False) else "module"


@pytest.fixture(scope=_scope)
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """A deployed stack, removed at the end, also after a failed deployment or Ctrl-C."""
    session, trial = request.session, request.config.stash[TRIAL]
    cloud: Cloud = trial.account or LocalCloud(f"{PREFIX}local", request.config.getoption("environment", "smoke"))
    deployed = False
    try:
        try:
            cloud.deploy()
        except DeployFailed as error:
            pytest.fail(str(error), pytrace=False)
        deployed = True
        yield cloud
    finally:
        if not deployed:
            session.shouldfail = f"{cloud.stack_name} was not deployed"
        if deployed and request.config.getoption("keep", False) and not _interrupted(session):
            print(f"\nkept; remove it with: python -m tests.e2e.removal {cloud.stack_name}", flush=True)
        else:
            _remove(cloud, trial)
        cloud.close()


def _interrupted(session: pytest.Session) -> bool:
    return session.exitstatus == pytest.ExitCode.INTERRUPTED


def _remove(cloud: Cloud, trial: Trial) -> None:
    removal = Removal()
    trial.removals.append(removal)
    print(f"\nremoving {cloud.stack_name}", flush=True)
    try:
        with patient(print):
            cloud.deafen()
            remove(cloud.session, cloud.stack_name, removal)
    except KeyboardInterrupt:
        removal.left.append(f"the removal was broken off; go on with: python -m tests.e2e.removal {cloud.stack_name}")
    print(removal, flush=True)


@pytest.fixture
def stage(cloud: Cloud) -> Iterator[Stage]:
    """The stage of a scenario."""
    yield Stage(cloud)
    cloud.deafen()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run with unremoved resources, after pytest has torn down all fixtures."""
    if session.exitstatus == pytest.ExitCode.OK and not session.config.stash[TRIAL].clean:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
