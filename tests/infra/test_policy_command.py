"""The command that prints IAM statements, over a stack with dedicated ingest queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.infra.variants import DEDICATED, MINE, local_template_of
from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.client.operations.dead_letters import service_dead_letters
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel
from tidewheel.model.settings import DELIVERY_ROLES, ServiceSettings, parameter_name
from tidewheel.policies import (
    address_arn,
    administrator_statements,
    consumer_statements,
    sender_statements,
    source_key_statements,
    source_statements,
    viewer_statements,
)

SHARED = "invoices"
ARN = "arn:aws:sqs:us-east-1:123456789012:mine"


@dataclass(frozen=True, kw_only=True)
class Here(Target):
    """The local stack as the command line's target."""

    local: LocalTidewheel

    def client(self, session: Any = None) -> Tidewheel:
        return Tidewheel(self.stack, session=session or self.session(), clock=self.local.clock)

    def session(self) -> Any:
        return self.local.session


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    """A local stack with two topics. Only one of the topics has its own queues."""
    with LocalTidewheel(template=local_template_of(DEDICATED)) as opened:
        for topic in (MINE, SHARED):
            opened.client().create_topic(topic)
            opened.client().create_subscription(topic, "mail")
        yield opened


def run(stack: LocalTidewheel, *arguments: str, name: str = "tidewheel") -> Result:
    return CliRunner().invoke(app, ["policy", *arguments], obj=Here(local=stack, stack=name))


def decrypted(result: Result) -> set[str]:
    """The keys with permission to decrypt in a printed policy."""
    statements = json.loads(result.stdout)["Statement"]
    return {key for each in statements if "kms:Decrypt" in each["Action"] for key in each["Resource"]}


def test_the_command_prints_the_statements_with_the_values_of_the_stack(stack: LocalTidewheel) -> None:
    [subscription] = stack.client().subscriptions(MINE)
    parameter = stack.session.client("ssm").get_parameter(Name=parameter_name("tidewheel"))
    settings = ServiceSettings.from_json(parameter["Parameter"]["Value"], "the parameter")
    sender = run(stack, "sender", MINE, "--action", "send", "--json")
    assert json.loads(sender.stdout)["Statement"] == sender_statements(settings, MINE, actions=("send",))
    consumer = run(stack, "consumer", MINE, "mail")
    expected = consumer_statements(settings, MINE, subscription.queue_url, subscription="mail")
    assert json.loads(consumer.stdout)["Statement"] == expected
    administrator = run(stack, "administrator")
    dead = service_dead_letters(stack.session.client("sqs"), settings)
    assert len(dead) == len(settings.own_queue_urls)
    expected = administrator_statements(settings, dead_letter_queues=dead)
    assert json.loads(administrator.stdout)["Statement"] == expected
    assert json.loads(run(stack, "viewer").stdout)["Statement"] == viewer_statements(settings)
    viewer = run(stack, "viewer", "--queue", ARN, "--queue", f"{ARN}-dead", "--json")
    assert json.loads(viewer.stdout)["Statement"] == viewer_statements(settings, queues=[ARN, f"{ARN}-dead"])
    [statement] = json.loads(run(stack, "queue", ARN).stdout)["Statement"]
    assert len(statement["Principal"]["AWS"]) == DELIVERY_ROLES
    assert all(":role/tidewheel-" in role for role in statement["Principal"]["AWS"])
    assert sender.stderr == consumer.stderr == ""


def test_a_consumer_gets_the_key_behind_its_queues_alias_and_none_where_it_is_awss_own_or_not_told(
    stack: LocalTidewheel,
) -> None:
    [subscription] = stack.client().subscriptions(MINE)
    sqs, kms = stack.session.client("sqs"), stack.session.client("kms")
    key = kms.create_key()["KeyMetadata"]["Arn"]
    kms.create_alias(AliasName="alias/my-key", TargetKeyId=key)
    of_account = key.partition("key/")[0]
    url = subscription.queue_url
    services = decrypted(run(stack, "consumer", MINE, "mail"))
    try:
        for named, needed in (
            (key, key),
            ("alias/my-key", key),
            (f"{of_account}alias/my-key", key),
            ("alias/aws/sqs", None),
            (f"{of_account}alias/aws/sqs", None),
            ("alias/gone", None),
        ):
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": named})
            told = run(stack, "consumer", MINE, "mail")
            assert decrypted(told) == services | ({needed} - {None}), named
            assert ("AWS does not tell the KMS key of" in told.stderr) is ("gone" in named)
    finally:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": ""})


SNS = "arn:aws:sns:us-east-1:123456789012:sales"


def test_the_policy_of_the_address_keeps_its_statements_and_lets_a_source_send_once(stack: LocalTidewheel) -> None:
    settings = stack.client().core.connection.settings
    sqs, url = stack.session.client("sqs"), settings.address(MINE)
    asked = run(stack, "address", SNS, "--topic", MINE, "--json")
    before = json.loads(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"])
    [*kept, added] = json.loads(asked.stdout)["Statement"]
    assert kept == before["Statement"] and [added] == source_statements(address_arn(settings, MINE), [SNS])
    assert f"the policy of the key {settings.encryption_key_arn} needs" in asked.stderr
    assert json.dumps(source_key_statements([SNS])) in asked.stderr
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": asked.stdout})
    try:
        again = run(stack, "address", SNS, "--topic", MINE, "--json")
        assert json.loads(again.stdout)["Statement"] == [*kept, added]
    finally:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(before)})


def test_the_command_warns_where_permission_to_send_is_for_more_than_the_topic(stack: LocalTidewheel) -> None:
    assert "EVERY topic" in run(stack, "sender", SHARED).stderr
    assert run(stack, "sender", MINE).stderr == ""


def test_the_command_says_what_is_wrong(stack: LocalTidewheel) -> None:
    for arguments, problem in (
        (("queue", ARN + ".fifo"), "use a standard queue"),
        (("sender", MINE, "--action", "fly"), "give some of send"),
        (("consumer", MINE, "nobody"), "has no subscription 'nobody'"),
    ):
        result = run(stack, *arguments)
        assert result.exit_code == 1 and problem in result.stderr
    result = run(stack, "administrator", name="elsewhere")
    assert result.exit_code == 1 and "no SSM parameter /tidewheel/elsewhere/settings" in result.stderr
