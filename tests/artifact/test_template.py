"""The template is read as AWS does, and refused if the archive does not match."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.artifact.template import Template, TemplateRefused, check_handler
from tests.interpreter import functions_machine, python_of
from tidewheel.local.deployment import PACKAGED

DOCUMENT = json.loads(PACKAGED.read_text(encoding="utf-8"))
HANDLERS = {"ingest", "dispatch", "deliver", "sweep", "compact"}


def changed(function: str, **properties: Any) -> Template:
    """Returns the template with other properties for a function."""
    document = copy.deepcopy(DOCUMENT)
    for resource in document["Resources"].values():
        handler = resource["Properties"].get("Handler", "")
        if resource["Type"] == "AWS::Lambda::Function" and handler.split(".")[1:2] == [function]:
            resource["Properties"] |= properties
    return Template(document)


def test_all_that_lambda_needs_is_read() -> None:
    functions = {each.folder: each for each in Template(DOCUMENT).functions()}
    assert functions.keys() == HANDLERS
    dispatch = functions["dispatch"]
    assert dispatch.name == "tidewheel-dispatch" and dispatch.timeout_s > 60 and dispatch.memory_mb >= 512
    assert dispatch.environment["TIDEWHEEL_DISPATCH_ARN"] == dispatch.arn
    assert dispatch.async_retries == 2 and dispatch.on_failure_arn is not None
    by_batch = {each.batch_size: each for each in Template(DOCUMENT).mappings()}
    assert by_batch.keys() == {1, 10, 10_000}
    assert by_batch[10_000].window_ms == 300_000 and by_batch[10].window_ms == 0
    assert all(each.reports_failures for each in by_batch.values())


def test_another_python_than_the_tested_one_is_refused_by_name() -> None:
    with pytest.raises(TemplateRefused, match=r"tidewheel-sweep: the template says python3\.12, and python3\.13"):
        changed("sweep", Runtime="python3.12").functions()


def test_a_handler_that_is_not_in_the_archive_is_refused_by_name(tmp_path: Path) -> None:
    handler = tmp_path / "functions" / "ingest" / "handler.py"
    handler.parent.mkdir(parents=True)
    handler.write_text("def other(event, context): ...\n")
    for wrong, message in (
        ("functions.swallow.handler.handler", r"tidewheel-ingest: the archive has no functions/swallow/handler\.py"),
        (
            "functions.ingest.handler.handler",
            r"tidewheel-ingest: functions\.ingest\.handler in the archive has no handler",
        ),
    ):
        [spec] = [each for each in changed("ingest", Handler=wrong).functions() if each.name == "tidewheel-ingest"]
        with pytest.raises(TemplateRefused, match=message):
            check_handler(spec, tmp_path)


def test_a_reference_to_nothing_is_refused_by_name() -> None:
    with pytest.raises(TemplateRefused, match="Nowhere"):
        Template(DOCUMENT).resolve({"Fn::Join": ["", ["a", {"Ref": "Nowhere"}]]})


def test_ci_fails_where_the_functions_python_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    machine = replace(functions_machine(), python="3.99")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"Python 3\.99 .* this machine has none"):
        python_of(machine)
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match=r"Python 3\.99 .* this machine has none"):
        python_of(machine)
