"""Glue jobs that import ledgers, merge ledgers, and rebuild the index."""

from __future__ import annotations

import json

import pytest

from tests.e2e.stage import Stage
from tests.flows.alone import local_engine
from tidewheel.aws.service import Service
from tidewheel.flows.recovery.audit import audit
from tidewheel.flows.recovery.rebuild_report import RebuildReport
from tidewheel.model.message import Receipt
from tidewheel.model.settings import ServiceSettings, parameter_name

TOPIC, READER = "imported", "reader"
DUE_S = 45 * 60
"""Later than all four jobs need on Glue."""
FAR_S = 3 * 86_400
"""Ledgers that end soon are not merged."""


def audited(stage: Stage) -> RebuildReport:
    """Compares the index of the topic with the ledgers, with the caller's own permissions."""
    name = parameter_name(stage.cloud.stack_name)
    text = stage.cloud.session.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    service = Service.of(ServiceSettings.from_json(text, name), stage.cloud.session, stage.cloud.clock)
    return audit(service, TOPIC, local_engine(service))


@pytest.mark.long
def test_what_was_imported_merged_and_rebuilt_on_glue_arrives_in_time(stage: Stage) -> None:
    stage.topic(TOPIC)
    stage.subscribe(TOPIC, READER)
    now_ms = stage.cloud.clock.now_ms()
    for name in ("first", "second"):
        due = {f"{name} {i}": now_ms + (DUE_S + i) * 1000 for i in range(30)}
        rows = [{"deliver_at": at_ms, "body": body} for body, at_ms in due.items()]
        rows.append({"deliver_at": now_ms + FAR_S * 1000, "body": f"{name} far"})
        file = stage.cloud.file(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        stage.cloud.run_job("import_messages", topic=TOPIC, input=file, min_lead="5m")
        ids = {each.body: each.id for each in stage.client.peek(TOPIC, n=100)}
        for body, at_ms in due.items():
            stage.expect(Receipt(id=ids[body], topic=TOPIC, deliver_at_ms=at_ms), body, READER)
    assert stage.client.stats(TOPIC).waiting == 62

    stage.cloud.run_job("merge_buckets", topic=TOPIC, all="true")
    assert stage.client.stats(TOPIC).buckets == 1
    before = audited(stage)
    assert before.agrees and before.rows == 62

    stage.cloud.run_job("rebuild_index", topic=TOPIC, replace="true")
    after = audited(stage)
    assert after.agrees and after.rows == 62
    stage.settle()
    stage.client.purge(TOPIC)
