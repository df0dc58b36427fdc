"""Writes the templates that `tidewheel deploy` uses, with `python -m infra.shipped_templates [FOLDER]`.

Each is the synthesized template of an environment, with or without Spark jobs, and with parameters: where the archives
are, the architecture of the functions, and the settings of MARKED. The build of the wheel writes the files, which are
not in git.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

from aws_cdk import CfnParameter, DefaultStackSynthesizer, FileAssetLocation, IStackSynthesizer, Stack
from aws_cdk.aws_logs import RetentionDays

from infra.environments import environment_named
from infra.local_template import Template, synthesize
from tidewheel.bundling.pinned_packages import MACHINES
from tidewheel.cdk.environment import Environment
from tidewheel.deploy.templates import (
    ARCHITECTURE,
    ASSETS_KEY,
    BOUNDARY,
    BUCKET,
    ENVIRONMENTS,
    FOLDER,
    file_of,
    parameter_of,
)
from tidewheel.model.setting import settings_of

RETENTION_DAYS = 3653
"""The template's value for RetentionDays.TEN_YEARS."""
MARKED: dict[str, Any] = {
    "log_level": "WARNING",
    "log_retention": RetentionDays.TEN_YEARS,
    "ingest_memory_mib": 1031,
    "dispatch_memory_mib": 1033,
    "deliver_memory_mib": 1039,
    "sweep_memory_mib": 1049,
    "compact_memory_mib": 1051,
    "urgent_concurrency": 151,
    "bulk_concurrency": 157,
    "work_concurrency": 163,
    "merge_workers": 167,
    "rebuild_workers": 173,
    "import_workers": 179,
}
"""The settings that become parameters -> a value that shows where the template has the setting."""
RETENTIONS = [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653]
"""The days for which CloudWatch Logs can keep logs."""
NAMES = {"Code": "FunctionsKey", "Package": "JobPackageKey", "Wheels of the Glue jobs": "JobWheelsKey"}
"""The last part of an asset's name -> the parameter with its key. A job's script has `<job>ScriptKey`."""
OPTIONS = {
    BOUNDARY: "The ARN of a policy that limits the roles of the stack.",
    ASSETS_KEY: "The ARN of the KMS key of the S3 bucket with the archives.",
}
"""The parameters that may be empty -> what each is."""
NO_VALUE = {"Ref": "AWS::NoValue"}


class NotAParameter(Exception):
    """A setting changes the template where a parameter could not: take the setting out of MARKED."""


class Synthesizer(DefaultStackSynthesizer):
    """Leaves to parameters where the archives are."""

    def __init__(self) -> None:
        super().__init__(generate_bootstrap_version_rule=False)

    def bind(self, stack: Stack) -> None:
        """Stores the stack, which gets the parameters."""
        super().bind(stack)
        self._home = stack
        self._archives = CfnParameter(stack, BUCKET, description="The S3 bucket with the archives.")

    # jsii passes the options by keyword only because options are named here.
    def add_file_asset(self, *, source_hash: str, display_name: str = "", **_: Any) -> Any:  # type: ignore[override] # noqa: ARG002
        """Returns the bucket and the key of an archive, as parameters."""
        last = display_name.rpartition("/")[2]
        name = NAMES.get(last, f"{last}Key")
        key = CfnParameter(self._home, name, description=f"The object of {display_name}.")
        bucket = self._archives.value_as_string
        return FileAssetLocation(
            bucket_name=bucket, object_key=key.value_as_string, http_url="", s3_object_url=f"s3://{bucket}"
        )


def shipped(environment: Environment) -> Template:
    """Returns an environment's template with parameters.

    Raises:
        NotAParameter: A setting of MARKED cannot be a parameter.
    """
    template = synthesize(environment, cast(IStackSynthesizer, Synthesizer()))
    marked = synthesize(replace(environment, **MARKED), cast(IStackSynthesizer, Synthesizer()))
    for resource in (*template["Resources"].values(), *marked["Resources"].values()):
        resource.pop("Metadata", None)
    parameters, left_out = template["Parameters"], [BOUNDARY]
    values = {**MARKED, "log_retention": RETENTION_DAYS}
    for parent, at, was, new in _differences(template["Resources"], marked["Resources"]):
        [(inner, value)] = new.items() if isinstance(new, dict) and len(new) == 1 else [("", new)]
        found = [setting for setting, mark in values.items() if str(mark) == str(value)]
        if not found:
            raise NotAParameter(f"{at} is {was!r} by default and {new!r} for other settings.")
        [setting] = found
        name = parameter_of(setting)
        kind = "Number" if isinstance(was, int) else "String"
        default = "" if was is None else was
        parameters[name] = {"Type": kind, "Default": default, "Description": f"The setting {setting}."}
        parameters[name] |= _allowed(setting, kind)
        if was is None:
            left_out.append(name)
            parent[at] = {"Fn::If": [f"Has{name}", {inner: {"Ref": name}}, NO_VALUE]}
        else:
            parent[at] = {"Ref": name}
    for name, description in OPTIONS.items():
        parameters[name] = {"Type": "String", "Default": "", "Description": description}
    allowed = {"Default": "arm64", "AllowedValues": [*MACHINES]}
    parameters[ARCHITECTURE] = {"Type": "String", "Description": "The architecture of the functions.", **allowed}
    _add_options(template["Resources"])
    conditions = {f"Has{name}": {"Fn::Not": [{"Fn::Equals": [{"Ref": name}, ""]}]} for name in left_out}
    return {**template, "Conditions": {**template.get("Conditions", {}), **conditions}}


def _allowed(setting: str, kind: str) -> dict[str, Any]:
    """Returns which values a parameter takes."""
    declared = settings_of(Environment)[setting]
    if setting == "log_retention":
        return {"AllowedValues": RETENTIONS}
    if kind == "Number":
        most = declared.setting.most
        return {"MinValue": declared.setting.least, **({} if most is None else {"MaxValue": most})}
    return {"AllowedValues": [*declared.choices]} if declared.choices else {}


def _differences(one: Any, other: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yields each leaf in which two templates differ: what holds the leaf, its place, and both values."""
    places = list(one) if isinstance(one, dict) else range(len(one))
    if isinstance(one, dict) and one.keys() < other.keys():
        yield from ((one, at, None, other[at]) for at in other.keys() - one.keys())
    elif len(one) != len(other):
        raise NotAParameter(f"{one} has not the parts of {other}.")
    for at in places:
        if isinstance(one[at], (dict, list)) and type(one[at]) is type(other[at]):
            yield from _differences(one[at], other[at])
        elif one[at] != other[at]:
            yield one, at, one[at], other[at]


def _add_options(resources: Template) -> None:
    """Makes the architecture and the boundary options."""
    for resource in resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Lambda::Function":
            properties["Architectures"] = [{"Ref": ARCHITECTURE}]
        if resource["Type"] == "AWS::IAM::Role":
            properties["PermissionsBoundary"] = {"Fn::If": [f"Has{BOUNDARY}", {"Ref": BOUNDARY}, NO_VALUE]}


def write(folder: Path = FOLDER) -> None:
    """Writes all templates to a folder."""
    folder.mkdir(exist_ok=True)
    for name, spark in product(ENVIRONMENTS, (True, False)):
        template = shipped(replace(environment_named(name), spark=spark))
        text = json.dumps(template, sort_keys=True, separators=(",", ":"))
        (folder / file_of(name, spark).name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
