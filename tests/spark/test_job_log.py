"""The log of a job on Glue."""

from __future__ import annotations

import json

import pytest

from tidewheel.jobs.job import parse_arguments, structured


def test_a_job_on_glue_logs_json_with_the_keys_of_the_functions_logs(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--JOB_NAME", "tidewheel-merge", "--JOB_RUN_ID", "jr_1", "--stack", "tidewheel", "--topic", "orders"]
    structured(parse_arguments(argv))("merging 3 ledgers")
    assert json.loads(capsys.readouterr().out) == {
        "level": "INFO",
        "message": "merging 3 ledgers",
        "service": "tidewheel-merge",
        "stack": "tidewheel",
        "topic": "orders",
        "correlation_id": "jr_1",
    }
