"""The constructs in another team's stack, with names, properties and grants."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, CfnOutput, Duration, NestedStack, RemovalPolicy, Stack
from aws_cdk import Environment as Place
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as sns_subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.application import BUNDLING_STACKS
from infra.local_template import Template
from tests.infra.resolved import comparable, resolved, settings_of, statements_of
from tidewheel.cdk import Environment, Subscription, TidewheelService, Topic
from tidewheel.cdk.topics import SubscriptionProperties, TopicProperties
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import ChangeableSubscriptionSettings, ServiceSettings, TuningSettings
from tidewheel.policies import (
    CONSUMER_ACTIONS,
    administrator_statements,
    consumer_statements,
    sender_statements,
    viewer_statements,
)

DEVELOPMENT = Environment.development()
LAMBDA = "AWS::Lambda::Function"


def app() -> App:
    return App(analytics_reporting=False, context={BUNDLING_STACKS: []})


def synthesized(make: Callable[[Stack], object], *, name: str = "shop") -> Template:
    """Returns the template of another team's stack."""
    scope = app()
    make(Stack(scope, name))
    template: Template = scope.synth().get_stack_by_name(name).template
    return template


def annotations(scope: App, level: str) -> list[str]:
    """Returns annotations of the stack ``shop`` at the level ``info``, ``warning`` or ``error``.

    It is read from the assembly's file. ``CloudFormationStackArtifact.messages`` needs jsii types of a module that
    aws-cdk-lib and aws-cdk.cloud-assembly-schema both install, so what it gives depends on which came last.
    """
    told = json.loads((Path(scope.synth().directory) / "shop.metadata.json").read_text())
    return [str(each["data"]) for found in told.values() for each in found if each["type"] == f"aws:cdk:{level}"]


def service_in(stack: Stack, **props: Any) -> TidewheelService:
    return TidewheelService(stack, "Reminders", **{"environment": DEVELOPMENT, **props})


@cache
def plain() -> Template:
    """A service without options."""
    return synthesized(service_in)


