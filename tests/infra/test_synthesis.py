"""Every environment synthesizes without node or the CDK's command line, and lints clean."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from infra.application import build_app
from infra.environments import ENVIRONMENTS, UnknownEnvironment, environment_named
from tests.infra.linted import findings
from tests.infra.variants import SAMPLED_VARIANTS, template_of
from tidewheel.cdk import node

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_app_py_synthesizes_with_no_node_on_the_path_and_no_command_line(tmp_path: Path) -> None:
    path = os.pathsep.join(folder for folder in ("/bin", "/usr/bin") if not shutil.which("node", path=folder))
    variables = {key: value for key, value in os.environ.items() if key != node.JSII_NODE}
    done = subprocess.run(
        [sys.executable, str(ROOT / "app.py")],
        env={**variables, "PATH": path or str(tmp_path), "CDK_OUTDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Hashes of code, too, are the same in every process.
    assert json.loads((tmp_path / "tidewheel.template.json").read_text()) == template_of("development")


def test_the_wheels_node_is_taken_unless_another_is_named_or_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(node.JSII_NODE, "/opt/node")
    node.use_available_node()
    assert os.environ[node.JSII_NODE] == "/opt/node"
    monkeypatch.delenv(node.JSII_NODE)
    node.use_available_node()
    assert Path(os.environ[node.JSII_NODE]) == node.node_of_wheel()
    monkeypatch.delenv(node.JSII_NODE)
    monkeypatch.setattr(node, "node_of_wheel", lambda: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(node.NodeMissing, match="install Node 22"):
        node.use_available_node()


@pytest.mark.parametrize("variant", SAMPLED_VARIANTS)
def test_the_template_passes_cfn_lint(variant: str) -> None:
    assert findings(template_of(variant)) == []


def test_a_dependency_too_many_is_found_but_for_that_of_a_function_on_its_role() -> None:
    bucket = {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    parameter = {
        "Type": "AWS::SSM::Parameter",
        "DependsOn": ["Bucket"],
        "Properties": {"Type": "String", "Value": {"Ref": "Bucket"}},
    }
    template = {"Resources": {"Bucket": bucket, "Parameter": parameter}}
    [found] = findings(template)
    assert found.startswith("W3005 ['Resources', 'Parameter', 'DependsOn', 0]")


def test_the_context_chooses_the_environment_and_the_stacks_name(tmp_path: Path) -> None:
    overrides = {"environment": "production", "stack": "orders", "aws:cdk:bundling-stacks": []}
    stack = build_app(outdir=str(tmp_path), overrides=overrides).node.find_child("orders")
    assert stack.node.find_child("Default").environment.name == "production"


def test_there_is_development_and_production() -> None:
    assert set(ENVIRONMENTS) == {"development", "production", "smoke"}


def test_an_unknown_environment_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(UnknownEnvironment, match="development, production"):
        environment_named("staging")


def test_the_types_of_each_module_of_the_cdk_that_is_used_are_checked() -> None:
    """Lists each module in mypy's settings: it reads no others."""
    sources = [path.read_text(encoding="utf-8") for name in ("src", "infra") for path in (ROOT / name).rglob("*.py")]
    used = set(re.findall(r"\baws_cdk(?:\.| import )(aws_\w+)", "\n".join(sources)))
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]
    [read] = [each["module"] for each in overrides if "aws_cdk" in each["module"]]
    assert {f"aws_cdk.{name}" for name in used} | {"aws_cdk"} == set(read)
