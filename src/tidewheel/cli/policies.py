"""Defines the commands `tidewheel policy` and `tidewheel address`, of programs that use the service."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import urlsplit

import typer

from tidewheel.cli.administration import AsJson, SubscriptionName, TopicName
from tidewheel.cli.output import print_json, print_table
from tidewheel.cli.target import client, target
from tidewheel.errors import InvalidValue, UnknownSubscription
from tidewheel.model.settings import ServiceSettings, roles_parameter_name
from tidewheel.shipped import DOCS, shipped

if TYPE_CHECKING:
    from tidewheel.client.connection import Connection
    from tidewheel.policies import ConsumerAction, SenderAction

policy = typer.Typer(no_args_is_help=True, help="Print the IAM policies that programs and queues need.")

_AWS_OWN = "alias/aws/"
"""Begins the alias of an AWS managed key, such as the key of SQS. Such a key needs no permission."""

PAGE = "other-languages.md"
PROGRAMS = {"cli": "send.sh", "js": "send.mjs", "java": "Send.java", "go": "send.go", "php": "send.php"}
"""Language -> the page's program."""
VARIABLE = "TIDEWHEEL_ADDRESS"
"""The environment variable that the programs read."""
_TOPIC = "orders"
"""The topic of the page's programs."""

Actions = Annotated[
    list[str] | None,
    typer.Option(
        "--action", help="Only the permissions for this action. Repeat the option for more actions.", show_default=False
    ),
]


@policy.command()
def sender(ctx: typer.Context, topic: TopicName, action: Actions = None, as_json: AsJson = False) -> None:
    """Print the policy of a sender to a topic. Actions: send, plain, cancel, reschedule, look, large_bodies."""
    from tidewheel.policies import SENDER_ACTIONS, policy_document, sender_statements, shares_queues

    settings = service_settings(ctx)
    actions = cast("list[SenderAction]", action) or SENDER_ACTIONS
    statements = sender_statements(settings, topic, actions=actions)
    if shares_queues(settings, topic):
        typer.echo(
            f"Note: topic {topic!r} shares its ingest queues. This policy allows to send to EVERY topic that shares "
            "them. For separate queues, list the topic in dedicated_topics of the stack's environment.",
            err=True,
        )
    _show(policy_document(statements), as_json)


@policy.command()
def consumer(
    ctx: typer.Context,
    topic: TopicName,
    subscription: SubscriptionName,
    action: Actions = None,
    as_json: AsJson = False,
) -> None:
    """Print the policy of a program that works on a subscription. Actions: receive, retry_later, redrive."""
    from tidewheel.policies import RECEIVE, consumer_statements, policy_document

    service = client(ctx)
    found = [each for each in service.subscriptions(topic) if each.name == subscription]
    if not found:
        raise UnknownSubscription(topic, subscription)
    actions = cast("list[ConsumerAction]", action) or RECEIVE
    url = found[0].queue_url
    connection = service.core.connection
    key = _key_of_queue(connection, url)
    statements = consumer_statements(
        connection.settings, topic, url, subscription=subscription, queue_key=key, actions=actions
    )
    _show(policy_document(statements), as_json)


