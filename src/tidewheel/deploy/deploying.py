"""Deploys a stack from the templates of the wheel.

The writes are, in order: bucket, archives, change set, execution, termination protection, and the removal of old
archives. Before the execution, a stopped deployment leaves the running service as it is. After that, CloudFormation
goes on by itself. In both cases the next `tidewheel deploy` completes what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidewheel.deploy.account import GLUE_REGIONS, Account
from tidewheel.deploy.archives import archives
from tidewheel.deploy.assets import Assets
from tidewheel.deploy.stack import ChangeSet, Description, Progress, Stack
from tidewheel.deploy.templates import (
    ARCHITECTURE,
    ASSETS_KEY,
    BOUNDARY,
    BUCKET,
    Template,
    archive_keys,
    settings_given,
    template_for,
)
from tidewheel.deploy.words import HOLDS_DATA, Change, all_new, lines
from tidewheel.errors import DeployRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A person's choices. None means: as the deployed stack, or the default.

    Attributes:
        environment: `development` or `production`.
        spark: Whether the stack has Spark jobs.
        architecture: `arm64` or `x86_64`.
        settings: Texts `name=value`.
        tags: Tags of the stack and its resources.
        role_arn: The role with which CloudFormation works.
        boundary: The ARN of a policy that limits the stack's roles.
        assets_key: The ARN of the KMS key of the archives' bucket.
        import_existing: Whether the stack takes over resources that an earlier stack left.
    """

    environment: str | None = None
    spark: bool | None = None
    architecture: str | None = None
    settings: list[str] = field(default_factory=list)
    tags: Mapping[str, str] = field(default_factory=dict)
    role_arn: str | None = None
    boundary: str | None = None
    assets_key: str | None = None
    import_existing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """The dialogue with a person.

    Attributes:
        say: Prints a line.
        ask: Asks a question. Returns whether to go on.
        progress: Tells how many of how many resources are done.
    """

    say: Callable[[str], None]
    ask: Callable[[str], bool]
    progress: Progress


def deploy(account: Account, name: str, options: Options, talk: Talk, *, plan: bool) -> dict[str, Any]:
    """Deploys a stack, or only tells the changes. Returns the result for programs.

    Raises:
        DeployRefused: Nothing was changed.
        DeployFailed: CloudFormation could not make the changes.
    """
    stack, assets = account.stack(name), account.assets(name)
    found = stack.settled(talk.say, talk.progress)
    check_origin(name, found)
    stack.check_state(found)
    environment = _environment(name, options.environment, found)
    template = template_for(environment, _spark(account, options.spark, found, talk))
    parameters = _parameters(template, options, found, assets)
    talk.say(f"stack {name}, environment {environment}, account {account.number}, Region {account.region}")
    for warning in account.warnings():
        talk.say(f"warning: {warning}")
    change_set = None
    if found is not None:
        if not plan:
            assets.prepare(account.region, parameters[ASSETS_KEY], options.tags)
        change_set = _change_set(stack, assets, template, parameters, options, new=False)
    changes = all_new(template) if found is None else [] if change_set is None else change_set.changes
    for line in lines(changes) or ["nothing is new"]:
        talk.say(line)
    lost = [each for each in changes if each.loses_data]
    wanted = bool(changes) and not plan and not lost and talk.ask("Go on?")
    if change_set is not None and not wanted:
        stack.discard(change_set.id, None)
    _refuse(lost)
    if wanted:
        if found is None:
            assets.prepare(account.region, parameters[ASSETS_KEY], options.tags)
        _upload(stack, assets, template, parameters, change_set, talk)
        if change_set is None:
            change_set = _change_set(stack, assets, template, parameters, options, new=True)
        if change_set is not None:
            stack.execute(change_set, talk.progress)
    elif changes:
        talk.say("nothing was changed")
    result = {"stack": name, "region": account.region, "environment": environment, "changes": changes}
    outputs = {} if plan or (changes and not wanted) else _finish(stack, assets, environment, found)
    return {**result, "deployed": wanted, "outputs": outputs}


