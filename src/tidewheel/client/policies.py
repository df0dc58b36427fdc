"""IAM statements: what senders, consumers and administrators need of a deployed service, and what queues must allow.

A topic's items and objects carry its name, so most statements are about one topic alone:

    items     dynamodb:LeadingKeys    T#orders, T#orders#...      never T#orders*, which is also topic "orders2"
    objects   the ARN                 ledgers/orders/*, payloads/orders/*
    sending   the ARN                 the topic's own ingest queues

A topic without queues of its own sends through the shared ones: who may send to these may send to EVERY such topic,
whatever the other statements say. List a topic in `dedicated_topics` of the stack's environment to give it its own.

Where the settings name a customer's KMS key, a last statement or two let it be used through the services concerned.

Everything here is a value: statements are dicts as IAM's JSON has them, without `Sid`, so that those of several topics
fit into one policy. Nothing calls AWS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from tidewheel.aws import table_layout as layout
from tidewheel.aws.s3_layout import LEDGERS, PARKED, PAYLOADS
from tidewheel.errors import InvalidValue
from tidewheel.model.settings import ServiceSettings, parameter_name, roles_parameter_name
from tidewheel.model.topic import check_name

Statement = dict[str, Any]
"""One statement of a policy."""

SenderAction = Literal["send", "cancel", "reschedule", "look", "large_bodies"]
"""What a sender may do.

`look` is get, peek and stats (without the depths of queues); `large_bodies` are kept in S3. A message with a key needs
no more than `send`.
"""

ConsumerAction = Literal["receive", "retry_later", "redrive"]
"""What a consumer may do: `redrive` moves dead letters back to the queue."""

SENDER_ACTIONS: tuple[SenderAction, ...] = get_args(SenderAction)
CONSUMER_ACTIONS: tuple[ConsumerAction, ...] = get_args(ConsumerAction)
RECEIVE: tuple[ConsumerAction, ...] = ("receive",)

FIFO = ".fifo"
NO_FIFO = "a FIFO queue takes no delay for a single message, so nothing would come in time; use a standard queue"
DECRYPT, MAKE_DATA_KEY = "kms:Decrypt", "kms:GenerateDataKey"
KMS_ACTIONS = (DECRYPT, MAKE_DATA_KEY)
"""What a sender needs of the key with which a queue is encrypted."""
LEADING_KEYS = "dynamodb:LeadingKeys"
"""IAM's condition key for the partition keys of a request."""
DNS_SUFFIXES = {"aws-cn": "amazonaws.com.cn"}
"""By partition, where it is not DNS_SUFFIX."""
DNS_SUFFIX = "amazonaws.com"

_CONSUMING = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
_REGION = re.compile(r"(?:^|\.)([a-z]{2}(?:-[a-z]+)+-\d+)(?:\.|$)")
_ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a service is: what ARNs, and names of AWS's services, need beside a name."""

    partition: str
    region: str
    account: str
    dns_suffix: str

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def object_arn(self, s3_bucket: str, name: str) -> str:
        return f"arn:{self.partition}:s3:::{s3_bucket}/{name}"


def sender_statements(
    settings: ServiceSettings,
    topic: str,
    *,
    actions: Collection[SenderAction] = SENDER_ACTIONS,
    region: str | None = None,
    account: str | None = None,
    partition: str | None = None,
    dns_suffix: str | None = None,
) -> list[Statement]:
    """Returns what a program needs that sends to one topic.

    NOTE: unless the topic has ingest queues of its own, the statements also let it send to every other topic that has
    none: see `shares_queues`.

    Args:
        settings: the service's.
        topic: the topic.
        actions: which calls; all by default.
        region, account, partition, dns_suffix: where the service is; by default what its dispatch function's ARN says.

    Raises:
        InvalidValue: the topic is no name, an action is unknown, or the settings do not say where the service is.
    """
    check_name("topic", topic)
    _check_actions(actions, SENDER_ACTIONS)
    place = _place(settings, region, account, partition, dns_suffix)
    wanted = set(actions)
    changes = wanted & {"cancel", "reschedule"}
    looks = wanted & {"look", "reschedule"}
    marks = [_beside(topic, "KEY#*"), layout.tombstone_partition(topic)]
    reads = ["dynamodb:GetItem"]
    reads += ["dynamodb:ConditionCheckItem"] if changes else []
    reads += ["dynamodb:Query"] if looks else []
    readable = [layout.topic_partition(topic), *(marks if changes or looks else [])]
    statements = [_reading_settings(settings, place), _items(settings, place, reads, readable)]
    if changes:
        statements.append(_items(settings, place, ["dynamodb:PutItem"], marks, checked=[layout.topic_partition(topic)]))
    if wanted & {"send", "reschedule"}:
        statements.append(_sending(settings, topic, place))
    ledgers, payloads = (place.object_arn(settings.s3_bucket, f"{folder}{topic}/*") for folder in (LEDGERS, PAYLOADS))
    large = "large_bodies" in wanted
    if looks:
        statements.append(_allow(["s3:GetObject"], [ledgers, payloads] if large else [ledgers]))
    if large:
        # By due date: beside these folders stands what collections note for the deletion of bodies.
        by_date = place.object_arn(settings.s3_bucket, f"{PAYLOADS}{topic}/????-??-??/*")
        statements.append(_allow(["s3:PutObject"], [by_date]))
    sends = bool(wanted & {"send", "reschedule"})
    return statements + _key_use(
        settings,
        place,
        decrypt=["dynamodb", *["s3"] * (large or bool(looks)), *["sqs"] * sends],
        encrypt=[*["s3"] * large, *["sqs"] * sends],
    )


