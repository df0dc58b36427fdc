"""The template is read as AWS does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.artifact.template import Template
from tests.interpreter import functions_machine, python_of
from tidewheel.local.deployment import PACKAGED

DOCUMENT = json.loads(PACKAGED.read_text(encoding="utf-8"))
HANDLERS = {"ingest", "dispatch", "deliver", "sweep", "compact"}


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
