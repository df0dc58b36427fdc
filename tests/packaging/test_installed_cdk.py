"""The CDK app of docs/constructs.md, copied from the page into empty environments with the wheel."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from copy import deepcopy
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from aws_cdk import App

from infra.application import BUNDLING_STACKS
from tests.conftest import REPOSITORY
from tests.packaging.installed import Environments, Installed, run, snippets
from tidewheel.cdk.node import JSII_NODE, node_of_wheel

PAGE = "docs/constructs.md"
FILES = {
    "app.py": "examples/cdk_app/app.py",
    "test_shop.py": "examples/cdk_app/test_shop.py",
    "sender/handler.py": "examples/cdk_app/sender/handler.py",
    "consumer/handler.py": "examples/cdk_app/consumer/handler.py",
}
[OLDEST] = re.findall(r"aws-cdk-lib>=([\d.]+)", (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
"""The oldest release of aws-cdk-lib that is allowed: of November 2025, a year before the newest."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the app, as made by a reader of the page."""
    folder = tmp_path_factory.mktemp("app")
    for name, example in FILES.items():
        [snippet] = snippets(PAGE, example)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(snippet)
    return folder


def with_node() -> dict[str, str]:
    """Returns the variable for Node, from this environment or the machine."""
    node = os.environ.get(JSII_NODE) or node_of_wheel()
    return {JSII_NODE: str(node)} if node else {}


def synthesized(installed: Installed, app: Path, output: str, *, bundled: bool) -> dict[str, Any]:
    """Runs the app as the CDK's command line does. Returns the template."""
    context = {} if bundled else {BUNDLING_STACKS: []}
    variables = {"CDK_OUTDIR": str(app / output), "CDK_CONTEXT_JSON": json.dumps(context), **with_node()}
    run([installed.programs / "python", "app.py"], app, **variables)
    template: dict[str, Any] = json.loads((app / output / "shop.template.json").read_text(encoding="utf-8"))
    return template


@pytest.fixture(scope="module")
def made(environments: Environments, app: Path) -> dict[str, Any]:
    """The template that the wheel makes, with all archives in the folder `cdk.out`."""
    return synthesized(environments("[cdk]", "pytest"), app, "cdk.out", bundled=True)


def of_type(template: dict[str, Any], type_: str) -> list[dict[str, Any]]:
    """Returns the properties of all resources of a type."""
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == type_]


def test_the_wheel_deploys_what_the_checkout_deploys(made: dict[str, Any]) -> None:
    spec = importlib.util.spec_from_file_location("shop_of_the_checkout", REPOSITORY / FILES["app.py"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scope = App(analytics_reporting=False, context={BUNDLING_STACKS: []})
    module.ShopStack(scope, "shop")
    here = json.loads(json.dumps(scope.synth().get_stack_by_name("shop").template))
    # The names of archives are in it, and these are hashes of all that is in them. Only its two handlers differ: a
    # snippet leaves out the first lines of its file.
    made = deepcopy(made)
    theirs = [each["Code"].pop("S3Key") for each in of_type(made, "AWS::Lambda::Function") if is_theirs(each)]
    ours = [each["Code"].pop("S3Key") for each in of_type(here, "AWS::Lambda::Function") if is_theirs(each)]
    assert len(theirs) == len(ours) == 2
    assert made == here


def is_theirs(function: dict[str, Any]) -> bool:
    """Whether a function is the app's own, and not the service's."""
    return bool(function["Handler"] == "handler.handler")


def test_the_pages_test_of_a_stack_passes(environments: Environments, app: Path) -> None:
    assert "1 passed" in environments("[cdk]", "pytest").pytest(app, **with_node())


def test_without_node_the_app_says_what_to_install(environments: Environments, app: Path) -> None:
    programs = environments("[cdk]", "pytest").programs
    said = run([programs / "python", "app.py"], app, code=1, PATH=str(programs))
    assert "install Node 22 or later" in said.splitlines()[-1]
    assert "AttributeError" not in said


def test_the_app_makes_an_archive_for_every_function(made: dict[str, Any], app: Path) -> None:
    folder = app / "cdk.out"
    sources = {
        each["id"]: folder / each["source"]["path"]
        for each in (
            {"id": key, **asset}
            for key, asset in json.loads((folder / "shop.assets.json").read_text(encoding="utf-8"))["files"].items()
        )
    }
    functions = of_type(made, "AWS::Lambda::Function")
    assert len(functions) > 6
    for function in functions:
        archive = sources[function["Code"]["S3Key"].removesuffix(".zip")]
        names = (
            {path.relative_to(archive).as_posix() for path in archive.rglob("*")}
            if archive.is_dir()
            else set(ZipFile(archive).namelist())
        )
        module, _, _ = function["Handler"].rpartition(".")
        assert f"{module.replace('.', '/')}.py" in names, function["Handler"]
    [layer] = of_type(made, "AWS::Lambda::LayerVersion")
    names = set(ZipFile(sources[layer["Content"]["S3Key"].removesuffix(".zip")]).namelist())
    assert {"python/tidewheel/__init__.py", "python/tidewheel/__init__.pyi"} <= names


@pytest.mark.nightly  # it fetches a release of 45 MB that nothing else needs
def test_the_app_is_synthesized_with_a_cdk_library_of_a_year_ago(environments: Environments, app: Path) -> None:
    of_their_own = [f"aws-cdk-{name}>=0" for name in ("asset-awscli-v1", "cloud-assembly-schema")]
    old = synthesized(environments("[cdk]", f"aws-cdk-lib=={OLDEST}.0", *of_their_own), app, "old", bundled=False)
    handlers = {each["Handler"] for each in of_type(old, "AWS::Lambda::Function")}
    assert {"functions.dispatch.handler.handler", "handler.handler"} <= handlers
    assert len(of_type(old, "AWS::Glue::Job")) == 3