def role(stack: Stack, name: str) -> iam.Role:
    return iam.Role(stack, name, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


def of_type(template: Template, type_: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template["Resources"].values() if each["Type"] == type_]


# ---- names


def names_in(template: Template) -> set[str]:
    """Returns all explicit names of resources."""
    keys = ("FunctionName", "LogGroupName", "Name", "GroupName", "TableName", "DashboardName")
    found = {
        resolved(template, each["Properties"][key])
        for each in template["Resources"].values()
        if each["Type"].startswith(
            ("AWS::Lambda::Function", "AWS::Glue::Job", "AWS::Logs", "AWS::SSM", "AWS::Scheduler")
        )
        for key in keys
        if key in each.get("Properties", {})
    }
    databases = [resolved(template, each["DatabaseInput"]["Name"]) for each in of_type(template, "AWS::Glue::Database")]
    return {name for name in {*found, *databases} if name != "sweep"}


def test_everything_that_is_named_has_its_name_from_the_services() -> None:
    names = names_in(synthesized(lambda stack: service_in(stack, service_name="late-notes")))
    assert names > {"late-notes-dispatch", "late-notes-merge", "late-notes", "late_notes"}
    assert "/tidewheel/late-notes/settings" in names
    assert [name for name in names if not any(text in name for text in ("late-notes", "late_notes"))] == []


def test_without_a_name_the_service_is_called_like_the_stack() -> None:
    assert settings_of(plain(), "shop").stack == "shop"
    assert [name for name in names_in(plain()) if "shop" not in name] == []


@cache
def two_services() -> Template:
    """Two services with the same topics, one key, and a queue that both send to."""

    def make(stack: Stack) -> None:
        key, queue = kms.Key(stack, "Key"), sqs.Queue(stack, "Queue")
        for name in ("one", "two"):
            service = TidewheelService(stack, name, service_name=name, environment=DEVELOPMENT, encryption_key=key)
            # Names that differ in a hyphen only, or where the subscription's begins.
            for topic_name in ("a-b", "ab"):
                topic = service.add_topic(topic_name)
                topic.add_subscription("c")
                topic.add_subscription("bc")
            service.add_topic("orders").add_subscription("mail", queue=queue)

    return synthesized(make)


def test_two_services_fit_into_one_stack() -> None:
    functions = [resolved(two_services(), each["FunctionName"]) for each in of_type(two_services(), LAMBDA)]
    assert len(functions) == len(set(functions)) == 12
    assert settings_of(two_services(), "one").table != settings_of(two_services(), "two").table
    ids = declared_ids(two_services())
    assert (len(set(ids["Topic"])), len(set(ids["Subscription"]))) == (6, 10)


@pytest.mark.long
def test_two_services_of_one_name_in_one_stack_are_refused() -> None:
    def make(*names: str | None) -> None:
        synthesized(lambda stack: [TidewheelService(stack, f"S{n}", service_name=x) for n, x in enumerate(names)])

    for names in ((None, None), ("late", "late"), (None, "shop")):
        with pytest.raises(InvalidValue, match=r"service_name='(shop|late)': another service of this stack has it"):
            make(*names)


@pytest.mark.long
def test_a_service_without_a_name_is_called_like_its_own_stack_in_every_template() -> None:
    scope = app()
    keys = Stack(scope, "keys")
    service = service_in(Stack(scope, "shop"), encryption_key=kms.Key(keys, "Key"))
    theirs = Stack(scope, "theirs")
    service.grant_send(role(theirs, "Sender"), "orders")
    service.grant_administer(role(theirs, "Admin"))
    CfnOutput(theirs, "Service", value=service.service_name)
    CfnOutput(service, "Service", value=service.service_name)
    assembly = scope.synth()
    shop, other, key = (assembly.get_stack_by_name(name).template for name in ("shop", "theirs", "keys"))
    assert [each["Value"] for each in other["Outputs"].values()] == ["shop"]
    assert {"Ref": "AWS::StackName"} in [each["Value"] for each in shop["Outputs"].values()]
    assert "parameter/tidewheel/shop/settings" in json.dumps(other)
    assert "log-group:/aws/lambda/shop-*" in json.dumps(key)
    assert "AWS::StackName" not in json.dumps([other, key])


# ---- properties


@pytest.mark.long
def test_the_dead_letters_of_a_declared_subscription_ring_and_are_on_the_dashboard() -> None:
    def make(stack: Stack) -> None:
        service = service_in(stack, environment=Environment.production(dashboard=True))
        orders = service.add_topic("orders")
        for name in ("mail", "audit", "old-mail"):
            orders.add_subscription(name)
        service.add_topic("orders-old").add_subscription("mail")
        orders.add_subscription("theirs", queue=sqs.Queue(stack, "Theirs"))

    template = synthesized(make)
    alarms = {
        str(each["AlarmName"]["Fn::Join"][1][-1]).removeprefix("-DeadLetters-"): each
        for each in of_type(template, "AWS::CloudWatch::Alarm")
        if "DeadLetters-" in str(each["AlarmName"])
    }
    assert sorted(alarms) == ["orders-old.mail", "orders.audit", "orders.mail", "orders.old-mail"]
    assert all(each["AlarmDescription"].endswith("#dead-letters-of-a-subscription") for each in alarms.values())
    assert all(len(each["AlarmActions"]) == 1 for each in alarms.values())
    [dashboard] = of_type(template, "AWS::CloudWatch::Dashboard")
    shown = json.dumps(dashboard["DashboardBody"])
    assert shown.count("Do consumers keep up?") == 1
    assert shown.count("orders/mail") == shown.count("orders/audit") == 2 and "orders/theirs" not in shown


def test_a_service_is_production_unless_it_is_told_otherwise() -> None:
    template = synthesized(lambda stack: TidewheelService(stack, "Reminders"))
    [table] = [each for each in template["Resources"].values() if each["Type"] == "AWS::DynamoDB::Table"]
    assert table["DeletionPolicy"] == "Retain" and table["Properties"]["DeletionProtectionEnabled"] is True


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"service_name": "late notes"}, r"service_name='late notes': use 1 to 48 letters, digits and '-'"),
        ({"service_name": "9"}, "service_name='9': use 1 to 48"),
        ({"service_name": "n" * 49}, "service_name='n+': use 1 to 48"),
        ({"environment": "production"}, r"environment='production': give Environment.production\(\)"),
        ({"encryption_key": "arn:aws:kms:x"}, "encryption_key='arn:aws:kms:x': import it: kms.Key.from_key_arn"),
        ({"alarm_topic": "arn:aws:sns:x"}, "alarm_topic='arn:aws:sns:x': import it: sns.Topic.from_topic_arn"),
    ],
)
def test_a_property_that_cannot_be_is_refused_at_synthesis(props: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        synthesized(lambda stack: service_in(stack, **props))


@pytest.mark.parametrize(
    "alias",
    [
        lambda stack: kms.Alias.from_alias_name(stack, "Alias", "alias/own"),
        lambda stack: kms.Alias(stack, "Alias", alias_name="own", target_key=kms.Key(stack, "Key")),
    ],
)
def test_an_alias_is_no_key_that_encrypts(alias: Callable[[Stack], kms.IKey]) -> None:
    with pytest.raises(InvalidValue, match=r"encryption_key='shop/Alias': .* need the key itself"):
        synthesized(lambda stack: service_in(stack, encryption_key=alias(stack)))


@pytest.mark.long
def test_what_two_services_add_to_the_policy_of_their_one_key_or_queue_has_no_sid_twice() -> None:
    [key] = of_type(two_services(), "AWS::KMS::Key")
    policies = [each["PolicyDocument"] for each in of_type(two_services(), "AWS::SQS::QueuePolicy")]
    for policy in (key["KeyPolicy"], *policies):
        sids = [each["Sid"] for each in policy["Statement"] if "Sid" in each]
        assert len(sids) == len(set(sids))
    senders = [
        each["Principal"]
        for policy in policies
        for each in policy["Statement"]
        if each["Action"] == "sqs:SendMessage" and each["Effect"] == "Allow" and "AWS" in each["Principal"]
    ]
    assert "oneDelivery" in json.dumps(senders) and "twoDelivery" in json.dumps(senders)
    assert all(f"/aws/lambda/{name}-*" in json.dumps(key["KeyPolicy"]) for name in ("one", "two"))


def test_a_service_warns_of_nothing_at_synthesis() -> None:
    scope = app()
    service_in(Stack(scope, "shop"))
    assert annotations(scope, "warning") == annotations(scope, "error") == []


def test_a_key_of_the_environment_and_one_of_the_app_exclude_each_other() -> None:
    with pytest.raises(InvalidValue, match=r"environment='development': .*encryption_key is given as well"):
        synthesized(
            lambda stack: service_in(
                stack, environment=Environment.development(own_key=True), encryption_key=kms.Key(stack, "Key")
            )
        )


def test_a_nested_stack_and_one_with_a_long_name_need_a_name_for_the_service() -> None:
    with pytest.raises(InvalidValue, match=r"service_name=None: the stack is nested, .* give service_name="):
        synthesized(lambda stack: service_in(NestedStack(stack, "Nested")))
    with pytest.raises(InvalidValue, match=r"service_name='s+': the stack's name"):
        synthesized(service_in, name="s" * 49)


def test_alarms_go_to_the_topic_that_is_given_and_its_key_lets_alarms_and_rules_use_it() -> None:
    def on_call(stack: Stack) -> object:
        topic = sns.Topic(stack, "OnCall", master_key=kms.Key(stack, "OnCallKey"))
        return service_in(stack, alarm_topic=topic)

    template = synthesized(on_call)
    [topic] = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::SNS::Topic"]
    assert topic.startswith("OnCall")
    told = [action for each in of_type(template, "AWS::CloudWatch::Alarm") for action in each.get("AlarmActions", [])]
    assert all(action == {"Ref": topic} for action in told)

    [key] = of_type(template, "AWS::KMS::Key")
    users = {
        each["Principal"]["Service"]: each for each in key["KeyPolicy"]["Statement"] if "Service" in each["Principal"]
    }
    assert set(users) == {"cloudwatch.amazonaws.com", "events.amazonaws.com"}
    alarms = users["cloudwatch.amazonaws.com"]
    assert set(alarms["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert alarms["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@cache
def with_a_key() -> Template:
    def make(stack: Stack) -> None:
        service = service_in(stack, encryption_key=kms.Key(stack, "Own"))
        service.add_topic("orders").grant_send(role(stack, "Sender"), actions=("send",))

    return synthesized(make)


def test_the_key_that_is_given_encrypts_and_no_other_is_made() -> None:
    [key] = [name for name, each in with_a_key()["Resources"].items() if each["Type"] == "AWS::KMS::Key"]
    assert key.startswith("Own")
    assert {str(each["KmsMasterKeyId"]) for each in of_type(with_a_key(), "AWS::SQS::Queue")} == {
        str({"Fn::GetAtt": [key, "Arn"]})
    }


# ---- grants


def test_grants_are_the_statements_that_the_command_line_prints() -> None:
    def make(stack: Stack) -> None:
        service = service_in(stack, environment=Environment.development(dedicated_topics=("orders",)))
        orders = service.add_topic("orders")
        orders.grant_send(role(stack, "One"), actions=("send",))
        service.grant_send(role(stack, "Two"), orders, "invoices")
        billing = orders.add_subscription("billing")
        service.grant_consume(role(stack, "Reader"), billing, actions=CONSUMER_ACTIONS)
        billing.grant_consume(role(stack, "Plain"))
        service.grant_administer(role(stack, "Admin"))
        service.grant_view(role(stack, "Viewer"))
        service.grant_view(role(stack, "Beside"), billing.queue)

    template = synthesized(make)
    settings = settings_of(template, "shop")
    both = [each for topic in ("orders", "invoices") for each in sender_statements(settings, topic)]
    queues = {name: name for name in template["Resources"] if "Subscriptionbilling" in name}
    [queue] = [name for name in queues if "MessagesQueue" in name and "Policy" not in name]
    [dead] = [name for name in queues if "MessagesDeadLetters" in name and "Policy" not in name]
    arns = [f"arn:aws:sqs:us-east-1:123456789012:{name}" for name in (queue, dead)]
    named: Any = {"subscription": "billing", "dead_letter_queue": arns[1]}
    expected = {
        "One": sender_statements(settings, "orders", actions=("send",)),
        "Two": both,
        "Reader": consumer_statements(settings, "orders", arns[0], **named, actions=CONSUMER_ACTIONS),
        "Plain": consumer_statements(settings, "orders", arns[0], **named),
        "Viewer": viewer_statements(settings),
        "Beside": viewer_statements(settings, queues=arns[:1]),
        "Admin": administrator_statements(settings, dead_letter_queues=dead_letters_of(template, settings)),
    }
    for name, statements in expected.items():
        given = statements_of(template, name)
        assert comparable(given) == comparable(statements), name
        assert not [action for each in given for action in each["Action"] if "*" in action]


def test_what_aws_sends_to_the_address_is_allowed_by_the_cdk_and_a_plain_sender_by_a_grant() -> None:
    def make(stack: Stack) -> None:
        service = service_in(stack, environment=Environment.development(dedicated_topics=("orders",)))
        service.add_topic("orders").grant_send(role(stack, "Sender"), actions=("plain",))
        topic = sns.Topic(stack, "Sales")
        topic.add_subscription(sns_subscriptions.SqsSubscription(service.address(), raw_message_delivery=True))
        pattern = events.EventPattern(source=["shop"])
        events.Rule(stack, "Late", event_pattern=pattern, targets=[targets.SqsQueue(service.address("orders"))])

    template = synthesized(make)
    settings = settings_of(template, "shop")
    plain = sender_statements(settings, "orders", actions=("plain",))
    assert comparable(statements_of(template, "Sender")) == comparable(plain)
    allowed = {
        each["Principal"]["Service"]: str(each["Resource"])
        for policy in of_type(template, "AWS::SQS::QueuePolicy")
        for each in policy["PolicyDocument"]["Statement"]
        if "Service" in each["Principal"]
    }
    urgent, own = (
        url.rpartition(":")[2].rpartition("/")[2] for url in (settings.address(), settings.address("orders"))
    )
    assert urgent in allowed["sns.amazonaws.com"] and own in allowed["events.amazonaws.com"]


def dead_letters_of(template: Template, settings: ServiceSettings) -> list[str]:
    """The dead-letter queues of the service's own queues, which `settings_of` names by their logical ids."""
    found = []
    for url in settings.own_queue_urls:
        place, _, name = url.rpartition("/")
        dead = template["Resources"][name]["Properties"]["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
        found.append(f"{place}/{dead}")
    return found


def test_a_grant_with_a_key_lets_it_be_used_as_the_command_line_prints() -> None:
    given = statements_of(with_a_key(), "Sender")
    printed = sender_statements(settings_of(with_a_key(), "shop"), "orders", actions=("send",))
    assert comparable(given) == comparable(printed)


def test_a_consumer_may_decrypt_a_queue_that_has_a_key_of_its_own() -> None:
    def make(stack: Stack) -> None:
        queue = sqs.Queue(stack, "Theirs", encryption_master_key=kms.Key(stack, "Own"))
        service_in(stack).add_topic("orders").add_subscription("mail", queue=queue).grant_consume(role(stack, "Reader"))

    decrypting = [each for each in statements_of(synthesized(make), "Reader") if "kms:Decrypt" in each["Action"]]
    assert len(decrypting) == 1 and ":Own" in decrypting[0]["Resource"][0]


def test_the_short_forms_take_all_arguments_of_their_constructs() -> None:
    def options(construct: type) -> set[str]:
        parameters = inspect.signature(construct.__init__).parameters.values()  # type: ignore[misc]
        return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} - {"service", "topic"}

    tuned = TuningSettings.__optional_keys__
    assert TopicProperties.__optional_keys__ == (options(Topic) - {"topic_name"}) | tuned
    changeable = ChangeableSubscriptionSettings.__optional_keys__
    assert SubscriptionProperties.__optional_keys__ == (options(Subscription) - {"subscription_name"}) | changeable


def test_whoever_shares_queues_is_told_at_synthesis() -> None:
    scope = app()
    stack = Stack(scope, "shop")
    service = service_in(stack, environment=Environment.development(dedicated_topics=("orders",)))
    service.grant_send(role(stack, "Sender"), "orders", "invoices")
    assert [text for text in annotations(scope, "info") if "ingest queues of its own" in text] == [
        "Topic 'invoices' has no ingest queues of its own: who may send to it may send to every topic that has none. "
        "To give it its own, list it in dedicated_topics of the environment."
    ]


@pytest.mark.parametrize(
    ("grant", "message"),
    [
        (lambda service, to: service.grant_send(to), "topics=.*: name at least one topic"),
        (lambda service, to: service.grant_send(to, "no name"), "topic='no name'"),
        (lambda service, to: service.grant_send(to, "orders", actions=("fly",)), "actions='fly': give some of send"),
        (lambda service, to: service.grant_consume(to), "subscriptions=.*: give at least one"),
    ],
)
def test_a_grant_that_cannot_be_is_refused(grant: Callable[[TidewheelService, iam.Role], object], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        synthesized(lambda stack: grant(service_in(stack), role(stack, "Grantee")))


# ---- declared topics


def test_a_service_without_declared_topics_has_no_function_for_them() -> None:
    def functions(template: Template) -> set[str]:
        return {each["Handler"].split(".")[1] for each in of_type(template, LAMBDA)}

    assert functions(declared_in_development()) - functions(plain()) == {"declare"}
    assert "declare" not in functions(plain())


def declared(stack: Stack, **props: Any) -> None:
    topic = service_in(stack, **props).add_topic("orders", slot=Duration.minutes(1), max_waiting=10)
    topic.add_subscription("billing", filter_policy={"kind": ["a"]}, visibility_timeout=Duration.minutes(3))


@cache
def declared_in_development() -> Template:
    return synthesized(declared)


def test_a_declared_topic_and_its_subscription_are_resources_with_their_settings() -> None:
    template = declared_in_development()
    [topic] = of_type(template, "Custom::TidewheelTopic")
    [subscription] = of_type(template, "Custom::TidewheelSubscription")
    assert topic["Topic"] == "orders"
    assert json.loads(topic["Settings"]).items() > {"slot_s": 60, "lookahead_s": 480, "max_waiting": 10}.items()
    assert (subscription["Subscription"], subscription["FilterPolicy"]) == ("billing", '{"kind":["a"]}')
    queue = template["Resources"][subscription["QueueUrl"]["Ref"]]
    assert queue["Properties"]["VisibilityTimeout"] == 180 and "RedrivePolicy" in queue["Properties"]
    assert topic["ServiceTimeout"] == subscription["ServiceTimeout"] == "180"


def test_a_request_that_waited_long_is_not_begun_as_it_would_work_after_its_rollback() -> None:
    template = declared_in_development()
    [topic] = of_type(template, "Custom::TidewheelTopic")
    id_ = topic["ServiceToken"]["Fn::GetAtt"][0]
    function = template["Resources"][id_]["Properties"]
    configs = of_type(template, "AWS::Lambda::EventInvokeConfig")
    [config] = [each for each in configs if each["FunctionName"] == {"Ref": id_}]
    assert config["MaximumEventAgeInSeconds"] + function["Timeout"] <= int(topic["ServiceTimeout"])
    assert config["MaximumRetryAttempts"] == 0


def declared_ids(template: Template) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for name, each in template["Resources"].items():
        if each["Type"].startswith("Custom::"):
            ids.setdefault(each["Type"].removeprefix("Custom::Tidewheel"), []).append(name)
    return ids


@pytest.mark.long
def test_cloudformation_knows_what_is_declared_by_its_name_wherever_it_stands() -> None:
    def elsewhere(stack: Stack) -> None:
        service = service_in(stack)
        topic = Topic(Construct(stack, "Moved"), "Renamed", service=service, topic_name="orders")
        queue = sqs.Queue(stack, "Queue")
        Subscription(Construct(stack, "Too"), "Renamed", topic=topic, subscription_name="billing", queue=queue)

    before, after = declared_ids(declared_in_development()), declared_ids(synthesized(elsewhere))
    assert before == after and sorted(before) == ["Subscription", "Topic"]


def test_what_is_declared_stays_in_production_with_its_queues_and_goes_in_development() -> None:
    production = synthesized(lambda stack: declared(stack, environment=Environment.production()))
    for template, policy in ((declared_in_development(), "Delete"), (production, "Retain")):
        kept = [
            each["DeletionPolicy"]
            for name, each in template["Resources"].items()
            if each["Type"].startswith("Custom::") or (each["Type"] == "AWS::SQS::Queue" and "billing" in name)
        ]
        assert kept == [policy] * 4


@pytest.mark.long
def test_a_removal_policy_of_its_own_comes_before_the_environments() -> None:
    def make(stack: Stack) -> None:
        topic = service_in(stack).add_topic("orders", removal_policy=RemovalPolicy.RETAIN)
        topic.add_subscription("mail", removal_policy=RemovalPolicy.DESTROY)

    resources = synthesized(make)["Resources"].values()
    policies = {each["Type"]: each["DeletionPolicy"] for each in resources if each["Type"].startswith("Custom::")}
    assert policies == {"Custom::TidewheelTopic": "Retain", "Custom::TidewheelSubscription": "Delete"}


def test_what_is_declared_comes_after_all_that_it_needs_and_a_subscription_after_its_topic_and_queue() -> None:
    template = declared_in_development()
    resources = template["Resources"]
    [subscription] = [each for each in resources.values() if each["Type"] == "Custom::TidewheelSubscription"]
    [topic] = [name for name, each in resources.items() if each["Type"] == "Custom::TidewheelTopic"]
    waits = set(subscription["DependsOn"])
    assert topic in waits
    assert {resources[name]["Type"] for name in waits} >= {"AWS::SQS::Queue", "AWS::SQS::QueuePolicy"}
    declare = resources[subscription["Properties"]["ServiceToken"]["Fn::GetAtt"][0]]
    needed = [resources[name]["Type"] for name in declare["DependsOn"]]
    for type_ in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SSM::Parameter", "AWS::IAM::Policy"):
        assert type_ in needed


def test_a_queue_that_was_made_elsewhere_is_allowed_to_the_roles_that_deliver() -> None:
    arn = "arn:aws:sqs:us-east-1:123456789012:theirs"

    def make(stack: Stack) -> None:
        queue = sqs.Queue.from_queue_arn(stack, "Theirs", arn)
        service_in(stack).add_topic("orders").add_subscription("mail", queue=queue)

    template = synthesized(make)
    [published] = [p for p in of_type(template, "AWS::SSM::Parameter") if p["Type"] == "StringList"]
    for reference in published["Value"]["Fn::Join"][1]:
        given = statements_of(template, reference["Fn::GetAtt"][0][:-8])
        assert [arn] in [each["Resource"] for each in given if each["Action"] == ["sqs:SendMessage"]]


@pytest.mark.long
def test_a_queue_of_another_stack_takes_messages_of_a_topic_of_the_services() -> None:
    scope = app()
    theirs = Stack(scope, "theirs")
    queue = sqs.Queue(theirs, "Queue", encryption_master_key=kms.Key(theirs, "Own"))
    service = service_in(Stack(scope, "shop"))
    service.add_topic("orders").add_subscription("mail", queue=queue)
    template = scope.synth().get_stack_by_name("shop").template
    [published] = [p for p in of_type(template, "AWS::SSM::Parameter") if p["Type"] == "StringList"]
    for reference in published["Value"]["Fn::Join"][1]:
        given = statements_of(template, reference["Fn::GetAtt"][0][:-8])
        for action in ("sqs:SendMessage", "kms:GenerateDataKey"):
            resources = [each["Resource"] for each in given if action in each["Action"]]
            assert any("theirs:ExportsOutput" in str(each) for each in resources), action


@pytest.mark.long
def test_a_topic_of_another_stack_lets_the_roles_send_by_the_policy_of_the_queue_there() -> None:
    scope = app()
    service = service_in(Stack(scope, "shop"))
    theirs = Stack(scope, "theirs")
    topic = Topic(theirs, "Orders", service=service, topic_name="orders")
    topic.add_subscription("mail", queue=sqs.Queue(theirs, "Q"))
    topic.grant_send(role(theirs, "Sender"))
    template = scope.synth().get_stack_by_name("theirs").template
    assert of_type(template, LAMBDA) == []
    [made] = of_type(template, "Custom::TidewheelTopic")
    assert "Fn::ImportValue" in str(made["ServiceToken"])
    [policy] = of_type(template, "AWS::SQS::QueuePolicy")
    [statement] = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "sqs:SendMessage" and "shop:ExportsOutput" in str(statement["Principal"])


def test_a_queue_of_a_stack_elsewhere_is_refused_where_the_service_declares_the_topic() -> None:
    scope = app()
    home, away = (Place(account="111122223333", region=region) for region in ("us-east-1", "eu-west-1"))
    queue = sqs.Queue(Stack(scope, "theirs", env=away), "Queue")
    topic = service_in(Stack(scope, "shop", env=home)).add_topic("orders")
    with pytest.raises(
        InvalidValue, match=r"queue='theirs/Queue': .*eu-west-1.*declare the topic in the queue's stack"
    ):
        topic.add_subscription("mail", queue=queue)


def two_scopes(service: TidewheelService) -> list[Construct]:
    return [service, Stack(service.node.root, "theirs")]


def subscribe_twice(topic: Topic) -> None:
    topic.add_subscription("mail")
    Subscription(Stack(topic.node.root, "theirs"), "Mail", topic=topic, subscription_name="mail")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda service: service.add_topic("no name"), "topic_name='no name'"),
        (
            lambda service: [service.add_topic("orders") for _ in range(2)],
            "topic_name='orders': service shop/Reminders declares it already: use that one, or another name",
        ),
        (
            lambda service: [Topic(scope, "T", service=service, topic_name="orders") for scope in two_scopes(service)],
            "topic_name='orders': service shop/Reminders declares it already",
        ),
        (
            lambda service: subscribe_twice(service.add_topic("orders")),
            "subscription_name='mail': service shop/Reminders declares it already",
        ),
        (lambda service: service.add_topic("orders", slot_s=60), "slot_s=60: give slot= with a Duration"),
        (
            lambda service: service.add_topic("orders", slots=60),
            "slots=60: a topic has no such setting; give one of: slot_s",
        ),
        (lambda service: service.add_topic("orders", slot=Duration.minutes(14)), "at most 900, SQS's longest delay"),
        (
            lambda service: service.add_topic("orders").add_subscription("mail", filter_policy={"kind": "a"}),
            "filter_policy kind='a': give a list",
        ),
        (
            lambda service: service.add_topic("orders").add_subscription(
                "mail", queue=sqs.Queue(service, "Queue", fifo=True)
            ),
            "a FIFO queue takes no delay",
        ),
        (
            lambda service: service.add_topic("orders").add_subscription(
                "mail", queue=sqs.Queue(service, "Queue"), visibility_timeout=Duration.minutes(1)
            ),
            "visibility_timeout=60.*it is for a queue that is made here",
        ),
    ],
)
def test_what_cannot_be_declared_is_refused_at_synthesis(
    declare: Callable[[TidewheelService], object], message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        synthesized(lambda stack: declare(service_in(stack)))
