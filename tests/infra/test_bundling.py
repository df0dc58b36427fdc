"""The assets of functions and jobs, as far as they can be known without PyPI; `tests/packaging` makes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from infra import application, bundle_lock
from infra.local_template import DEFAULT_STACK
from tests.conftest import REPOSITORY
from tidewheel.cdk import bundling, bytecode, reach, thinning
from tidewheel.cdk.archive import files_of, fingerprint, write_archive
from tidewheel.cdk.bundles import ARROW, ARROW_PACKAGES, BUNDLES, LAMBDA_LIMIT_BYTES, LEAN, SERVICES, BundleFailed
from tidewheel.cdk.bundling import bundle_hash, glue_requirements, job_files, own_files, own_reach
from tidewheel.cdk.pinned_packages import LAMBDA, LOCK, X86, Machine, install, pinned
from tidewheel.cdk.shared_object import AARCH64, loaded_part, machine_of

GLUE_BRINGS = {"boto3", "botocore", "numpy", "py4j", "pyspark"}
"""Of what the package needs in a job (AWS Glue, "Python libraries supported")."""


# ---- what is in a bundle


def test_every_function_is_in_one_bundle() -> None:
    folders = sorted(path.parent.name for path in (REPOSITORY / "functions").glob("*/handler.py"))
    assert sorted(name for bundle in BUNDLES for name in bundle.functions) == folders


def test_the_packages_are_all_that_the_lambda_extra_needs() -> None:
    needed = requirements("tidewheel", "lambda")
    waiting = list(needed)
    while waiting:
        name, _, extra = waiting.pop().partition("+")
        new = requirements(name, extra) - needed
        needed |= new
        waiting.extend(new)
    assert {name.partition("+")[0] for name in needed} == set(ARROW_PACKAGES)


def test_the_lean_functions_reach_neither_pyarrow_nor_numpy() -> None:
    assert own_reach(LEAN).packages & {"numpy", "pyarrow"} == set()
    assert {"numpy", "pyarrow"} <= own_reach(ARROW).packages


def test_a_bundle_has_the_modules_that_its_handlers_reach_and_no_others() -> None:
    names = own_files(ARROW)
    assert {"functions/ingest/handler.py", "tidewheel/__init__.py", "tidewheel/flows/ingest.py"} <= set(names)
    assert not [name for name in names if name.startswith(("tidewheel/cli/", "tidewheel/cdk/", "tidewheel/local/"))]
    assert "tidewheel/flows/ingest.py" not in own_files(LEAN)


def test_the_services_of_which_botocore_keeps_a_description_are_those_that_the_functions_call() -> None:
    called = set()
    for bundle in BUNDLES:
        for path in own_files(bundle).values():
            called |= set(re.findall(r"""client\(\s*["'](\w+)["']""", path.read_text(encoding="utf-8")))
    # Not called by name: credentials, and the daemon of tracing.
    assert called <= SERVICES
    assert called >= SERVICES - {"sts", "xray"}


def test_bundles_are_allowed_much_less_than_lambda_allows() -> None:
    assert max(bundle.limit_bytes for bundle in BUNDLES) < 0.6 * LAMBDA_LIMIT_BYTES


# ---- what a file reaches


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tidewheel.errors", {"tidewheel", "tidewheel.errors"}),
        ("from tidewheel import clock as clocks", {"tidewheel", "tidewheel.clock"}),
        ("from tidewheel.errors import InvalidValue", {"tidewheel", "tidewheel.errors"}),
        ("from tidewheel import Tidewheel", {"tidewheel", "tidewheel.sdk", "tidewheel.sdk.client"}),
        ("def f():\n    import numpy.typing", {"numpy", "numpy.typing"}),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\nelse:\n    import json",
            {"typing", "json"},
        ),
        ("try:\n    import numpy\nexcept ImportError:\n    import json", {"json"}),
        ("try:\n    import numpy\nexcept (OSError, ModuleNotFoundError):\n    pass", set()),
        ("try:\n    import numpy\nexcept OSError:\n    pass", {"numpy"}),
    ],
)
def test_imports_are_read_from_the_source(tmp_path: Path, source: str, found: set[str]) -> None:
    file = tmp_path / "source.py"
    file.write_text(source)
    assert reach.imports_of(file) == found


