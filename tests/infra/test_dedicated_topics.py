"""The resources for topics with dedicated ingest queues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import REPOSITORY
from tests.infra.variants import template_of
from tidewheel.cdk.environment import MAX_DEDICATED_TOPICS
from tidewheel.model.settings import ServiceSettings

if TYPE_CHECKING:
    from tests.infra.conftest import StackTemplate

LONGEST = {
    "AWS::StackName": "s" * 48,
    "AWS::Partition": "aws",
    "AWS::Region": "ap-southeast-1",
    "AWS::AccountId": "1" * 12,
}
LONGEST_QUEUE_URL = f"https://sqs.ap-southeast-1.amazonaws.com/{'1' * 12}/{'q' * 80}"
PARAMETER_BYTES = VARIABLES_BYTES = 4096
"""The most that SSM's standard parameters and a function's variables hold."""


@pytest.fixture(scope="module")
def stack() -> StackTemplate:
    """The stack without dedicated topics, with a KMS key like `dedicated`."""
    from tests.infra.conftest import StackTemplate

    return StackTemplate(template_of("development with a key"))


@pytest.fixture(scope="module")
def dedicated() -> StackTemplate:
    """The stack with as many topics as can have queues of their own, with the longest names, and "Default"."""
    from tests.infra.conftest import StackTemplate

    return StackTemplate(template_of("as many topics as can have queues of their own"))


def test_a_topics_queues_are_read_and_made_like_the_shared_ones(stack: StackTemplate, dedicated: StackTemplate) -> None:
    shared, mappings = stack.mappings(), dedicated.mappings()
    for kind in ("UrgentQueue", "BulkQueue"):
        like = shared[f"Ingestion{kind}"]
        [own] = [mapping for name, mapping in mappings.items() if name == f"IngestionTopicDefault{kind}"]
        assert {**own, "EventSourceArn": None} == {**like, "EventSourceArn": None}
        made, wanted = (
            s.one("AWS::SQS::Queue", f"Ingestion{n}{kind}") for s, n in ((dedicated, "TopicDefault"), (stack, ""))
        )
        assert {**made, "RedrivePolicy": None} == {**wanted, "RedrivePolicy": None}
        target = made["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
        assert target.startswith(f"IngestionTopicDefault{kind}DeadLetters")


def test_topics_with_queues_of_their_own_change_nothing_else(stack: StackTemplate, dedicated: StackTemplate) -> None:
    kept = stack.of_type("AWS::SQS::Queue")
    queues = dedicated.of_type("AWS::SQS::Queue")
    assert {name: queues[name] for name in kept} == kept
    assert len(queues) - len(kept) == 4 * MAX_DEDICATED_TOPICS
    assert len(dedicated.mappings()) - len(stack.mappings()) == 2 * MAX_DEDICATED_TOPICS


def test_the_settings_name_the_queues_and_fit_for_as_many_topics_as_are_allowed(dedicated: StackTemplate) -> None:
    parameter = json.loads(longest(settings_of(dedicated)))
    variables = dedicated.functions()["ingest"]["Environment"]["Variables"]
    settings = ServiceSettings.from_mapping(parameter, "the parameter")
    assert len(settings.topic_queues) == MAX_DEDICATED_TOPICS
    assert set(settings.topic_queues["Default"]) == {LONGEST_QUEUE_URL}
    assert json.loads(longest(variables["TIDEWHEEL_TOPIC_QUEUES"])) == json.loads(parameter["topic_queues"])
    assert len(longest(settings_of(dedicated))) < PARAMETER_BYTES
    assert sum(len(name) + len(longest(value)) for name, value in variables.items()) < VARIABLES_BYTES


def settings_of(stack: StackTemplate) -> Any:
    """The value of the parameter with the settings."""
    return stack.one("AWS::SSM::Parameter", "Settings")["Value"]


def longest(value: Any) -> str:
    """Returns the text of a value with every name at its maximum length."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        name = value["Ref"]
        return LONGEST.get(name) or (LONGEST_QUEUE_URL if "Queue" in name else "x" * 63)
    if "Fn::GetAtt" in value:
        return "arn:aws:sqs:ap-southeast-1:" + "1" * 12 + ":" + "x" * 80
    return "".join(longest(part) for part in value["Fn::Join"][1])


def test_the_document_of_limits_says_how_many_topics_can_have_queues_of_their_own() -> None:
    text = (REPOSITORY / "docs" / "capacity.md").read_text(encoding="utf-8")
    assert f"| `dedicated_topics` | {MAX_DEDICATED_TOPICS}: " in text
