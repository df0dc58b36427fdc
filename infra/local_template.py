"""Writes the local runtime's template, with `python -m infra.local_template [--check]`.

It is the synthesized template of the development stack, less what changes without the stack changing:
asset hashes, metadata, and what the CDK adds for its own bootstrapping. It is kept in the package, so that
`tidewheel.local` needs neither node nor the CDK; `--check` fails when it is stale.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from aws_cdk import IStackSynthesizer

from infra.application import BUNDLING_STACKS, DEFAULT_ENVIRONMENT, DEFAULT_STACK, build_app
from infra.kept_file import write_or_check
from tidewheel.cdk.environment import Environment

PATH = Path(__file__).resolve().parent.parent / "src" / "tidewheel" / "local" / "template.json"

PLACEHOLDER_CODE = {"S3Bucket": "assets", "S3Key": "functions.zip"}
"""Stands for the bundle of every function. The local runtime calls the handlers themselves."""

ASSET = re.compile(r"\b[0-9a-f]{64}\.(py|zip|gluewheels\.zip)")
"""The name of a job's script, package or wheels, which is a hash of its content."""

Template = dict[str, Any]


def synthesize(environment: Environment | None = None, synthesizer: IStackSynthesizer | None = None) -> Template:
    """Returns the template of the development stack, or of another environment, as the CDK writes the template."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = {BUNDLING_STACKS: [], "environment": DEFAULT_ENVIRONMENT, "stack": DEFAULT_STACK}
        app = build_app(outdir=folder, overrides=overrides, environment=environment, synthesizer=synthesizer)
        template: Template = app.synth().get_stack_by_name(DEFAULT_STACK).template
        return template


def normalized(template: Template) -> Template:
    """Returns the template without parts that change while the stack stays the same."""
    resources = {
        name: {key: value for key, value in resource.items() if key != "Metadata"}
        for name, resource in json.loads(ASSET.sub(r"asset.\1", json.dumps(template["Resources"]))).items()
        if resource["Type"] != "AWS::CDK::Metadata"
    }
    for resource in resources.values():
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Code"] = PLACEHOLDER_CODE
        if resource["Type"] == "AWS::IAM::Policy":
            _sort_resources(resource["Properties"]["PolicyDocument"]["Statement"])
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": template["Description"],
        "Outputs": template["Outputs"],
        "Resources": resources,
    }


def _sort_resources(statements: list[Template]) -> None:
    """Sorts the resources of each statement, independent of hashes."""
    for statement in statements:
        if isinstance(statement["Resource"], list):
            statement["Resource"].sort(key=json.dumps)


def rendered(template: Template) -> str:
    """Returns the text of the file."""
    return json.dumps(normalized(template), indent=1, sort_keys=True) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Writes the file, or compares the file with the stack. Returns the exit code."""
    return write_or_check(
        PATH, lambda: rendered(synthesize()), module="infra.local_template", about=__doc__, arguments=arguments
    )


if __name__ == "__main__":
    sys.exit(main())
