"""The functions' archive from PyPI has unchanged third-party files for Lambda's machine, and runs."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from infra import local_template
from tests.packaging.conftest import functions_archive
from tidewheel.bundling.archive import files_of
from tidewheel.bundling.functions import LEFT_OUT, LIMIT_BYTES, PACKAGES, own_files, write_bundle
from tidewheel.bundling.pinned_packages import LAMBDA, X86, install, pinned
from tidewheel.shipped import PACKAGE

pytestmark = pytest.mark.usefixtures("package_index")

ARM64_ELF = 183
"""ELF's number of the machine."""


@pytest.fixture(scope="module")
def deployed(package_index: None, tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The archive as deployed."""
    target = tmp_path_factory.mktemp("deployed")
    write_bundle(target)
    return ZipFile(target / "functions.zip")


@pytest.fixture(scope="module")
def tested(package_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive's content for x86-64, in a folder."""
    return functions_archive(tmp_path_factory, X86)


@pytest.fixture(scope="module")
def whole(package_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same packages as they come from PyPI, nothing left out."""
    folder = tmp_path_factory.mktemp("whole")
    install(pinned(PACKAGES, X86), folder, X86)
    return folder


@pytest.fixture(scope="module")
def resources() -> list[dict[str, Any]]:
    """The resources of the synthesized template in the package."""
    return list(json.loads(local_template.PATH.read_text(encoding="utf-8"))["Resources"].values())


# ---- what is in it


def test_the_archive_that_is_deployed_and_the_tested_one_differ_in_compiled_files_only(
    deployed: ZipFile, tested: Path
) -> None:
    def neutral(name: str) -> str:
        # numpy.libs has the hash of a library in its name.
        return re.sub(r"-[0-9a-f]{8}\.so", ".so", re.sub("aarch64|x86_64", "ARCHITECTURE", name))

    arm64 = {neutral(name): deployed.read(name) for name in deployed.namelist()}
    x86 = {neutral(name): path.read_bytes() for name, path in files_of(tested).items()}
    assert set(arm64) == set(x86)
    different = {name for name in arm64 if arm64[name] != x86[name] and not re.search(r"\.(a|so(\.\d+)*)$", name)}
    # The tags of a wheel, and numpy's report of how it was compiled.
    compiled = "numpy/__pycache__/__config__.cpython-313.pyc"
    assert {each for each in different if not each.endswith(".dist-info/WHEEL")} - {compiled} == {"numpy/__config__.py"}


def test_every_shared_object_is_for_arm64_and_the_functions_python(deployed: ZipFile) -> None:
    objects = {name: deployed.read(name)[:20] for name in deployed.namelist() if re.search(r"\.so(\.\d+)*$", name)}
    assert {(data[:4], int.from_bytes(data[18:20], "little")) for data in objects.values()} == {(b"\x7fELF", ARM64_ELF)}
    tagged = [name for name in objects if ".cpython-" in name]
    assert "pyroaring.cpython-313-aarch64-linux-gnu.so" in tagged
    assert [name for name in tagged if not name.endswith(".cpython-313-aarch64-linux-gnu.so")] == []


def test_every_file_is_as_its_project_wrote_it(whole: Path, tested: Path) -> None:
    """Compares with the hashes of files recorded in wheels."""
    own = own_files()
    files = {name: path for name, path in files_of(tested).items() if name not in own and "__pycache__" not in name}
    written = {}
    for record in whole.glob("*.dist-info/RECORD"):
        for name, digest, _ in csv.reader(record.read_text(encoding="utf-8").splitlines()):
            written[name] = digest.removeprefix("sha256=")
    changed = [name for name, path in files.items() if written.get(name) != digest_of(path)]
    assert (len(files) > 3000, changed) == (True, [])
    missing = set(files_of(whole)) - set(files)
    assert [name for name in missing if not any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)] == []


def test_every_line_of_the_list_leaves_something_out(whole: Path) -> None:
    names = [*files_of(whole), *(f"tidewheel/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*.py"))]
    assert [pattern for pattern in LEFT_OUT if not any(fnmatchcase(name, pattern) for name in names)] == []


def test_the_archive_is_smaller_than_its_limit_for_both_machines(deployed: ZipFile, tested: Path) -> None:
    assert sum(entry.file_size for entry in deployed.infolist()) < LIMIT_BYTES
    assert sum(path.stat().st_size for path in files_of(tested).values()) < LIMIT_BYTES


def test_audits_find_every_package_and_its_licence(deployed: ZipFile) -> None:
    names = deployed.namelist()
    packages = {name.split("-")[0].replace("_", "-") for name in names if name.endswith(".dist-info/METADATA")}
    assert packages == set(PACKAGES)
    assert any(name.startswith("pyarrow-") and "LICENSE" in name for name in names)


def test_the_template_names_handlers_that_the_archive_has_and_the_machine_that_it_is_for(
    deployed: ZipFile, resources: list[dict[str, Any]]
) -> None:
    names = deployed.namelist()
    functions = [each["Properties"] for each in functions_of(resources)]
    assert len(functions) == 5
    for each in functions:
        module, _, _ = each["Handler"].rpartition(".")
        assert f"{module.replace('.', '/')}.py" in names, f"functions.zip lacks the handler {each['Handler']}"
        told = f"{each['Handler']} is configured for {each['Runtime']} on {each['Architectures']}"
        architecture = {"aarch64": "arm64", "x86_64": "x86_64"}[LAMBDA.architecture]
        assert (each["Runtime"], each["Architectures"]) == (f"python{LAMBDA.python}", [architecture]), told


# ---- what it does


def functions_of(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The functions of a template."""
    return [each for each in resources if each["Type"] == "AWS::Lambda::Function"]


def digest_of(path: Path) -> str:
    """Returns a file's hash in the format of RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