@pytest.mark.parametrize(
    "source", ["import tidewheel.no_such", "from . import errors", "from .errors import Contended"]
)
def test_an_import_that_cannot_be_followed_is_an_error(tmp_path: Path, source: str) -> None:
    file = tmp_path / "source.py"
    file.write_text(source)
    with pytest.raises(BundleFailed, match=r"no_such|relatively"):
        reach.reach([file])


# ---- the lock file


def test_the_lock_file_of_the_bundles_is_current() -> None:
    assert LOCK.read_text(encoding="utf-8") == bundle_lock.rendered()
    assert bundle_lock.main(["--check"]) == 0


def test_a_stale_lock_file_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bundle_lock, "rendered", lambda: "boto3==0\n")
    assert bundle_lock.main(["--check"]) == 1
    assert "python -m infra.bundle_lock" in capsys.readouterr().err


def test_every_package_is_pinned_once_with_its_hashes() -> None:
    for bundle in BUNDLES:
        text = pinned(bundle.packages)
        assert re.findall(r"^(\S+)==\S+ \\\n    --hash=sha256:", text, re.MULTILINE) == list(bundle.packages)
        assert ";" not in text and text.count("==") == len(bundle.packages)


def test_a_pin_is_the_machines_own() -> None:
    old = Machine(python="3.11", architecture="x86_64", elf=X86.elf)
    assert pinned(["numpy"], old) != pinned(["numpy"], X86) == pinned(["numpy"], LAMBDA)


def test_a_package_that_is_not_locked_is_named() -> None:
    with pytest.raises(BundleFailed, match="no-such-package"):
        pinned(["no-such-package"], lock="boto3==1.0 \\\n    --hash=sha256:00\n")


def test_without_uv_and_pip_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tidewheel.cdk.pinned_packages.uv_command", lambda _machine: None)
    monkeypatch.setattr("tidewheel.cdk.pinned_packages.pip_command", lambda _machine: None)
    with pytest.raises(BundleFailed, match="ensurepip"):
        install("", tmp_path)


# ---- assets


def test_the_cdk_makes_each_bundle_once_and_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = synthesized(tmp_path, monkeypatch)
    assert sorted(written) == ["arrow", "lean"]
    template = json.loads((tmp_path / f"{DEFAULT_STACK}.template.json").read_text())
    keys = {
        resource["Properties"]["Handler"].split(".")[1]: resource["Properties"]["Code"]["S3Key"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function" and resource["Properties"]["Handler"].startswith("functions.")
    }
    for bundle in BUNDLES:
        [key] = {keys[name] for name in bundle.functions if name in keys}
        assert (tmp_path / f"asset.{key}").read_bytes() == bundle.name.encode()


def test_what_is_in_the_cloud_assembly_already_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert synthesized(tmp_path, monkeypatch)
    first = (tmp_path / f"{DEFAULT_STACK}.assets.json").read_text()
    assert synthesized(tmp_path, monkeypatch) == []
    assert (tmp_path / f"{DEFAULT_STACK}.assets.json").read_text() == first


def test_hashes_are_the_same_whether_code_is_bundled_or_not_and_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthesized(tmp_path / "bundled", monkeypatch)
    program = "import sys; from infra.application import build_app; build_app(outdir=sys.argv[1]).synth()"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "not")], cwd=REPOSITORY, check=True)
    bundled, other = (tmp_path / name / f"{DEFAULT_STACK}.template.json" for name in ("bundled", "not"))
    assert bundled.read_text() == other.read_text()


