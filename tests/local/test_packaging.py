"""The wheel: what is in it, and that it works where no checkout is."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import REPOSITORY

PATIENCE_S = 300

QUICKSTART = """
from tidewheel.local import LocalTidewheel

with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
    tw = stack.client()
    tw.create_topic("orders")
    tw.create_subscription("orders", "billing")
    sent = tw.send("orders", {"id": 17}, delay="3d")
    stack.advance(days=3)
    [message] = stack.receive("orders", "billing")
    assert message.id == sent.id and message.json() == {"id": 17}
    assert not stack.failures
print("ok")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], REPOSITORY)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the wheel's content."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    _run([*pip, "--no-deps", "--no-index", "--target", str(target), str(wheel)], target)
    return target


def _run(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables or None, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _in_installed(installed: Path, program: str) -> str:
    """Runs a program that finds the installed wheel, and its dependencies in this environment, but not the checkout.

    With -S no .pth file is read, and so not the one of the editable installation.
    """
    path = f"{installed}:{sysconfig.get_path('purelib')}:{sysconfig.get_path('platlib')}"
    return _run([sys.executable, "-S", "-P", "-c", program], installed, PYTHONPATH=path, PATH="/usr/bin:/bin")


def test_the_wheel_holds_all_that_the_package_reads(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    handlers = {path.parent.name for path in (REPOSITORY / "functions").glob("*/handler.py")}
    assert {"ingest", "dispatch", "deliver", "sweep"} <= handlers
    assert {f"tidewheel/_functions/{name}/handler.py" for name in handlers} <= names
    assert {"tidewheel/_examples/messages.jsonl.gz", "tidewheel/local/template.json", "tidewheel/py.typed"} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_holds_every_module_and_no_litter(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    source = REPOSITORY / "src"
    assert {path.relative_to(source).as_posix() for path in source.rglob("*.py")} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"tidewheel"}
    assert [name for name in names if "__pycache__" in name or name.endswith((".pyc", "~"))] == []


def test_the_wheels_metadata_names_the_command_and_the_pytest_plugin(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        [entry_points] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(entry_points).decode()
        [metadata] = [name for name in archive.namelist() if name.endswith("METADATA")]
        needed = [
            line.removeprefix("Requires-Dist: ")
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
    assert "tidewheel = tidewheel.cli.main:run" in text
    assert "tidewheel = tidewheel.local.pytest_plugin" in text
    assert sorted(name.split(">")[0] for name in needed) == ["boto3", "cronsim", "pyroaring", "tzdata"]


def test_the_quickstart_runs_from_the_installed_wheel_alone(installed: Path) -> None:
    where = "import tidewheel; print(tidewheel.__file__)\n"
    printed = _in_installed(installed, where + QUICKSTART).split()
    assert printed == [str(installed / "tidewheel" / "__init__.py"), "ok"]


def test_the_installed_wheel_has_its_own_handlers_and_samples(installed: Path) -> None:
    program = (
        "from tidewheel.shipped import shipped\n"
        "from tidewheel.local.replay import packaged_samples, read_samples\n"
        "print(shipped('functions'), packaged_samples(), len(read_samples(packaged_samples())) > 1000)"
    )
    package = installed / "tidewheel"
    assert _in_installed(installed, program).split() == [
        str(package / "_functions"),
        str(package / "_examples" / "messages.jsonl.gz"),
        "True",
    ]


def test_the_installed_command_answers_without_the_local_runtime(installed: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('moto', 'pyarrow', 'numpy', 'matplotlib', 'aws_lambda_powertools'): sys.modules[name] = None\n"
        "sys.argv = ['tidewheel', '--version']\n"
        "from tidewheel.cli.main import run; run()"
    )
    assert _in_installed(installed, program).startswith("tidewheel ")
