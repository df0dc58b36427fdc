"""The bundle's contents, as far as they can be known without PyPI."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from infra import application, bundling
from infra.bundling import PACKAGES, ROOT, BundleFailed, locked


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
    application.build_app(outdir=str(tmp_path), overrides={application.BUNDLING_STACKS: ["**"]}).synth()
    assert len(written) == 1
    [asset] = tmp_path.glob("asset.*")
    assert [path.name for path in asset.iterdir()] == ["one.py"]


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