def synthesized(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Synthesizes the stack with bundles that hold their names only; returns the names of those that were made."""
    written = []

    def write(bundle: bundling.Bundle, target: Path) -> None:
        written.append(bundle.name)
        (target / f"{bundle.name}.zip").write_text(bundle.name)

    monkeypatch.setattr(bundling, "write_bundle", write)
    application.build_app(outdir=str(folder), overrides={application.BUNDLING_STACKS: ["**"]}).synth()
    return written


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, of the functions and of the jobs, from which assets are made."""
    copy = tmp_path / "src" / "tidewheel"
    shutil.copytree(REPOSITORY / "src" / "tidewheel", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("functions", "glue_jobs"):
        shutil.copytree(REPOSITORY / name, copy / f"_{name}", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (bundling, reach):
        monkeypatch.setattr(module, "PACKAGE", copy)
    monkeypatch.setattr(bundling, "shipped", lambda name: copy / f"_{name}")
    return copy


def hashes() -> tuple[str, str, str]:
    """The hashes of both bundles and of the jobs' archive."""
    return bundle_hash(ARROW), bundle_hash(LEAN), fingerprint(job_files())


def test_what_no_function_reaches_deploys_nothing(package: Path) -> None:
    before = hashes()
    (package / "cli" / "main.py").write_text("# another command line\n")
    (package / "local" / "stack.py").unlink()
    (package / "notes.md").write_text("a document\n")
    (package / "_functions" / "ingest" / "test_handler.py").write_text("a test\n")
    assert hashes() == before


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("_functions/ingest/handler.py", (True, False, False)),
        ("_functions/sweep/handler.py", (False, True, False)),
        ("flows/ingest.py", (True, False, False)),
        ("settings.py", (True, True, True)),
        ("spark/merging.py", (False, False, True)),
    ],
)
def test_a_change_of_a_module_deploys_what_reaches_it(
    package: Path, file: str, changed: tuple[bool, bool, bool]
) -> None:
    before = hashes()
    with (package / file).open("a") as source:
        source.write("\n# a change\n")
    assert tuple(new != old for new, old in zip(hashes(), before, strict=True)) == changed


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(bundling, "UNUSED", ("bin",)),
        lambda patch: patch.setattr(bundling, "SERVICES", frozenset({"s3"})),
        lambda patch: patch.setattr(bundling, "pinned", lambda packages, *_: "boto3==1.0\n"),
        lambda patch: patch.setattr(bytecode, "compiles_for", lambda machine: machine.python == "other"),
    ],
)
def test_a_change_of_packages_or_of_how_they_are_bundled_deploys(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "compiles_for", lambda _machine: True)
    before = bundle_hash(LEAN)
    change(monkeypatch)
    assert bundle_hash(LEAN) != before


def test_a_bundle_that_grew_beyond_its_limit_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(folder: Path, *_: object) -> None:
        with (folder / "large").open("wb") as file:
            file.truncate(LEAN.limit_bytes + 1)

    monkeypatch.setattr(bundling, "fill", fill)
    with pytest.raises(BundleFailed, match=r"lean has 20\.0 MB unpacked, more than its limit of 20 MB"):
        bundling.write_bundle(LEAN, tmp_path)
    assert list(tmp_path.iterdir()) == []


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
    assert {"tidewheel/__init__.py", "tidewheel/spark/merging.py", "tidewheel/ledger.py"} <= set(names)
    assert not [name for name in names if not name.endswith(".py")]


def test_the_jobs_run_from_their_archive_alone(tmp_path: Path) -> None:
    bundling.write_package(tmp_path)
    program = (
        "import sys, importlib.util\n"
        "sys.path[:0] = sys.argv[1:3]\n"
        "for script in sys.argv[3:]:\n"
        "    spec = importlib.util.spec_from_file_location('job', script)\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "    assert callable(module.main)\n"
        "import tidewheel\n"
        "print(tidewheel.__file__)\n"
    )
    scripts = map(str, sorted((REPOSITORY / "glue_jobs").glob("*.py")))
    # -S: the editable installation is not found.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(tmp_path / "tidewheel.zip"), site_packages(), *scripts],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "tidewheel.zip"))


def test_jobs_get_what_glue_lacks_by_version_and_hash_and_as_wheels_only() -> None:
    options, *entries = re.split(r"^(?=[a-z])", glue_requirements(), flags=re.MULTILINE)
    assert options.split() == ["--require-hashes", "--only-binary", ":all:"]
    assert tuple(entry.partition("==")[0] for entry in entries) == bundling.GLUE_PACKAGES
    for entry in entries:
        assert re.fullmatch(r"\S+==[\d.]+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", entry), entry
    reached = reach.reach((REPOSITORY / "glue_jobs").glob("*.py")).packages
    assert reached <= GLUE_BRINGS | set(bundling.GLUE_PACKAGES)


# ---- shared objects and thinning


