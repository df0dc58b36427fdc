"""The bundle's contents, as far as they can be known without PyPI."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from infra import application
from tidewheel.cdk import bundling
from tidewheel.cdk.bundling import PACKAGES, ROOT, BundleFailed, glue_modules, locked


def test_the_packages_are_all_that_the_lambda_extra_needs() -> None:
    needed = requirements("tidewheel", "lambda")
    waiting = list(needed)
    while waiting:
        name, _, extra = waiting.pop().partition("+")
        new = requirements(name, extra) - needed
        needed |= new
        waiting.extend(new)
    assert {name.partition("+")[0] for name in needed} == set(PACKAGES)


def test_the_cdk_has_the_functions_bundled_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(target: Path) -> None:
        written.append(target)
        (target / "one.py").touch()

    monkeypatch.setattr(bundling, "write_bundle", write)
    monkeypatch.setattr(bundling, "write_wheel", lambda target: (target / "tidewheel.zip").touch())
    application.build_app(outdir=str(tmp_path), overrides={application.BUNDLING_STACKS: ["**"]}).synth()
    assert len(written) == 1
    [asset] = [path for path in tmp_path.glob("asset.*") if path.is_dir()]
    assert [path.name for path in asset.iterdir()] == ["one.py"]


def test_the_jobs_get_the_wheel_as_one_file_that_ends_in_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "write_bundle", lambda target: (target / "one.py").touch())
    application.build_app(outdir=str(tmp_path), overrides={application.BUNDLING_STACKS: ["**"]}).synth()
    files = json.loads((tmp_path / "tidewheel.assets.json").read_text())["files"].values()
    [archive] = [each for each in files if each["source"]["path"].endswith(".zip")]
    assert archive["source"]["packaging"] == "file"
    [destination] = archive["destinations"].values()
    template = (tmp_path / "tidewheel.template.json").read_text()
    assert destination["objectKey"].endswith(".zip") and destination["objectKey"] in template
    names = ZipFile(tmp_path / archive["source"]["path"]).namelist()
    assert "tidewheel/__init__.py" in names and "tidewheel/_glue_jobs/merge_buckets.py" in names


def test_the_same_source_gives_the_same_wheel(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    bundling.write_wheel(tmp_path / "a")
    bundling.write_wheel(tmp_path / "b")
    assert (tmp_path / "a" / "tidewheel.zip").read_bytes() == (tmp_path / "b" / "tidewheel.zip").read_bytes()


def test_jobs_get_the_pinned_versions_of_what_glue_lacks() -> None:
    versions = [module.partition("==") for module in glue_modules().split(",")]
    assert [name for name, _, _ in versions] == ["pyarrow", "pyroaring"]
    assert all(re.fullmatch(r"[\d.]+", version) for _, _, version in versions)


def test_every_package_is_pinned_with_its_hashes() -> None:
    text = locked(PACKAGES, (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    pinned = dict.fromkeys(re.findall(r"^(\S+)==\S+ \\\n    --hash=sha256:", text, re.MULTILINE))
    assert tuple(pinned) == PACKAGES
    assert "# via" not in text


def test_a_package_that_is_not_locked_is_named() -> None:
    with pytest.raises(BundleFailed, match="no-such-package"):
        locked(["no-such-package"], "boto3==1.0 \\\n    --hash=sha256:00\n")


@pytest.mark.parametrize(
    ("variable", "stacks"),
    [({"TIDEWHEEL_BUNDLE": "1"}, ["**"]), ({"TIDEWHEEL_BUNDLE": "0"}, []), ({}, None)],
)
def test_the_command_line_decides_on_bundling_unless_the_variable_does(
    variable: dict[str, str], stacks: list[str] | None
) -> None:
    assert application._bundling_context(variable).get(application.BUNDLING_STACKS) == stacks


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
