"""The assets of functions and jobs, tested without PyPI. `tests/packaging` builds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from infra import application, bundle, bundle_lock
from infra.local_template import DEFAULT_STACK
from tests.conftest import REPOSITORY
from tests.infra.variants import template_of
from tidewheel.bundling import functions, jobs, pinned_packages
from tidewheel.bundling.archive import files_of, fingerprint, write_archive
from tidewheel.bundling.functions import (
    LAMBDA_LIMIT_BYTES,
    LIMIT_BYTES,
    PACKAGES,
    functions_hash,
    handler_of,
    own_files,
)
from tidewheel.bundling.jobs import job_files, write_wheels
from tidewheel.bundling.pinned_packages import LAMBDA, LOCK, X86, Machine, index_for_uv, install, pinned
from tidewheel.errors import BundleFailed

# ---- what is in the functions' archive


def test_the_packages_are_all_that_the_lambda_extra_needs() -> None:
    needed = requirements("tidewheel", "lambda")
    waiting = list(needed)
    while waiting:
        name, _, extra = waiting.pop().partition("+")
        new = requirements(name, extra) - needed
        needed |= new
        waiting.extend(new)
    assert {name.partition("+")[0] for name in needed} == set(PACKAGES)


def test_the_archive_has_every_handler_and_of_this_package_what_is_deployed() -> None:
    names = set(own_files())
    handlers = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "functions").glob("*/handler.py")}
    assert len(handlers) == 6
    assert {*handlers, "tidewheel/__init__.py", "tidewheel/flows/delivery/ingest.py", "tidewheel/__init__.pyi"} <= names
    rooms = (
        "bundling",
        "cdk",
        "cli",
        "console",
        "cost",
        "deploy",
        "jobs",
        "local",
        "memory",
        "spark",
        "_functions",
        "_glue_jobs",
    )
    assert [name for name in names if name.startswith(tuple(f"tidewheel/{room}/" for room in rooms))] == []


def test_no_deployed_module_names_a_room_that_is_left_out() -> None:
    """Checks imports inside functions too, which otherwise fail only at run time."""
    for files, rooms in (
        (own_files(), "bundling|cdk|cli|console|cost|deploy|jobs|local|memory|prove|spark"),
        (job_files(), "bundling|cdk|cli|console|cost|deploy|local|memory|prove"),
    ):
        pattern = re.compile(rf"^\s*(from tidewheel\.({rooms})\b|import tidewheel\.({rooms})\b)", re.MULTILINE)
        found = {name: match[0] for name, path in files.items() if (match := pattern.search(path.read_text("utf-8")))}
        assert found == {}


def test_a_function_that_the_archive_does_not_have_fails_the_synthesis_by_name() -> None:
    assert handler_of("sweep") == "functions.sweep.handler.handler"
    with pytest.raises(BundleFailed, match=r"functions.zip has no functions/sweeep/handler.py.*'sweeep'"):
        handler_of("sweeep")


def test_an_archive_that_grew_beyond_its_limit_fails_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(folder: Path, _machine: Machine) -> None:
        with (folder / "large").open("wb") as file:
            file.truncate(LIMIT_BYTES + 1_200_000)

    assert LIMIT_BYTES < LAMBDA_LIMIT_BYTES
    monkeypatch.setattr(functions, "fill", fill)
    with pytest.raises(BundleFailed, match=r"has 221\.2 MB unpacked, more than its limit of 220 MB \(.* is 262 MB\)"):
        functions.write_bundle(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_are_left_out_by_their_names_and_no_folder_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_requirements: str, folder: Path, _machine: Machine) -> None:
        for name in ("bin/tool", "numpy/core/tests/test_it.py", "numpy/core/it.py", "pyarrow/libarrow_flight.so.1"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)

    monkeypatch.setattr(functions, "install", install)
    functions.fill(tmp_path)
    assert set(files_of(tmp_path)) == {"numpy/core/it.py", *own_files()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["functions", "numpy", "tidewheel"]
    assert [path.name for path in (tmp_path / "numpy" / "core").iterdir()] == ["it.py"]


@pytest.mark.parametrize(
    ("options", "machine"), [([], LAMBDA), (["--architecture", "aarch64"], LAMBDA), (["--architecture", "x86_64"], X86)]
)
def test_the_command_writes_both_archives_for_the_machine_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], machine: Machine
) -> None:
    asked = []
    monkeypatch.setattr(bundle, "write_bundle", lambda folder, machine: asked.append((folder, machine)))
    assert bundle.main([str(tmp_path / "made"), *options]) == 0
    assert asked == [(tmp_path / "made", machine)]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["tidewheel.zip"]


# ---- the lock file


def test_the_lock_file_of_the_bundles_is_current() -> None:
    assert LOCK.read_text(encoding="utf-8") == bundle_lock.rendered()
    assert bundle_lock.main(["--check"]) == 0


def test_a_stale_lock_file_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bundle_lock, "rendered", lambda: "boto3==0\n")
    assert bundle_lock.main(["--check"]) == 1
    assert "python -m infra.bundle_lock" in capsys.readouterr().err


def test_every_package_is_pinned_once_with_its_hashes() -> None:
    text = pinned(PACKAGES)
    assert re.findall(r"^(\S+)==\S+ \\\n    --hash=sha256:", text, re.MULTILINE) == list(PACKAGES)
    assert ";" not in text and text.count("==") == len(PACKAGES)


def test_a_pin_is_the_machines_own() -> None:
    old = Machine(python="3.11", architecture="x86_64")
    assert pinned(["numpy"], old) != pinned(["numpy"], X86) == pinned(["numpy"], LAMBDA)


def test_a_package_that_is_not_locked_is_named() -> None:
    with pytest.raises(BundleFailed, match="no-such-package"):
        pinned(["no-such-package"], lock="boto3==1.0 \\\n    --hash=sha256:00\n")


@pytest.mark.parametrize("make", [lambda folder: install("", folder), write_wheels])
def test_without_uv_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BundleFailed, match=r"There is no uv .*: pip install 'tidewheel\[deploy\]'"):
        make(tmp_path)


# ---- the package index


PIP_CONF = """
[global]
index-url = https://name:pass%40word@pip.example/simple
[install]
extra-index-url =
    https://one.example/simple
    https://two.example/simple