def check_origin(name: str, found: Description | None) -> None:
    """Refuses a stack that another program deployed.

    Raises:
        DeployRefused: names the command to use instead, if the stack has a service.
    """
    if found is None or BUCKET in _deployed(found):
        return
    if "SettingsParameter" not in _outputs(found):
        raise DeployRefused(f"stack {name} has no service of Tidewheel: give another name with --stack")
    raise DeployRefused(
        f"the CDK deployed stack {name}: use make deploy STACK={name}, or make destroy STACK={name}, in the clone"
    )


def _deployed(found: Description | None) -> dict[str, str]:
    """Returns the parameters of a stack."""
    given = [] if found is None else found.get("Parameters", [])
    return {each["ParameterKey"]: each["ParameterValue"] for each in given}


def _outputs(found: Description) -> dict[str, str]:
    return {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}


def _environment(name: str, wanted: str | None, found: Description | None) -> str:
    """Returns the environment. A stack keeps its environment, since another one might lose protection."""
    deployed = None if found is None else _outputs(found).get("Environment")
    if wanted is not None and deployed not in (None, wanted):
        advice = "leave --environment out, or give another --stack"
        raise DeployRefused(f"stack {name} has the environment {deployed}, not {wanted}: {advice}")
    return wanted or deployed or "development"


def _spark(account: Account, wanted: bool | None, found: Description | None, talk: Talk) -> bool:
    if wanted is not None:
        return wanted
    if found is not None:
        return "MergeJob" in _outputs(found)
    if account.region not in GLUE_REGIONS:
        talk.say(f"without Spark jobs: {account.region} is not known to have Glue 6.0. --spark deploys them")
    return account.region in GLUE_REGIONS


def _parameters(template: Template, options: Options, found: Description | None, assets: Assets) -> dict[str, str]:
    """Returns the template's parameters: given ones, then those of the deployed stack, then defaults."""
    deployed = _deployed(found)
    defaults = {name: str(each["Default"]) for name, each in template["Parameters"].items() if "Default" in each}
    given = {ARCHITECTURE: options.architecture, BOUNDARY: options.boundary, ASSETS_KEY: options.assets_key}
    chosen = {
        **defaults,
        **{name: value for name, value in deployed.items() if name in template["Parameters"]},
        **{name: value for name, value in given.items() if value is not None},
        **settings_given(template, options.settings),
        BUCKET: assets.name,
    }
    keys = archives(archive_keys(template), chosen[ARCHITECTURE])
    return {**chosen, **{name: each.key for name, each in keys.items()}}


def _change_set(
    stack: Stack, assets: Assets, template: Template, parameters: Mapping[str, str], options: Options, *, new: bool
) -> ChangeSet | None:
    request: dict[str, Any] = {
        "Parameters": [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
        "Capabilities": ["CAPABILITY_IAM"],
        "ImportExistingResources": options.import_existing,
    }
    if options.tags:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in options.tags.items()]
    if options.role_arn is not None:
        request["RoleARN"] = options.role_arn
    with assets.template(json.dumps(template)) as url:
        return stack.prepare(new=new, TemplateURL=url, **request)


def _refuse(lost: list[Change]) -> None:
    if lost:
        named = ", ".join(f"the {HOLDS_DATA[each.type]} {each.name}" for each in lost)
        raise DeployRefused(
            f"the change would, or might, remove or replace {named}, and so its data: nothing was changed. "
            "Deploy a second stack, and move the messages: tidewheel docs disaster-recovery"
        )


def _upload(
    stack: Stack,
    assets: Assets,
    template: Template,
    parameters: Mapping[str, str],
    change_set: ChangeSet | None,
    talk: Talk,
) -> None:
    try:
        for archive in archives(archive_keys(template), parameters[ARCHITECTURE]).values():
            if assets.upload(archive):
                talk.say(f"uploaded {archive.key}")
    except BaseException:
        if change_set is not None:
            stack.discard(change_set.id, None)
        raise


def _finish(stack: Stack, assets: Assets, environment: str, before: Description | None) -> dict[str, str]:
    """Protects production, and deletes archives that neither the stack nor a rollback needs. Returns the outputs."""
    found = stack.describe()
    if found is None:
        raise DeployRefused(f"stack {stack.name} was removed meanwhile")
    if environment == "production" and not found.get("EnableTerminationProtection"):
        stack.protect(True)
    needed = {value for each in (before, found) for value in _deployed(each).values()}
    assets.keep(needed)
    return _outputs(found)