def shares_queues(settings: ServiceSettings, topic: str) -> bool:
    """Whether permission to send to a topic is permission to send to every topic without queues of its own."""
    return topic not in settings.topic_queues


def consumer_statements(
    settings: ServiceSettings,
    topic: str,
    queue: str,
    *,
    dead_letter_queue: str | None = None,
    queue_key: str | None = None,
    actions: Collection[ConsumerAction] = RECEIVE,
    region: str | None = None,
    account: str | None = None,
    partition: str | None = None,
    dns_suffix: str | None = None,
) -> list[Statement]:
    """Returns what a program needs that works on one subscription of a topic.

    A consumer that reads its queue with plain SQS calls or a Lambda trigger needs the statement on the queues only.

    Args:
        settings: the service's.
        topic: the topic.
        queue: URL or ARN of the subscription's queue.
        dead_letter_queue: the same of its dead-letter queue; by default the one that Tidewheel makes, `...-dead`.
        queue_key: ARN or id of the KMS key with which these two are encrypted, if it is not the service's.
        actions: which calls; "retry_later" sends to the topic, and to the dead-letter queue after the last attempt.
        region, account, partition, dns_suffix: as of `sender_statements`.

    Raises:
        InvalidValue: a name, a queue or an action is not one, or the settings do not say where the service is.
    """
    check_name("topic", topic)
    _check_actions(actions, CONSUMER_ACTIONS)
    place = _place(settings, region, account, partition, dns_suffix)
    queue_arn = _queue_arn(queue, place)
    dead_arn = f"{queue_arn}-dead" if dead_letter_queue is None else _queue_arn(dead_letter_queue, place)
    readable = [layout.topic_partition(topic), _beside(topic, "*")]
    statements = [
        _reading_settings(settings, place),
        _items(settings, place, ["dynamodb:GetItem"], readable),
        _allow(_CONSUMING, [queue_arn, dead_arn]),
        _allow(["s3:GetObject"], [place.object_arn(settings.s3_bucket, f"{PAYLOADS}{topic}/*")]),
    ]
    if "retry_later" in actions:
        statements.append(_sending(settings, topic, place))
        statements.append(_allow(["sqs:SendMessage"], [dead_arn]))
        # The retry of a large body keeps it anew.
        statements.append(_allow(["s3:PutObject"], [place.object_arn(settings.s3_bucket, f"{PAYLOADS}{topic}/*")]))
    if "redrive" in actions:
        moving = ["sqs:GetQueueUrl", "sqs:ListDeadLetterSourceQueues", "sqs:StartMessageMoveTask"]
        statements.append(_allow(moving, [dead_arn]))
        statements.append(_allow(["sqs:SendMessage"], [queue_arn]))
    retries = "retry_later" in actions
    encrypt = [*["s3"] * retries, *["sqs"] * (retries or "redrive" in actions)]
    statements += _key_use(settings, place, decrypt=["dynamodb", "s3", "sqs"], encrypt=encrypt)
    if queue_key is not None and queue_key != settings.encryption_key_arn:
        own = replace(settings, encryption_key_arn=_key_arn(queue_key, place))
        statements += _key_use(own, place, decrypt=["sqs"], encrypt=[each for each in encrypt if each == "sqs"])
    return statements


