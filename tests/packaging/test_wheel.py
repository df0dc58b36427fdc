"""The outputs of `make build`, with the wheel's contents and the package index's page."""

from __future__ import annotations

import email
import json
import re
import sys
import tarfile
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import REPOSITORY
from tests.packaging.installed import run

RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:)[^)]*\)")


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The wheel's METADATA."""
    return metadata_of(wheel)


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_string(archive.read(name).decode())


TEMPLATES = ("development.json", "development-no-spark.json", "production.json", "production-no-spark.json")

# ---- what is in it


def test_the_wheel_holds_all_that_the_package_reads(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    handlers = {path.parent.name for path in (REPOSITORY / "functions").glob("*/handler.py")}
    assert len(handlers) == 6
    assert {f"tidewheel/_functions/{name}/handler.py" for name in handlers} <= names
    jobs = {path.name for path in (REPOSITORY / "glue_jobs").glob("*.py")}
    assert {f"tidewheel/_glue_jobs/{name}" for name in jobs} <= names
    assert {
        "tidewheel/_examples/messages.jsonl.gz",
        "tidewheel/bundling/requirements.lock",
        "tidewheel/local/template.json",
        *(f"tidewheel/_templates/{name}" for name in TEMPLATES),
        "tidewheel/__init__.pyi",
        "tidewheel/py.typed",
    } <= names
    pages = {path.relative_to(REPOSITORY / "docs").as_posix() for path in (REPOSITORY / "docs").rglob("*.md")}
    assert {f"tidewheel/_docs/{page}" for page in pages} == {
        name for name in names if name.startswith("tidewheel/_docs/")
    }
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


def test_no_link_of_the_long_description_is_relative(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str) and text.startswith("# Tidewheel")
    assert RELATIVE_LINK.findall(text) == []
    assert RELATIVE_LINK.findall((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    named = re.findall(r"`tidewheel docs ([^`]*)`", text)
    assert len(named) > 9
    assert [name for name in named if not (REPOSITORY / "docs" / f"{name}.md").is_file()] == []


def test_once_the_project_names_its_repository_the_links_lead_there(built: Path, tmp_path: Path) -> None:
    source = unpacked(built, tmp_path)
    (source / "PKG-INFO").unlink()  # has the long description already
    project = source / "pyproject.toml"
    url = '[project.urls]\nRepository = "https://code.example/tidewheel"\n\n[project.scripts]\n'
    project.write_text(project.read_text(encoding="utf-8").replace("[project.scripts]\n", url), encoding="utf-8")
    picture = "docs/images/console-overview-light.png"
    with (source / "README.md").open("a", encoding="utf-8") as readme:
        readme.write(f"\n![The console]({picture})\n")
    metadata = json.loads(run([sys.executable, "-m", "hatchling", "metadata"], source))
    text = metadata["readme"]["text"]
    at = f"https://code.example/tidewheel/blob/v{metadata['version']}"
    assert metadata["urls"] == {"Repository": "https://code.example/tidewheel"}
    assert f"[docs/sdk.md]({at}/docs/sdk.md)" in text and f"![The console]({at}/{picture}?raw=true)" in text
    assert RELATIVE_LINK.findall(text) == []


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
    source = unpacked(built, tmp_path)
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again"], source)
    [again] = (tmp_path / "again").glob("*.whl")
    assert contents(again) == contents(wheel)


def unpacked(built: Path, folder: Path) -> Path:
    """Unpacks the source distribution. Returns the folder."""
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return source


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_make_build_builds_both_into_dist() -> None:
    printed = run(["make", "--dry-run", "--always-make", "build"], REPOSITORY)
    assert "python -m hatchling build -d dist" in printed
