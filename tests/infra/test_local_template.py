"""The template in the package, and the program for its creation."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from infra import local_template
from infra.local_template import PATH, Template, normalized, rendered

ASSET_HASH = re.compile(r"(?<=/)[0-9a-f]{64}(?=\.py|\.zip)")


def test_the_template_in_the_package_is_current(template: Template) -> None:
    assert PATH.read_text(encoding="utf-8") == rendered(template), "run `python -m infra.local_template`"


def test_the_template_in_the_package_is_small() -> None:
    assert PATH.stat().st_size < 200_000


def test_asset_hashes_metadata_and_bootstrapping_leave_no_trace(template: Template) -> None:
    assert set(normalized(template)) == {"AWSTemplateFormatVersion", "Description", "Outputs", "Resources"}
    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        resource["Metadata"] = {"aws:cdk:path": "elsewhere"}
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Code"] = {"S3Bucket": "another", "S3Key": "0123.zip"}
    changed["Resources"] = json.loads(ASSET_HASH.sub("f" * 64, json.dumps(changed["Resources"])))
    changed["Resources"]["CDKMetadata"] = {"Type": "AWS::CDK::Metadata"}
    assert rendered(changed) == rendered(template)


def test_a_change_of_the_stack_changes_the_text(template: Template) -> None:
    changed = copy.deepcopy(template)
    next(iter(changed["Resources"].values()))["Properties"]["New"] = 1
    assert rendered(changed) != rendered(template)


def test_check_fails_on_a_stale_file_and_says_what_to_do(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "local" / "template.json"
    monkeypatch.setattr(local_template, "PATH", path)
    monkeypatch.setattr(local_template, "synthesize", lambda: template)
    assert local_template.main(["--check"]) == 1
    assert "python -m infra.local_template" in capsys.readouterr().err
    assert local_template.main([]) == 0
    assert json.loads(path.read_text(encoding="utf-8")) == normalized(template)
    assert local_template.main(["--check"]) == 0
