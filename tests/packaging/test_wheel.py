"""What `make build` makes: it works in clean environments, for each thing that people install it for."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from infra.node import JSII_NODE, node_of_wheel
from tests.conftest import REPOSITORY
from tidewheel.cdk.bundles import BUNDLES
from tidewheel.cdk.bundling import bundle_hash
from tidewheel.local import LocalTidewheel

PATIENCE_S = 300
TOOLS = Path(sys.executable).parent

QUICKSTART = (REPOSITORY / "examples" / "quickstart.py").read_text(encoding="utf-8")

SENDER = """
import importlib.util, sys
from tidewheel import Tidewheel

for name in ("aws_cdk", "aws_lambda_powertools", "moto", "numpy", "pyarrow", "pyspark", "rich", "typer"):
    assert importlib.util.find_spec(name) is None, name

tw = Tidewheel(sys.argv[1], endpoint_url=sys.argv[2])
sent = [tw.send("orders", {"number": number}, delay="1h") for number in range(3)]
tw.cancel("orders", sent[1].id)
try:
    tw.peek("orders")
except ImportError as error:
    assert "tidewheel[read]" in str(error), error
else:
    raise AssertionError("peek needs pyarrow")
print(*(each.id for each in sent))
"""

BUNDLER = """
import json, sys
from pathlib import Path
from tidewheel.cdk.bundles import BUNDLES, LEAN
from tidewheel.cdk.bundling import bundle_hash, write_bundle, write_package

write_bundle(LEAN, Path(sys.argv[1]))
write_package(Path(sys.argv[1]))
print(json.dumps({bundle.name: bundle_hash(bundle) for bundle in BUNDLES}))
"""


def run(command: list[str | Path], folder: Path, **variables: str) -> str:
    """Runs a command in a folder, with no variables of this process but the PATH; returns what it prints."""
    path = os.environ.get("PATH", os.defpath)
    kept = {
        name: os.environ[name] for name in ("HOME", "PIP_CERT", "SSL_CERT_FILE", "UV_CACHE_DIR") if name in os.environ
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**kept, "PATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution, built as `make build` does, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-d", folder], REPOSITORY)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The wheel's METADATA."""
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_string(archive.read(name).decode())


Environment = Callable[..., Path]