@policy.command()
def viewer(
    ctx: typer.Context,
    queue: Annotated[
        list[str] | None,
        typer.Option(help="URL or ARN of a queue of your own, to see its depth. Repeat for more.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the policy of a person who only looks at all topics, such as with a read-only console."""
    from tidewheel.policies import policy_document, viewer_statements

    _show(policy_document(viewer_statements(service_settings(ctx), queues=queue or ())), as_json)


@policy.command()
def administrator(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Print the policy of a program that creates topics and subscriptions of any name."""
    from tidewheel.client.operations.dead_letters import service_dead_letters
    from tidewheel.policies import administrator_statements, policy_document

    connection = client(ctx).core.connection
    settings = connection.settings
    dead = service_dead_letters(connection.sqs, settings)
    _show(policy_document(administrator_statements(settings, dead_letter_queues=dead)), as_json)


@policy.command()
def queue(
    ctx: typer.Context,
    queue_url: Annotated[str, typer.Argument(help="URL or ARN of a standard queue.")],
    as_json: AsJson = False,
) -> None:
    """Print the policy that a queue of your own needs to be a subscription's queue."""
    from tidewheel.policies import queue_policy

    connection = client(ctx).core.connection
    role_arns = connection.parameter(roles_parameter_name(connection.stack)).split(",")
    _show(queue_policy(queue_url, role_arns=role_arns), as_json)


@policy.command()
def address(
    ctx: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="ARNs of SNS topics and EventBridge rules.")],
    topic: Annotated[str | None, typer.Option(help="A topic, which may have a queue of its own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the policy with which SNS topics and EventBridge rules may send to the queue of `tidewheel address`."""
    from tidewheel.client.operations.dead_letters import attributes_of
    from tidewheel.policies import address_arn, policy_document, source_key_statements, source_statements

    connection = client(ctx).core.connection
    settings = connection.settings
    added = source_statements(address_arn(settings, topic), sources)
    found = attributes_of(connection.sqs, settings.address(topic), "Policy")
    kept = json.loads(found.get("Policy", '{"Statement": []}'))["Statement"]
    if settings.encryption_key_arn is not None:
        needed = json.dumps(source_key_statements(sources))
        typer.echo(
            f"Note: the policy of the key {settings.encryption_key_arn} needs these statements: {needed}", err=True
        )
    _show(policy_document([*kept, *(each for each in added if each not in kept)]), as_json)


def _key_of_queue(connection: Connection, queue_url: str) -> str | None:
    """Returns the KMS key of a queue. None if AWS owns the key, or does not tell the key, which is then noted."""
    from botocore.exceptions import ClientError

    from tidewheel.client.operations.dead_letters import attributes_of

    try:
        key = attributes_of(connection.sqs, queue_url, "KmsMasterKeyId").get("KmsMasterKeyId")
        if key is None or _AWS_OWN in key:
            return None
        if "alias/" not in key:
            return key
        # IAM takes no alias.
        return str(connection.client("kms").describe_key(KeyId=key)["KeyMetadata"]["Arn"])
    except ClientError as error:
        typer.echo(
            f"Note: AWS does not tell the KMS key of {queue_url} ({error.operation_name}: "
            f"{error.response['Error']['Code']}). If the queue has a KMS key other than the service's, add kms:Decrypt "
            "on this key to the policy.",
            err=True,
        )
        return None


def service_settings(ctx: typer.Context) -> ServiceSettings:
    """Returns the settings of the service that the global options name."""
    return client(ctx).core.connection.settings


def _show(document: dict[str, Any], as_json: bool) -> None:
    """Prints a policy as JSON, indented for people or on one line for programs."""
    if as_json:
        print_json(document)
    else:
        typer.echo(json.dumps(document, indent=2))


def print_address(
    ctx: typer.Context,
    topic: Annotated[str | None, typer.Option(help="A topic, which may have a queue of its own.")] = None,
    language: Annotated[str, typer.Option(help=f"The program's language: {', '.join(PROGRAMS)}.")] = "cli",
    as_json: AsJson = False,
) -> None:
    """Print the queue to which programs send without the SDK, and a program that sends a message."""
    from tidewheel.policies import address_arn

    if language not in PROGRAMS:
        raise InvalidValue("language", language, f"give one of {', '.join(PROGRAMS)}")
    settings = service_settings(ctx)
    arn = address_arn(settings, topic)
    url = settings.address(topic)
    endpoint_url = target(ctx).endpoint_url
    if endpoint_url is not None:  # some SDKs send to the host of the queue's URL
        url = endpoint_url.rstrip("/") + urlsplit(url).path
    if as_json:
        print_json({"url": url, "arn": arn})
        return
    print_table(["", ""], [("URL", url), ("ARN", arn)])
    typer.echo(f"\nexport {VARIABLE}={shlex.quote(url)}\n\n{program(language, topic or _TOPIC)}", nl=False)


def program(language: str, topic: str) -> str:
    """Returns the page's program in a language, for a topic."""
    page = (shipped(DOCS) / PAGE).read_text(encoding="utf-8")
    name = re.escape(PROGRAMS[language])
    [found] = re.findall(rf"^<!-- examples/languages/{name} -->\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(found).replace(_TOPIC, topic)