def test_a_shared_object_is_cut_behind_what_is_loaded(tmp_path: Path) -> None:
    original = tmp_path / "original.so"
    found = subprocess.run(
        [sys.executable, "-c", "import pyroaring; print(pyroaring.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.copyfile(found.stdout.strip(), original)
    data = original.read_bytes()
    if machine_of(data) is None:
        pytest.skip("shared objects of this machine are no ELF files")
    cut = loaded_part(data)
    assert len(cut) < len(data) / 2
    assert loaded_part(cut) == cut
    assert machine_of(cut) == machine_of(data)
    name = Path(found.stdout.strip()).name
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / name).write_bytes(cut)
    program = "import sys; sys.path[:0] = [sys.argv[1]]; import pyroaring; print(sum(pyroaring.BitMap([1, 2])))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(tmp_path / "cut")], capture_output=True, text=True, check=False
    )
    assert done.stdout == "3\n", done.stderr


def test_other_files_are_not_cut() -> None:
    assert loaded_part(b"text") == b"text"
    assert machine_of(b"\x7fELF\x01\x01" + bytes(58)) is None


def test_a_shared_object_for_another_machine_or_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyroaring.cpython-313-aarch64-linux-gnu.so").write_bytes(elf(AARCH64))
    (tmp_path / "libarrow.so.2600").write_bytes(elf(AARCH64))
    thinning.check(tmp_path, ["pyroaring"], LAMBDA)
    with pytest.raises(BundleFailed, match=r"libarrow.so.2600 is not for x86_64"):
        thinning.check(tmp_path, [], X86)
    (tmp_path / "lib.cpython-311-aarch64-linux-gnu.so").write_bytes(elf(AARCH64))
    with pytest.raises(BundleFailed, match=r"lib.cpython-311-aarch64-linux-gnu.so is not for aarch64 and Python 3.13"):
        thinning.check(tmp_path, [], LAMBDA)


def test_a_package_that_a_handler_imports_and_its_bundle_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "boto3").mkdir()
    (tmp_path / "six.py").touch()
    thinning.check(tmp_path, ["boto3", "six"], LAMBDA)
    with pytest.raises(BundleFailed, match="imports numpy"):
        thinning.check(tmp_path, ["boto3", "numpy", "six"], LAMBDA)


def test_modules_are_compiled_only_by_the_functions_own_python(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("print('compiled')\n")
    own = Machine(python=f"{sys.version_info.major}.{sys.version_info.minor}", architecture="aarch64", elf=AARCH64)
    bytecode.compile_modules(tmp_path, Machine(python="3.0", architecture="aarch64", elf=AARCH64))
    assert sorted(files_of(tmp_path)) == ["module.py"]
    bytecode.compile_modules(tmp_path, own)
    [compiled] = set(files_of(tmp_path)) - {"module.py"}
    assert re.fullmatch(r"__pycache__/module\.cpython-\d+\.pyc", compiled)
    # Its source may be gone or newer: it is not asked.
    (tmp_path / "module.py").write_text("print('from source')\n")
    program = "import sys; sys.path[:0] = [sys.argv[1]]; import module"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "compiled\n"
    assert str(tmp_path).encode() not in (tmp_path / compiled).read_bytes()


@pytest.mark.parametrize(
    ("variable", "stacks"),
    [({"TIDEWHEEL_BUNDLE": "1"}, ["**"]), ({"TIDEWHEEL_BUNDLE": "0"}, []), ({}, None)],
)
def test_the_command_line_decides_on_bundling_unless_the_variable_does(
    variable: dict[str, str], stacks: list[str] | None
) -> None:
    assert application._bundling_context(variable).get(application.BUNDLING_STACKS) == stacks


def elf(machine: int) -> bytes:
    """A header of a shared object, without anything behind it."""
    return b"\x7fELF\x02\x01" + bytes(12) + machine.to_bytes(2, "little") + bytes(44)


def site_packages() -> str:
    """The folder of this environment's packages."""
    [folder] = {str(metadata.distribution(name).locate_file("")) for name in ("boto3", "pyspark")}
    return folder


def requirements(package: str, extra: str) -> set[str]:
    """The packages that a package requires, as `name` or `name+extra`, with one of its extras."""
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