"""


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No index is configured, whatever this machine has."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return monkeypatch


def test_uv_is_told_the_index_of_pips_files(unconfigured: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(PIP_CONF)
    unconfigured.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert index_for_uv() == {
        "UV_DEFAULT_INDEX": "https://name:pass%40word@pip.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_uv_is_told_the_index_of_pips_variables_also_where_there_is_no_pip(unconfigured: pytest.MonkeyPatch) -> None:
    assert index_for_uv() == {}
    unconfigured.setattr(pinned_packages.importlib.util, "find_spec", lambda _name: None)
    assert index_for_uv() == {}
    unconfigured.setenv("PIP_INDEX_URL", "https://pip.example/simple")
    unconfigured.setenv("PIP_EXTRA_INDEX_URL", "https://one.example/simple")
    assert index_for_uv() == {
        "UV_DEFAULT_INDEX": "https://pip.example/simple",
        "UV_INDEX": "https://one.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_an_index_of_uvs_own_goes_before_pips(unconfigured: pytest.MonkeyPatch) -> None:
    unconfigured.setenv("PIP_INDEX_URL", "https://pip.example/simple")
    unconfigured.setenv("UV_DEFAULT_INDEX", "https://uv.example/simple")
    assert index_for_uv() == {}


# ---- assets


def test_the_cdk_makes_one_archive_for_all_functions_and_makes_none_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert synthesized(tmp_path, monkeypatch) == ["functions"]
    template = json.loads((tmp_path / f"{DEFAULT_STACK}.template.json").read_text())
    assert template == template_of("development"), "hashes are the same whether code is bundled or not"
    [key] = {
        resource["Properties"]["Code"]["S3Key"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function" and resource["Properties"]["Handler"].startswith("functions.")
    }
    assert (tmp_path / f"asset.{key}").read_bytes() == b"functions"

    assets = (tmp_path / f"{DEFAULT_STACK}.assets.json").read_text()
    assert synthesized(tmp_path, monkeypatch) == []
    assert (tmp_path / f"{DEFAULT_STACK}.assets.json").read_text() == assets


def synthesized(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Synthesizes the stack with stub archives. Returns the names of the built archives."""
    written = []

    def write(target: Path) -> None:
        written.append("functions")
        (target / "functions.zip").write_text("functions")

    def write_wheels(target: Path) -> None:
        (target / "wheels.zip").write_text("wheels")

    monkeypatch.setattr("tidewheel.cdk.bundling.write_bundle", write)
    monkeypatch.setattr("tidewheel.cdk.job_code.write_wheels", write_wheels)
    application.build_app(outdir=str(folder), overrides={application.BUNDLING_STACKS: ["**"]}).synth()
    return written


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package with the functions and the jobs, as the source of assets."""
    copy = tmp_path / "src" / "tidewheel"
    shutil.copytree(REPOSITORY / "src" / "tidewheel", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("functions", "glue_jobs"):
        shutil.copytree(REPOSITORY / name, copy / f"_{name}", ignore=shutil.ignore_patterns("__pycache__"))
    before = hashes()
    for module in (functions, jobs):
        monkeypatch.setattr(module, "PACKAGE", copy)
    monkeypatch.setattr(functions, "shipped", lambda name: copy / f"_{name}")
    assert hashes() == before, "the wheel deploys something else than a checkout"
    return copy


def hashes() -> tuple[str, str]:
    """The hashes of the functions' and of the jobs' archive."""
    return functions_hash(), fingerprint(job_files())


def test_what_is_not_deployed_deploys_nothing(package: Path) -> None:
    before = hashes()
    (package / "cli" / "main.py").write_text("# another command line\n")
    (package / "local" / "stack.py").unlink()
    (package / "notes.md").write_text("a document\n")
    (package / "_functions" / "ingest" / "test_handler.py").write_text("a test\n")
    assert hashes() == before


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("_functions/ingest/handler.py", (True, False)),
        ("flows/delivery/ingest.py", (True, True)),
        ("__init__.pyi", (True, True)),
        ("jobs/merging.py", (False, True)),
    ],
)
def test_a_change_of_a_module_deploys_the_archives_that_have_it(
    package: Path, file: str, changed: tuple[bool, bool]
) -> None:
    before = hashes()
    with (package / file).open("a") as source:
        source.write("\n# a change\n")
    assert tuple(new != old for new, old in zip(hashes(), before, strict=True)) == changed


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(functions, "pinned", lambda packages, *_: "boto3==1.0\n"),
        lambda patch: patch.setattr(functions, "makers", lambda: ["another way of bundling"]),
    ],
)
def test_a_change_of_packages_or_of_how_they_are_bundled_deploys(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = functions_hash()
    change(monkeypatch)
    assert functions_hash() != before


# ---- archives


def test_an_archive_depends_on_names_and_content_alone(tmp_path: Path) -> None:
    archives = []
    for order, mode in (("ab", 0o644), ("ba", 0o700)):
        folder = tmp_path / order
        for number, name in enumerate(order):
            file = folder / name / "module.py"
            file.parent.mkdir(parents=True)
            file.write_text(f"name = {name!r}\n")
            file.chmod(mode)
            shutil.copystat(REPOSITORY / "LICENSE" if number else REPOSITORY / "README.md", file.parent)
        write_archive(files_of(folder), tmp_path / f"{order}.zip")
        archives.append((tmp_path / f"{order}.zip").read_bytes())
    assert archives[0] == archives[1]
    with ZipFile(tmp_path / "ab.zip") as archive:
        assert archive.namelist() == ["a/module.py", "b/module.py"]
        assert {entry.external_attr >> 16 for entry in archive.infolist()} == {0o100644}


def test_a_name_and_its_content_cannot_be_taken_for_one_another(tmp_path: Path) -> None:
    (tmp_path / "ab").write_text("c")
    (tmp_path / "a").write_text("bc")
    assert fingerprint({"ab": tmp_path / "ab"}) != fingerprint({"a": tmp_path / "a"})
    assert fingerprint({}, "ab", "c") != fingerprint({}, "a", "bc")


# ---- jobs


def test_the_jobs_get_their_modules_as_one_file_that_ends_in_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthesized(tmp_path, monkeypatch)
    template = json.loads((tmp_path / f"{DEFAULT_STACK}.template.json").read_text())
    jobs = [each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::Glue::Job"]
    [location] = {json.dumps(job["DefaultArguments"]["--extra-py-files"]) for job in jobs}
    [name] = re.findall(r"/([0-9a-f]{64}\.zip)", location)
    with ZipFile(tmp_path / f"asset.{name}") as archive:
        names = archive.namelist()
    assert {"tidewheel/__init__.py", "tidewheel/__init__.pyi", "tidewheel/jobs/merging.py"} <= set(names)
    assert [name for name in names if not name.endswith(".py")] == ["tidewheel/__init__.pyi"]


@pytest.mark.parametrize(
    ("variable", "stacks"), [({"TIDEWHEEL_BUNDLE": "1"}, ["**"]), ({"TIDEWHEEL_BUNDLE": "0"}, []), ({}, None)]
)
def test_the_command_line_decides_on_bundling_unless_the_variable_does(
    variable: dict[str, str], stacks: list[str] | None
) -> None:
    assert application._bundling_context(variable).get(application.BUNDLING_STACKS) == stacks


def requirements(package: str, extra: str) -> set[str]:
    """Returns the requirements of a package with an extra, as `name` or `name+extra`."""
    found = set()
    for requirement in metadata.requires(package) or []:
        declaration, _, marker = requirement.partition(";")
        if "extra ==" in marker and not (extra and re.search(f"['\"]{extra}['\"]", marker)):
            continue
        match = re.match(r"([\w.-]+)(?:\[(\w+)\])?", declaration.strip())
        assert match
        name = match[1].lower().replace("_", "-")
        found.add(f"{name}+{match[2]}" if match[2] else name)
    return found


def test_bytecode_is_equal_on_each_machine_and_python_does_not_compare_it_with_the_source(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        module = tmp_path / name / "package" / "module.py"
        module.parent.mkdir(parents=True)
        module.write_text(
            "KNOWN = frozenset({'a', 'b', 'c', 'd', 'e'})\ndef known(x): return x in {'f', 'g', 'h', 'i'}\n"
        )
        functions.compile_modules(tmp_path / name, sys.executable)
        [compiled] = module.parent.glob("__pycache__/*.pyc")
        made.append(compiled.read_bytes())
    assert made[0] == made[1] and made[0][4:8] == b"\x01\0\0\0"  # PEP 552: by hash, unchecked


def test_archives_with_and_without_bytecode_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "interpreter", lambda _: None)
    without = functions_hash()
    monkeypatch.setattr(functions, "interpreter", lambda _: "/usr/bin/python3.13")
    assert len({without, functions_hash(), functions_hash(X86)}) == 3
