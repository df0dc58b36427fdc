"""Bundles, made from PyPI: what is deployed is for the functions' machine, and runs where a machine is like it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import REPOSITORY
from tests.packaging.interpreter import Interpreter, this_machines
from tidewheel.cdk import pinned_packages
from tidewheel.cdk.bundles import ARROW, BUNDLES, LEAN, MB, SERVICES, Bundle
from tidewheel.cdk.bundling import fill, write_bundle
from tidewheel.cdk.pinned_packages import LAMBDA, pip_command, uv_command
from tidewheel.cdk.shared_object import AARCH64, machine_of
from tidewheel.cdk.thinning import shared_objects
from tidewheel.settings import ServiceSettings

pytestmark = pytest.mark.usefixtures("package_index")

TOOLS = Path(__file__).parent
PATIENCE_S = 120


@pytest.fixture(scope="module")
def deployed(package_index: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each bundle's archive, as it would be deployed."""
    target = tmp_path_factory.mktemp("deployed")
    for bundle in BUNDLES:
        write_bundle(bundle, target)
    return {bundle.name: target / f"{bundle.name}.zip" for bundle in BUNDLES}


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    """The Python on which bundles are tried."""
    return this_machines()


@pytest.fixture(scope="module")
def native(package_index: None, interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each bundle in a folder, with the same packages and thinned in the same way, for this machine."""
    folders = {bundle.name: tmp_path_factory.mktemp(bundle.name) for bundle in BUNDLES}
    for bundle in BUNDLES:
        fill(folders[bundle.name], bundle, interpreter.machine)
    return folders


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_a_bundle_is_small(deployed: dict[str, Path], bundle: Bundle) -> None:
    most = {"arrow": (130 * MB, 48 * MB), "lean": (17 * MB, 7 * MB)}[bundle.name]
    archive = deployed[bundle.name]
    with ZipFile(archive) as opened:
        unpacked = sum(entry.file_size for entry in opened.infolist())
    assert unpacked <= most[0] < bundle.limit_bytes
    assert archive.stat().st_size <= most[1]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_every_shared_object_is_for_arm64_and_the_functions_python(deployed: dict[str, Path], bundle: Bundle) -> None:
    with ZipFile(deployed[bundle.name]) as archive:
        objects = {name: archive.read(name) for name in archive.namelist() if re.search(r"\.so(\.\d+)*$", name)}
    assert {machine_of(data) for data in objects.values()} == {AARCH64}
    modules = [name for name in objects if ".cpython-" in name or ".abi3." in name]
    assert "pyroaring.cpython-313-aarch64-linux-gnu.so" in modules
    assert [name for name in modules if not name.endswith((".cpython-313-aarch64-linux-gnu.so", ".abi3.so"))] == []
    assert ("pyarrow/lib.cpython-313-aarch64-linux-gnu.so" in modules) is (bundle is ARROW)


@pytest.mark.parametrize(
    ("bundle", "function"),
    [(bundle, function) for bundle in BUNDLES for function in bundle.functions],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_handler_imports_from_its_bundle_alone(
    native: dict[str, Path],
    deployed: dict[str, Path],
    interpreter: Interpreter,
    tmp_path: Path,
    bundle: Bundle,
    function: str,
) -> None:
    clients = ",".join(sorted(SERVICES - {"xray"}))
    found = json.loads(run(interpreter, tmp_path, "import_handlers.py", native[bundle.name], clients, function))
    assert found["handlers"] == [True]
    # Dispatch loads pyarrow when it has rows to send.
    wanted = bundle is ARROW and function != "dispatch"
    assert any(name.startswith("pyarrow/") for name in found["modules"]) is wanted
    # Clients are botocore's; dispatch loads calendars when a message recurs.
    heavy = {"boto3", "s3transfer", *(("cronsim",) if function == "dispatch" else ())}
    assert function == "declare" or heavy.isdisjoint(found["at_start"])
    # What it loaded here, the deployed bundle has, too.
    here = f"-{interpreter.machine.architecture}-"
    python = f"cpython-{interpreter.machine.python.replace('.', '')}"
    with ZipFile(deployed[bundle.name]) as archive:
        names = set(archive.namelist())
    assert len(found["modules"]) > 200
    if interpreter.machine.python == LAMBDA.python:
        missing = {name.replace(here, "-aarch64-").replace(python, "cpython-313") for name in found["modules"]} - names
        assert missing == set()


def test_the_whole_service_runs_on_the_thinned_packages(
    native: dict[str, Path], interpreter: Interpreter, tmp_path: Path
) -> None:
    printed = run(interpreter, tmp_path, "run_flows.py", native["arrow"], str(REPOSITORY / "src"))
    assert int(printed) == 60 * 4 - 1 + 2 + 4


def test_a_bundle_made_again_and_by_pip_has_the_same_bytes(
    deployed: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uv_command(LAMBDA) is not None and pip_command(LAMBDA) is not None
    monkeypatch.setattr(pinned_packages, "uv_command", lambda _machine: None)
    write_bundle(LEAN, tmp_path)
    with ZipFile(deployed["lean"]) as by_uv, ZipFile(tmp_path / "lean.zip") as by_pip:
        assert by_uv.namelist() == by_pip.namelist()
        # Python does not promise that it compiles to the same bytes twice.
        different = [
            name for name in by_uv.namelist() if not name.endswith(".pyc") and by_uv.read(name) != by_pip.read(name)
        ]
    assert different == []
    if sys.version_info[:2] != (3, 13):
        assert deployed["lean"].read_bytes() == (tmp_path / "lean.zip").read_bytes()


def test_nothing_is_cut_in_an_installers_cache(
    native: dict[str, Path], tmp_path: Path, interpreter: Interpreter
) -> None:
    """A second installation from the same cache has whole files, longer than the cut ones."""
    pinned_packages.install(pinned_packages.pinned(["pyroaring"], interpreter.machine), tmp_path, interpreter.machine)
    [whole], [cut] = (
        [path for path in shared_objects(each) if "pyroaring" in path.name] for each in (tmp_path, native["lean"])
    )
    assert whole.stat().st_size > 2 * cut.stat().st_size


def test_audits_find_every_package_and_its_licence(deployed: dict[str, Path]) -> None:
    with ZipFile(deployed["arrow"]) as archive:
        names = archive.namelist()
    packages = {name.split("-")[0].replace("_", "-") for name in names if name.endswith(".dist-info/METADATA")}
    assert packages == set(ARROW.packages)
    assert [name for name in names if re.search(r"dist-info/(RECORD|INSTALLER|direct_url.json)$", name)] == []
    assert any(name.startswith("pyarrow-") and "LICENSE" in name for name in names)


def run(interpreter: Interpreter, folder: Path, tool: str, bundle: Path, *arguments: str) -> str:
    """Runs a tool as Lambda runs a function: no other packages, its variables, a folder that it may write to."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_LAMBDA_FUNCTION_NAME": "tidewheel",
        "LAMBDA_TASK_ROOT": "/var/task",
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0",
        **{f"TIDEWHEEL_{name}": value for name, value in settings().items()},
    }
    # -B: the bundle's folder is read-only for a function.
    done = subprocess.run(
        [interpreter.executable, "-B", "-I", "-S", str(TOOLS / tool), str(bundle), *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def settings() -> dict[str, str]:
    """The settings of a service that is nowhere, by the names of a function's variables."""
    values = {"max_skew_ms": "100", "send_threads": "8", "topic_queues": "{}"}
    return {
        field.name.upper(): values.get(field.name, "arn:aws:sqs:eu-central-1:1:q") for field in fields(ServiceSettings)
    }