@pytest.fixture(scope="module")
def environment(package_index: None, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Makes an environment with the wheel, its extras and what they need, as locked, and nothing else."""

    def make(extras: str = "") -> Path:
        folder = tmp_path_factory.mktemp("environment")
        constraints = folder / "constraints.txt"
        lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
        constraints.write_text("\n".join(re.findall(r"^[a-z0-9][^\\\n]*==[^\\\n]*", lock, re.MULTILINE)))
        uv = [TOOLS / "uv", "--quiet"]
        run([*uv, "venv", "--python", sys.executable, folder / "venv"], folder)
        python = folder / "venv" / "bin" / "python"
        run(
            [
                *uv,
                "pip",
                "install",
                "--python",
                python,
                "--constraint",
                constraints,
                f"tidewheel{extras} @ file://{wheel}",
            ],
            folder,
        )
        return folder / "venv" / "bin"

    return make


# ---- what is in it


def test_the_wheel_holds_all_that_the_package_reads(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    handlers = {path.parent.name for path in (REPOSITORY / "functions").glob("*/handler.py")}
    assert {name for bundle in BUNDLES for name in bundle.functions} == handlers
    assert {f"tidewheel/_functions/{name}/handler.py" for name in handlers} <= names
    jobs = {path.name for path in (REPOSITORY / "glue_jobs").glob("*.py")}
    assert {f"tidewheel/_glue_jobs/{name}" for name in jobs} <= names
    assert {
        "tidewheel/_examples/messages.jsonl.gz",
        "tidewheel/cdk/requirements.lock",
        "tidewheel/local/template.json",
        "tidewheel/py.typed",
    } <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_holds_every_module_and_no_litter(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    source = REPOSITORY / "src"
    assert {path.relative_to(source).as_posix() for path in source.rglob("*.py")} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"tidewheel"}
    assert [name for name in names if "__pycache__" in name or name.endswith((".pyc", "~"))] == []


def test_the_wheels_metadata_says_what_an_index_shows(metadata: Message) -> None:
    assert metadata["Name"] == "tidewheel"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_wheel_alone_needs_little(metadata: Message) -> None:
    needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert sorted(re.split(r"[>=<]", each)[0] for each in needed) == ["boto3", "cronsim", "pyroaring", "tzdata"]


def test_the_wheel_names_the_command_and_the_pytest_plugin(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(name).decode()
    assert "tidewheel = tidewheel.cli:run" in text
    assert "tidewheel = tidewheel.local.pytest_plugin" in text


def test_the_source_distribution_gives_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again"], source)
    [again] = (tmp_path / "again").glob("*.whl")
    assert contents(again) == contents(wheel)


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_make_build_builds_both_into_dist() -> None:
    printed = run(["make", "--dry-run", "--always-make", "build"], REPOSITORY)
    assert "python -m hatchling build -d dist" in printed


# ---- what it does where it is installed


def test_the_client_alone_sends_and_cancels(environment: Environment, tmp_path: Path) -> None:
    python = environment() / "python"
    # The client is a process of its own: its clock is the machine's.
    with LocalTidewheel(start=datetime.now(UTC)) as stack:
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
        sent = run([python, "-I", "-c", SENDER, stack.stack_name, stack.endpoint_url], tmp_path, **keys).split()
        stack.advance(days=1)
        received = {message.id: message.json()["number"] for message in stack.receive("orders", "billing")}
    assert len(sent) == 3
    assert received == {sent[0]: 0, sent[2]: 2}


def test_the_local_runtime_and_the_commands_work_from_the_wheel_alone(environment: Environment, tmp_path: Path) -> None:
    programs = environment("[local]")
    where = "import tidewheel; print(tidewheel.__file__, tidewheel.__version__)\n"
    [file, version, *_] = run([programs / "python", "-I", "-c", where + QUICKSTART], tmp_path).split()
    assert Path(file).is_relative_to(programs.parent)
    assert run([programs / "tidewheel", "--version"], tmp_path).strip() == f"tidewheel {version}"
    helped = run([programs / "tidewheel", "--help"], tmp_path, COLUMNS="200", NO_COLOR="1")
    assert all(name in helped for name in ("send", "topics", "local", "demo"))
    samples = "from tidewheel.local import replay; print(len(replay.read_samples(replay.packaged_samples())))"
    assert int(run([programs / "python", "-I", "-c", samples], tmp_path)) > 1000


def test_another_teams_app_is_synthesized_and_bundled_from_the_wheel_alone(
    environment: Environment, tmp_path: Path
) -> None:
    programs = environment("[cdk]")
    node = os.environ.get(JSII_NODE) or node_of_wheel()
    variables = {
        JSII_NODE: str(node),
        "CDK_OUTDIR": str(tmp_path / "out"),
        "CDK_CONTEXT_JSON": '{"aws:cdk:bundling-stacks":[]}',
    }
    app = REPOSITORY / "examples" / "cdk_app"
    # -P: the folder of the script, which is in the checkout, is not on the path.
    run([programs / "python", "-P", app / "app.py"], tmp_path, **variables)
    template = json.loads((tmp_path / "out" / "shop.template.json").read_text())
    functions = of_type(template, "AWS::Lambda::Function")
    handlers = {each["Handler"].split(".")[1] for each in functions if each["Handler"].startswith("functions.")}
    assert handlers == {name for bundle in BUNDLES for name in bundle.functions}
    hashes = {bundle.name: bundle_hash(bundle) for bundle in BUNDLES}
    made = run(
        [programs / "python", "-P", "-c", BUNDLER, tmp_path],
        tmp_path,
        PATH=f"{TOOLS}:{os.environ['PATH']}",
        **variables,
    )
    # The same hashes as in a checkout: who deploys from the wheel deploys the same.
    assert json.loads(made) == hashes
    names = ZipFile(tmp_path / "lean.zip").namelist()
    assert "functions/sweep/handler.py" in names and "tidewheel/flows/sweep.py" in names
    assert "tidewheel/spark/merging.py" in ZipFile(tmp_path / "tidewheel.zip").namelist()


def of_type(template: dict[str, Any], type_: str) -> list[dict[str, Any]]:
    """The properties of all resources of a type."""
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == type_]
