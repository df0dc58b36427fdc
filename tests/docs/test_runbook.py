"""Runs the instructions of docs/runbook.md on the local stack."""

from __future__ import annotations

import json
from typing import Any

from tests.docs.shell import commands
from tidewheel.local import LocalTidewheel

MADE_BY_US = ("MessageRetentionPeriod", "VisibilityTimeout", "RedrivePolicy")


def test_a_queue_that_is_made_again_has_the_attributes_and_tags_that_ours_had() -> None:
    [command] = [each for each in commands("aws sqs create-queue") if each.document.name == "runbook.md"]
    given = dict(zip(command.words[3::2], command.words[4::2], strict=True))
    with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
        client, sqs = stack.client(), stack.session.client("sqs")
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        url = client.subscriptions("orders")[0].queue_url

        def described() -> tuple[dict[str, Any], dict[str, str]]:
            found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            mine: dict[str, Any] = {name: found[name] for name in MADE_BY_US}  # type: ignore[index]
            return mine | {"RedrivePolicy": json.loads(mine["RedrivePolicy"])}, sqs.list_queue_tags(QueueUrl=url)[
                "Tags"
            ]

        before = described()
        sqs.delete_queue(QueueUrl=url)
        stack.advance(minutes=2)
        again = sqs.create_queue(
            QueueName=given["--queue-name"],
            Attributes=json.loads(given["--attributes"]),
            tags=json.loads(given["--tags"]),
        )
        assert again["QueueUrl"] == url
        assert described() == before
