"""The templates of `tidewheel deploy` are those of the CDK, but for parameters."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from infra import shipped_templates
from infra.environments import environment_named
from infra.local_template import synthesize
from infra.shipped_templates import NO_VALUE, NotAParameter, shipped
from tidewheel.cdk.environment import Environment
from tidewheel.deploy import assets, templates

CDK_BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"
CDK_KEY = re.compile(r"\b[0-9a-f]{64}(\.\w+)+")
STACKS = [("development", True), ("production", False)]


def environment_of(name: str, spark: bool) -> Environment:
    return replace(environment_named(name), spark=spark)


@cache
def shipped_for(name: str, spark: bool) -> Any:
    return shipped(environment_of(name, spark))


def flat(value: Any, parameters: dict[str, Any]) -> Any:
    """Returns a template with parameters' defaults, without optional parts, and with each location as one text."""
    if isinstance(value, list):
        return sorted((flat(each, parameters) for each in value if each != NO_VALUE), key=json.dumps)
    if not isinstance(value, dict):
        return CDK_KEY.sub("an archive", value) if isinstance(value, str) else value
    match value:
        case {"Ref": name} if name == templates.BUCKET:
            return CDK_BUCKET
        case {"Ref": name} if name in parameters:
            return parameters[name].get("Default", "an archive")
        case {"Ref": name}:
            return f"${{{name}}}"
        case {"Fn::Sub": text}:
            return text
        case {"Fn::Join": [_, parts]} if "".join(map(str, parts)).startswith(("s3://", "arn:")):
            return "".join(str(flat(part, parameters)) for part in parts)
    optional = [name for name, each in value.items() if NO_VALUE in each_of(each)]
    return {name: flat(each, parameters) for name, each in value.items() if name not in {*optional, "Metadata"}}


def each_of(value: Any) -> Any:
    return value["Fn::If"][1:] if isinstance(value, dict) and "Fn::If" in value else []


@pytest.mark.parametrize(("name", "spark"), STACKS)
def test_a_shipped_template_makes_what_the_cdk_makes(name: str, spark: bool) -> None:
    found, of_cdk = shipped_for(name, spark), synthesize(environment_of(name, spark))
    assert flat(found["Resources"], found["Parameters"]) == flat(of_cdk["Resources"], {})
    assert found["Outputs"] == of_cdk["Outputs"]
    assert "BootstrapVersion" not in found["Parameters"] and "Rules" not in found
    assert len(json.dumps(found)) < 1_000_000  # CloudFormation's limit


@pytest.mark.parametrize(("name", "spark"), STACKS)
def test_every_archive_of_a_shipped_template_has_a_maker_and_every_role_a_boundary(name: str, spark: bool) -> None:
    template = shipped_for(name, spark)
    keys = [assets.archive(parameter, "x86_64")[0] for parameter in templates.archive_keys(template)]
    suffixes = sorted(key.partition(".")[2] for key in keys)
    assert suffixes == (["gluewheels.zip", "py", "py", "py", "zip", "zip"] if spark else ["zip"])
    roles = [each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::IAM::Role"]
    assert len(roles) > 5 and all(templates.BOUNDARY in json.dumps(each) for each in roles)


def test_the_settings_of_a_template_are_parameters_with_the_environments_defaults() -> None:
    parameters = shipped_for("development", True)["Parameters"]
    wanted = environment_named("development")
    for setting in ("log_level", "deliver_memory_mib", "merge_workers"):
        assert parameters[templates.parameter_of(setting)]["Default"] == getattr(wanted, setting)
    assert parameters["LogRetention"]["Default"] == 30
    assert parameters["LogLevel"]["AllowedValues"] and parameters["DeliverMemoryMib"]["MaxValue"] == 10_240
    assert (parameters["UrgentConcurrency"]["Default"], parameters["UrgentConcurrency"]["Type"]) == ("", "String")
    assert shipped_for("production", False)["Parameters"]["UrgentConcurrency"]["Default"] == 100


def test_a_setting_that_changes_more_than_its_value_is_no_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(shipped_templates.MARKED, "dashboard", True)
    with pytest.raises(NotAParameter):
        shipped(environment_named("development"))