def administrator_statements(
    settings: ServiceSettings,
    *,
    dead_letter_queues: Sequence[str] = (),
    region: str | None = None,
    account: str | None = None,
    partition: str | None = None,
    dns_suffix: str | None = None,
) -> list[Statement]:
    """Returns what a program needs that creates topics and subscriptions and looks at them: of all topics.

    Listing topics reads the whole table, which no condition on keys allows. So this is never for one topic.

    Args:
        settings: the service's.
        dead_letter_queues: ARNs or URLs of the dead-letter queues of the service's own queues; without them the
            statements do not allow `redrive_service`. The settings do not name them, since no client uses them.
        region, account, partition, dns_suffix: as of `sender_statements`.

    Raises:
        InvalidValue: the settings do not say where the service is, or a queue is none.
    """
    place = _place(settings, region, account, partition, dns_suffix)
    items = ("ConditionCheckItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem")
    queues = ("CreateQueue", "DeleteQueue", "GetQueueAttributes", "GetQueueUrl", "ListQueueTags", "TagQueue")
    roles = place.arn("ssm", f"parameter{roles_parameter_name(settings.stack)}")
    return [
        _allow(["ssm:GetParameter"], [*_reading_settings(settings, place)["Resource"], roles]),
        _allow([f"dynamodb:{name}" for name in items], [_table_arn(settings, place)]),
        _allow([f"sqs:{name}" for name in queues], [place.arn("sqs", f"{settings.stack}-*")]),
        _allow(["sqs:SendMessage"], [_queue_arn(settings.work_queue_url, place)]),
        _allow(["s3:GetObject"], [place.object_arn(settings.s3_bucket, f"{LEDGERS}*")]),
        _allow(["s3:DeleteObject"], [place.object_arn(settings.s3_bucket, f"{PARKED}*")]),
        *(_redriving(settings, dead_letter_queues, place) if dead_letter_queues else ()),
        *_key_use(settings, place, decrypt=["dynamodb", "s3", "sqs"], encrypt=["sqs"]),
    ]


def _redriving(settings: ServiceSettings, dead_letter_queues: Sequence[str], place: _Place) -> list[Statement]:
    """Allows to move dead letters of the service's queues back; SQS does it with the rights of who asks for it."""
    sources = [_queue_arn(url, place) for url in settings.own_queue_urls]
    dead = [_queue_arn(queue, place) for queue in dead_letter_queues]
    moving = ("DeleteMessage", "GetQueueUrl", "ListDeadLetterSourceQueues", "ReceiveMessage", "StartMessageMoveTask")
    return [
        _allow(["sqs:GetQueueAttributes"], [*sources, *dead]),
        _allow([f"sqs:{name}" for name in moving], dead),
        _allow(["sqs:SendMessage"], sources),
    ]


def queue_policy(queue: str, *, role_arns: Sequence[str]) -> dict[str, Any]:
    """Returns the resource policy that lets the service's functions send to a queue which Tidewheel did not make.

    In the service's own account it is all that the queue needs. In another account, `subscriber_queue_arns` of the
    service's environment must list the queue, too. A queue with a KMS key of its own needs KMS_ACTIONS in the key's
    policy. A policy names roles that exist: when the stack was deleted and made again, it must be set again.

    Args:
        queue: the queue's ARN or URL; the URL must say the Region.
        role_arns: the roles that deliver, as the SSM parameter `/tidewheel/<stack>/delivery-roles` lists them.

    Raises:
        InvalidValue: the queue is not a standard queue's, or a role is no ARN of a role.
    """
    statement = delivery_statement(role_arns)
    place = _Place(partition=role_arns[0].split(":")[1], region="", account="", dns_suffix="")
    return policy_document([{**statement, "Resource": _queue_arn(queue, place)}])


def delivery_statement(role_arns: Sequence[str]) -> Statement:
    """Returns the statement of `queue_policy`, less its resource.

    Raises:
        InvalidValue: there are no roles, or one is no ARN of a role.
    """
    for role in role_arns:
        if not _ROLE.match(role):
            raise InvalidValue("role_arns", role, "give ARNs of roles, such as arn:aws:iam::123456789012:role/name")
    if not role_arns:
        raise InvalidValue("role_arns", role_arns, "give the roles of the functions that deliver")
    principal = {"AWS": list(role_arns)}
    return {"Sid": "TidewheelDelivers", "Effect": "Allow", "Principal": principal, "Action": "sqs:SendMessage"}


