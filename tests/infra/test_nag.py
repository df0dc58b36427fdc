"""Each finding of cdk-nag (AWS Solutions) has a reason, and each reason a finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aws_cdk import App
from cdk_nag import AwsSolutionsChecks

from infra.application import BUNDLING_STACKS, DEFAULT_STACK, build_app
from tests.infra.variants import SAMPLED_VARIANTS, environment_of
from tidewheel.cdk import nag_suppressions
from tidewheel.cdk.environment import Environment

ACKNOWLEDGED = "aws:cdk:acknowledged-rules"

Finding = tuple[str, str]
"""The path of a construct, and the id of a rule."""


@pytest.mark.parametrize("variant", SAMPLED_VARIANTS)
def test_every_finding_has_a_reason_and_every_reason_a_finding(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = acknowledgements(app_of(environment_of(variant), tmp_path / "with"), tmp_path / "with")
    monkeypatch.setattr(nag_suppressions, "Validations", Deaf)
    found = findings(app_of(environment_of(variant), tmp_path / "without"))
    assert found, "cdk-nag finds nothing at all: does it run?"

    def acknowledges(reason: Finding, finding: Finding) -> bool:
        return reason[1] == finding[1] and f"{finding[0]}/".startswith(f"{reason[0]}/")

    assert {each for each in found if not any(acknowledges(reason, each) for reason in given)} == set()
    assert {each for each in given if not any(acknowledges(each, finding) for finding in found)} == set()
    assert all(len(reason.split()) > 5 for reason in given.values())


@pytest.mark.long
def test_synthesis_fails_on_a_finding_when_the_app_is_asked_to_check_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of("development")
    app_of(environment, tmp_path / "explained", nag=True).synth()
    monkeypatch.setattr(nag_suppressions, "Validations", Deaf)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app_of(environment, tmp_path / "found", nag=True).synth()
    assert "AwsSolutions-S1" in (tmp_path / "found" / "validation-report.json").read_text(encoding="utf-8")


class Deaf:
    """Stands for the CDK's `Validations` and hears no acknowledgement."""

    @classmethod
    def of(cls, _: object) -> Deaf:
        return cls()

    def acknowledge(self, *_: object) -> None:
        pass


def app_of(environment: Environment, folder: Path, *, nag: bool = False) -> App:
    """Returns the app with one environment, before synthesis."""
    return build_app(
        outdir=str(folder), overrides={BUNDLING_STACKS: [], "stack": DEFAULT_STACK, "nag": nag}, environment=environment
    )


def findings(app: App) -> set[Finding]:
    """Returns the unacknowledged findings of cdk-nag."""
    report = AwsSolutionsChecks(app).validate_scope(app)
    return {
        (resource.construct_path, violation.rule_name)
        for violation in report.violations
        for resource in violation.violating_resources
    }


def acknowledgements(app: App, folder: Path) -> dict[Finding, str]:
    """Returns the acknowledged findings with their reasons."""
    app.synth()
    metadata = json.loads((folder / f"{DEFAULT_STACK}.metadata.json").read_text(encoding="utf-8"))
    return {
        (path.removeprefix("/"), rule.removeprefix("Annotation::")): reason
        for path, entries in metadata.items()
        for entry in entries
        if entry["type"] == ACKNOWLEDGED
        for rule, reason in entry["data"].items()
    }
