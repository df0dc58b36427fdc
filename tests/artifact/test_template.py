"""The template is read as AWS does."""

from __future__ import annotations

import json

from tests.artifact.template import Template
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