def policy_document(statements: Iterable[Statement]) -> dict[str, Any]:
    """Returns a policy of these statements, as `put-role-policy` or an SQS queue's attribute `Policy` takes it."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(actions: Sequence[str], resources: Sequence[str]) -> Statement:
    return {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def _reading_settings(settings: ServiceSettings, place: _Place) -> Statement:
    return _allow(["ssm:GetParameter"], [place.arn("ssm", f"parameter{parameter_name(settings.stack)}")])


def _items(
    settings: ServiceSettings,
    place: _Place,
    actions: Sequence[str],
    partitions: Sequence[str],
    *,
    checked: Sequence[str] = (),
) -> Statement:
    """Allows actions on the items of some partitions, and denies requests without a partition key.

    Args:
        settings, place: the service, and where it is.
        actions: such as "dynamodb:PutItem".
        partitions: patterns of partition keys.
        checked: partitions of which the same transaction checks an item. IAM may compare an action with the keys of the
            whole transaction (docs/security.md), so these may stand beside one of `partitions`, but not without one.
    """
    # ForAllValues holds when there is nothing to compare; ForAnyValue does not.
    some = (
        {"ForAnyValue:StringLike": {LEADING_KEYS: list(partitions)}} if checked else {"Null": {LEADING_KEYS: "false"}}
    )
    condition = {"ForAllValues:StringLike": {LEADING_KEYS: [*checked, *partitions]}, **some}
    return {**_allow(actions, [_table_arn(settings, place)]), "Condition": condition}


def _sending(settings: ServiceSettings, topic: str, place: _Place) -> Statement:
    return _allow(["sqs:SendMessage"], [_queue_arn(url, place) for url in settings.ingest_queues(topic)])


def _key_use(
    settings: ServiceSettings, place: _Place, *, decrypt: Sequence[str], encrypt: Sequence[str]
) -> list[Statement]:
    """Allows to use the service's key through services, such as "s3"; nothing if it has none."""
    if settings.encryption_key_arn is None:
        return []
    used = ((DECRYPT, decrypt), (MAKE_DATA_KEY, encrypt))
    through = {action: [f"{each}.{place.region}.{place.dns_suffix}" for each in services] for action, services in used}
    return [
        {
            **_allow([action], [settings.encryption_key_arn]),
            "Condition": {"StringEquals": {"kms:ViaService": services}},
        }
        for action, services in through.items()
        if services
    ]


def _key_arn(key: str, place: _Place) -> str:
    """Returns the ARN of a key given by ARN or id.

    Raises:
        InvalidValue: it is an alias, which IAM does not take for the key.
    """
    if "alias/" in key:
        advice = "IAM wants the key, not its alias: `aws kms describe-key --key-id <alias>` says it"
        raise InvalidValue("queue_key", key, advice)
    return key if key.startswith("arn:") else place.arn("kms", f"key/{key}")


def _beside(topic: str, rest: str) -> str:
    """Returns the partitions of a topic's items that are not in the topic's own partition, as a pattern."""
    return f"{layout.topic_partition(topic)}#{rest}"


def _table_arn(settings: ServiceSettings, place: _Place) -> str:
    return place.arn("dynamodb", f"table/{settings.table}")


def _place(
    settings: ServiceSettings,
    region: str | None,
    account: str | None,
    partition: str | None,
    dns_suffix: str | None,
) -> _Place:
    known = settings.dispatch_arn.split(":")
    if len(known) < 5 or known[0] != "arn":
        known = ["", "", "", "", ""]
    found = {
        "partition": partition or known[1],
        "region": region or known[3],
        "account": account or known[4],
    }
    for name, value in found.items():
        if not value:
            raise InvalidValue(name, value, f"dispatch_arn={settings.dispatch_arn!r} does not say it: give {name}=")
    return _Place(**found, dns_suffix=dns_suffix or DNS_SUFFIXES.get(found["partition"], DNS_SUFFIX))


def _queue_arn(queue: str, place: _Place) -> str:
    """Returns the ARN of a standard queue given by ARN or URL; the Region is the URL's, if it says one."""
    advice = "give the queue's ARN, or its URL: https://sqs.<region>.amazonaws.com/<account>/<name>"
    if queue.endswith(FIFO):
        raise InvalidValue("queue", queue, NO_FIFO)
    if queue.startswith("arn:"):
        if len(queue.split(":")) != 6 or queue.split(":")[2] != "sqs":
            raise InvalidValue("queue", queue, advice)
        return queue
    parts = urlsplit(queue)
    names = parts.path.strip("/").split("/")
    said = _REGION.search(parts.hostname or "")
    region = said[1] if said else place.region
    if parts.scheme not in ("https", "http") or len(names) < 2 or not all(names) or not region:
        raise InvalidValue("queue", queue, advice)
    account, name = names[-2:]
    return f"arn:{place.partition}:sqs:{region}:{account}:{name}"


def _check_actions(actions: Collection[str], known: Sequence[str]) -> None:
    if isinstance(actions, str) or not actions:
        raise InvalidValue("actions", actions, f"give some of {', '.join(known)}")
    for action in actions:
        if action not in known:
            raise InvalidValue("actions", action, f"give some of {', '.join(known)}")
