"""Makes the IAM statements for senders, consumers, viewers, administrators and queues.

A topic's items and objects carry its name, so most statements apply to a single topic:

    items     dynamodb:LeadingKeys    T#orders, T#orders#...      never T#orders*, which is also topic "orders2"
              dynamodb:Attributes     in puts, the attributes of the items that clients write
    objects   the ARN                 ledgers/orders/*, payloads/orders/*
    sending   the ARN                 the topic's own ingest queues

A topic without its own queues uses the shared queues: a program that may send to these may send to EVERY such topic,
whatever the other statements say. List a topic in `dedicated_topics` of the stack's environment to give it its own
queues.

If the settings name a customer's KMS key, one or two more statements allow its use through the AWS services that the
program calls.

Statements are dicts in the form of IAM's JSON, without `Sid`, so the statements of several topics fit into one policy.
Nothing here calls AWS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args
from urllib.parse import urlsplit

from tidewheel.errors import InvalidValue
from tidewheel.model.object_names import LEDGERS, PARKED, PAYLOADS, PLANS, REFUSED, topic_prefix
from tidewheel.model.settings import (
    DEAD_LETTERS,
    ROLE_ARN,
    ROLE_TAG,
    SERVICE,
    STACK_TAG,
    SUBSCRIPTION,
    ServiceSettings,
    parameter_name,
    roles_parameter_name,
)
from tidewheel.model.topic import check_name
from tidewheel.storage import table_keys

Statement = dict[str, Any]
"""A statement of a policy."""

SenderAction = Literal["send", "plain", "cancel", "reschedule", "look", "large_bodies"]
"""An action of a sender.

`plain` is sending without the SDK. `look` is get, peek and stats (without the depths of queues). `large_bodies` allows
bodies that are kept in S3. To send a message with a key, `send` or `plain` is enough.
"""

ConsumerAction = Literal["receive", "retry_later", "redrive"]
"""An action of a consumer. `redrive` moves dead letters back to the queue."""

SENDER_ACTIONS: tuple[SenderAction, ...] = get_args(SenderAction)
CONSUMER_ACTIONS: tuple[ConsumerAction, ...] = get_args(ConsumerAction)
RECEIVE: tuple[ConsumerAction, ...] = ("receive",)

FIFO = ".fifo"
NO_FIFO = "a FIFO queue takes no delay for a single message, so nothing would come in time; use a standard queue"
DECRYPT, MAKE_DATA_KEY = "kms:Decrypt", "kms:GenerateDataKey"
KMS_ACTIONS = (DECRYPT, MAKE_DATA_KEY)
"""The actions that a sender needs on the key of an encrypted queue."""
CREATED_ONLY = {"Null": {"s3:if-none-match": "false"}}
"""A condition under which an object is written only if none has its name: S3 takes no value but `*` in the header."""
LEADING_KEYS = "dynamodb:LeadingKeys"
"""IAM's condition key for the partition keys of a request."""
SOURCE_ARN = "aws:SourceArn"
"""IAM's condition key for the resource on whose behalf a service calls."""
ATTRIBUTES = "dynamodb:Attributes"
"""IAM's condition key for the top-level attributes of a request: of its item, its key and its expressions."""
DNS_SUFFIXES = {"aws-cn": "amazonaws.com.cn"}
"""Partition -> its suffix, for partitions with another suffix than DNS_SUFFIX."""
DNS_SUFFIX = "amazonaws.com"

_ITEM_READS = ("GetItem", "Query")
_CONSUMING = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
_DAY = "????-??-??"
_REGION = re.compile(r"(?:^|\.)([a-z]{2}(?:-[a-z]+)+-\d+)(?:\.|$)")


class Place(TypedDict, total=False):
    """Where a service is. By default, this is taken from its dispatch function's ARN."""

    region: str | None
    account: str | None
    partition: str | None
    dns_suffix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """A service with its location, for ARNs and host names of AWS services."""

    settings: ServiceSettings
    partition: str
    region: str
    account: str
    dns_suffix: str

    def arn(self, service: str, resource: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    @property
    def table_arn(self) -> str:
        return self.arn("dynamodb", f"table/{self.settings.table}")

    @property
    def bucket_arn(self) -> str:
        return f"arn:{self.partition}:s3:::{self.settings.s3_bucket}"

    def object_arn(self, name: str) -> str:
        return f"{self.bucket_arn}/{name}"

    def queue_arn(self, queue: str) -> str:
        return _queue_arn(queue, self.partition, self.region)


def sender_statements(
    settings: ServiceSettings, topic: str, *, actions: Collection[SenderAction] = SENDER_ACTIONS, **place: Unpack[Place]
) -> list[Statement]:
    """Returns the IAM statements for a sender to a topic.

    NOTE: unless the topic has its own ingest queues, the statements also let the program send to every other topic
    without its own queues. See `shares_queues`.

    Args:
        settings: the service's settings.
        topic: the topic.
        actions: which calls; all by default.
        **place: where the service is, if its dispatch function's ARN does not say it. See `Place`.

    Raises:
        InvalidValue: the topic's name is not valid, an action is unknown, or the settings do not say where the service
            is.
    """
    check_name("topic", topic)
    _check_actions(actions, SENDER_ACTIONS)
    at = _service_at(settings, **place)
    wanted = set(actions)
    if wanted == {"plain"}:
        key = settings.encryption_key_arn
        return [_sending_plain(at, topic), *_key_use(at, key, decrypt=["sqs"], encrypt=["sqs"])]
    changes = wanted & {"cancel", "reschedule"}
    looks = wanted & {"look", "reschedule"}
    marks = [_beside(topic, "KEY#*"), table_keys.tombstone_partition(topic)]
    claims = _beside(topic, "CLAIM#*")
    reads = ["dynamodb:GetItem"]
    reads += ["dynamodb:ConditionCheckItem"] if changes else []
    reads += ["dynamodb:Query"] if looks else []
    reads += ["dynamodb:BatchGetItem"] if "look" in wanted else []
    readable = [table_keys.topic_partition(topic), *([*marks, claims] if changes or looks else [])]
    readable += [table_keys.marks_partitions(topic)] if looks else []
    statements = [_reading_settings(at), _items(at, reads, readable)]
    if changes:
        moves = "reschedule" in wanted
        written = [*marks, *[table_keys.moves_partition(topic)] * moves]
        kinds = ["tombstone", "key", *["move"] * moves]
        statements.append(_puts(at, written, kinds, checked=table_keys.topic_partition(topic)))
        statements.append(_claiming(at, topic, "moved_to"))
    if wanted & {"send", "reschedule"}:
        statements.append(_sending(at, topic))
    elif "plain" in wanted:
        statements.append(_sending_plain(at, topic))
    ledgers = at.object_arn(f"{topic_prefix(LEDGERS, topic)}*")
    large = "large_bodies" in wanted
    if looks:
        read = [ledgers, at.object_arn(f"{topic_prefix(PLANS, topic)}*")]  # and what a plan has in objects of its own
        statements.append(_allow(["s3:GetObject"], [*read, *[_large_bodies(at, topic)] * large]))
    if large:
        statements.append(_creating_bodies(at, topic))
    sends = bool(wanted & {"send", "plain", "reschedule"})
    decrypt = ["dynamodb", *["s3"] * (large or bool(looks)), *["sqs"] * sends]
    encrypt = [*["s3"] * large, *["sqs"] * sends]
    return statements + _key_use(at, settings.encryption_key_arn, decrypt=decrypt, encrypt=encrypt)


def shares_queues(settings: ServiceSettings, topic: str) -> bool:
    """Returns whether a sender to this topic may send to every topic without its own queues."""
    return topic not in settings.topic_queues


def consumer_statements(
    settings: ServiceSettings,
    topic: str,
    queue: str,
    *,
    subscription: str,
    dead_letter_queue: str | None = None,
    queue_key: str | None = None,
    actions: Collection[ConsumerAction] = RECEIVE,
    **place: Unpack[Place],
) -> list[Statement]:
    """Returns the IAM statements for a consumer of a subscription.

    A consumer that reads its queue with plain SQS calls or a Lambda trigger needs only the statements on the queues.

    Args:
        settings: the service's settings.
        topic: the topic.
        queue: URL or ARN of the subscription's queue.
        subscription: its name. The consumer claims messages in no other name.
        dead_letter_queue: URL or ARN of its dead-letter queue; by default Tidewheel's name for it, `...-dead`.
        queue_key: ARN or id of the KMS key that encrypts these two queues, if it is not the service's key.
        actions: which calls; "retry_later" sends to the topic, and to the dead-letter queue after the last attempt.
        **place: as for `sender_statements`.

    Raises:
        InvalidValue: a name, queue or action is not valid, or the settings do not say where the service is.
    """
    check_name("topic", topic)
    check_name("subscription", subscription)
    _check_actions(actions, CONSUMER_ACTIONS)
    at = _service_at(settings, **place)
    queue_arn = at.queue_arn(queue)
    dead_arn = f"{queue_arn}-dead" if dead_letter_queue is None else at.queue_arn(dead_letter_queue)
    readable = [table_keys.topic_partition(topic), _beside(topic, "*")]
    statements = [
        _reading_settings(at),
        _items(at, ["dynamodb:GetItem"], readable),
        _allow(_CONSUMING, [queue_arn, dead_arn]),
        _allow(["s3:GetObject"], [_large_bodies(at, topic)]),
        # What was claimed too often becomes a dead letter.
        _claiming(at, topic, f"{subscription}#*"),
        _allow(["sqs:SendMessage"], [dead_arn]),
    ]
    if "retry_later" in actions:
        statements.append(_sending(at, topic))
        # The retry of a message with a large body stores the body again.
        statements.append(_creating_bodies(at, topic))
    if "redrive" in actions:
        moving = ["sqs:ListDeadLetterSourceQueues", "sqs:StartMessageMoveTask"]
        statements.append(_allow(moving, [dead_arn]))
        statements.append(_allow(["sqs:SendMessage"], [queue_arn]))
    encrypt = ["s3", "sqs"] if "retry_later" in actions else ["sqs"]
    statements += _key_use(at, settings.encryption_key_arn, decrypt=["dynamodb", "s3", "sqs"], encrypt=encrypt)
    if queue_key is not None and queue_key != settings.encryption_key_arn:
        own = _key_arn(queue_key, at)
        statements += _key_use(at, own, decrypt=["sqs"], encrypt=["sqs"])
    return statements


def viewer_statements(
    settings: ServiceSettings, *, queues: Sequence[str] = (), **place: Unpack[Place]
) -> list[Statement]:
    """Returns the IAM statements for a person who only looks at all topics, such as with a read-only console.

    They allow no change, and no receiving, which hides messages from consumers. So dead letters are counted, and the
    bodies of all others can be read.

    Args:
        settings: the service's settings.
        queues: ARNs or URLs of your own queues and their dead-letter queues, whose depths are to be read. Queues that
            Tidewheel made are included, by their tag.
        **place: as for `sender_statements`.

    Raises:
        InvalidValue: the settings do not say where the service is, or a queue is not valid.
    """
    at = _service_at(settings, **place)
    tagged = {"StringEquals": {f"aws:ResourceTag/{STACK_TAG}": settings.stack}}
    depths = ["sqs:GetQueueAttributes"]
    return [
        _reading_settings(at),
        _items(
            at,
            [f"dynamodb:{name}" for name in ("BatchGetItem", *_ITEM_READS)],
            [table_keys.EVERY_TOPIC, table_keys.SERVICE],
        ),
        _allow(
            ["s3:GetObject"], [at.object_arn(name) for name in (f"{LEDGERS}*", f"{PLANS}*", f"{PAYLOADS}*/{_DAY}/*")]
        ),
        {**_allow(depths, [at.arn("sqs", "*")]), "Condition": tagged},
        *([_allow(depths, [at.queue_arn(queue) for queue in queues])] if queues else ()),
        *_key_use(at, settings.encryption_key_arn, decrypt=["dynamodb", "s3"], encrypt=[]),
    ]


def administrator_statements(
    settings: ServiceSettings, *, dead_letter_queues: Sequence[str] = (), **place: Unpack[Place]
) -> list[Statement]:
    """Returns the IAM statements for an administrator of all topics and subscriptions.

    Topics are listed in one partition, so administration cannot be limited to a single topic.

    Args:
        settings: the service's settings.
        dead_letter_queues: ARNs or URLs of the dead-letter queues of the service's own queues; without these, the
            statements do not allow `redrive_service`. The settings do not name these queues, since no client uses them.
        **place: as for `sender_statements`.

    Raises:
        InvalidValue: the settings do not say where the service is, or a queue is not valid.
    """
    at = _service_at(settings, **place)
    reads = [f"dynamodb:{name}" for name in ("BatchGetItem", *_ITEM_READS)]
    writes = [f"dynamodb:{name}Item" for name in ("ConditionCheck", "Delete", "Put", "Update")]
    roles = at.arn("ssm", f"parameter{roles_parameter_name(settings.stack)}")
    return [
        _allow(["ssm:GetParameter"], [*_reading_settings(at)["Resource"], roles]),
        _allow(reads, [at.table_arn]),
        _items(at, writes, [table_keys.EVERY_TOPIC]),  # not the service's own items
        *_making_queues(at),
        _allow(
            ["sqs:SendMessage"], [at.queue_arn(url) for url in (settings.work_queue_url, settings.refused_queue_url)]
        ),
        # `restore_damaged` copies an earlier version of an object over the damaged one.
        _allow(["s3:ListBucketVersions"], [at.bucket_arn]),
        _allow(
            ["s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"],
            [at.object_arn(f"{prefix}*") for prefix in (LEDGERS, PLANS, PARKED)],
        ),
        _allow(["s3:DeleteObject"], [at.object_arn(f"{PARKED}*")]),
        *(_redriving(at, dead_letter_queues) if dead_letter_queues else ()),
        *_key_use(at, settings.encryption_key_arn, decrypt=["dynamodb", "s3", "sqs"], encrypt=["s3", "sqs"]),
    ]


def _making_queues(at: _Service) -> list[Statement]:
    """Allows to make and delete queues of subscriptions. Tags tell these from the service's own and from neighbours'.

    The queues of a stack "a-b" have names of a stack "a", too.
    """
    named = [at.arn("sqs", f"{at.settings.stack}-*")]
    stack, role = (f"aws:ResourceTag/{tag}" for tag in (STACK_TAG, ROLE_TAG))
    untaken = {"StringEqualsIfExists": {stack: at.settings.stack}, "StringNotEquals": {role: SERVICE}}
    ours = {"StringEquals": {stack: at.settings.stack, role: [SUBSCRIPTION, DEAD_LETTERS]}}
    return [
        _allow(
            [f"sqs:{name}" for name in ("CreateQueue", "GetQueueAttributes", "GetQueueUrl", "ListQueueTags")], named
        ),
        {**_allow(["sqs:TagQueue"], named), "Condition": untaken},
        {**_allow(["sqs:DeleteQueue"], named), "Condition": ours},
    ]


def _redriving(at: _Service, dead_letter_queues: Sequence[str]) -> list[Statement]:
    """Allows to move dead letters and refused messages of the service's queues back. SQS uses the caller's rights."""
    sources = [at.queue_arn(url) for url in at.settings.own_queue_urls]
    dead = [at.queue_arn(queue) for queue in dead_letter_queues]
    refused = at.queue_arn(at.settings.refused_queue_url)
    taking = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"]
    return [
        _allow(["sqs:GetQueueAttributes"], [*sources, *dead, refused]),
        _allow(taking, [*dead, refused]),
        _allow(["s3:GetObject"], [at.object_arn(f"{REFUSED}*")]),
        # The body of a plain message of 1 MiB.
        {**_allow(["s3:PutObject"], [at.object_arn(f"{PAYLOADS}*")]), "Condition": CREATED_ONLY},
        _allow(["sqs:SendMessage"], sources),
    ]


def queue_policy(queue: str, *, role_arns: Sequence[str]) -> dict[str, Any]:
    """Returns the policy for a caller's own queue to receive deliveries.

    In the service's own account, this policy is enough. In another account, `subscriber_queue_arns` of the service's
    environment must also list the queue. If the queue has its own KMS key, the key's policy must allow KMS_ACTIONS. The
    policy names existing roles: after the stack was deleted and created again, set the policy again.

    Args:
        queue: the queue's ARN or URL; the URL must contain the Region.
        role_arns: the roles that deliver, as the SSM parameter `/tidewheel/<stack>/delivery-roles` lists them.

    Raises:
        InvalidValue: the queue is not a standard queue, or a role is not the ARN of a role.
    """
    statement = delivery_statement(role_arns)
    return policy_document([{**statement, "Resource": _queue_arn(queue, role_arns[0].split(":")[1], "")}])


def address_arn(settings: ServiceSettings, topic: str | None = None, **place: Unpack[Place]) -> str:
    """Returns the ARN of the queue for plain messages, shared or the topic's own.

    Raises:
        InvalidValue: the topic's name is not valid, or the settings do not say where the service is.
    """
    if topic is not None:
        check_name("topic", topic)
    return _service_at(settings, **place).queue_arn(settings.address(topic))


def source_statements(queue_arn: str, sources: Sequence[str]) -> list[Statement]:
    """Returns the statements of a queue's policy with which SNS topics and EventBridge rules may send to the queue.

    Raises:
        InvalidValue: a source is something else.
    """
    return [
        {**_service_allowed(service, "sqs:SendMessage", queue_arn), "Condition": {"ArnEquals": {SOURCE_ARN: arns}}}
        for service, arns in _by_service(sources).items()
    ]


def source_key_statements(sources: Sequence[str]) -> list[Statement]:
    """Returns the statements of the policy of the queue's key for these sources. EventBridge names no source to KMS.

    Raises:
        InvalidValue: a source is something else than an SNS topic or an EventBridge rule.
    """
    return [
        {
            **_service_allowed(service, list(KMS_ACTIONS), "*"),
            **({"Condition": {"ArnEquals": {SOURCE_ARN: arns}}} if service == "sns" else {}),
        }
        for service, arns in _by_service(sources).items()
    ]


def _service_allowed(service: str, action: str | list[str], resource: str) -> Statement:
    principal = {"Service": f"{service}.amazonaws.com"}
    return {"Effect": "Allow", "Principal": principal, "Action": action, "Resource": resource}


def _by_service(sources: Sequence[str]) -> dict[str, list[str]]:
    """Returns ARNs by their service."""
    found: dict[str, list[str]] = {}
    for source in sources:
        service = source.split(":")[2] if source.count(":") >= 5 else ""
        if service not in ("sns", "events"):
            advice = "give the ARN of an SNS topic or an EventBridge rule; others send with a role: policy sender"
            raise InvalidValue("source", source, advice)
        found.setdefault(service, []).append(source)
    return found


def delivery_statement(role_arns: Sequence[str]) -> Statement:
    """Returns the statement of `queue_policy` without its resource.

    Raises:
        InvalidValue: there are no roles, or a role is not the ARN of a role.
    """
    for role in role_arns:
        if not ROLE_ARN.match(role):
            raise InvalidValue("role_arns", role, "give ARNs of roles, such as arn:aws:iam::123456789012:role/name")
    if not role_arns:
        raise InvalidValue("role_arns", role_arns, "give the roles of the functions that deliver")
    principal = {"AWS": list(role_arns)}
    return {"Sid": "TidewheelDelivers", "Effect": "Allow", "Principal": principal, "Action": "sqs:SendMessage"}


def policy_document(statements: Iterable[Statement]) -> dict[str, Any]:
    """Returns a policy of these statements, for `put-role-policy` or a queue's attribute `Policy`."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(actions: Sequence[str], resources: Sequence[str]) -> Statement:
    return {"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def _reading_settings(at: _Service) -> Statement:
    return _allow(["ssm:GetParameter"], [at.arn("ssm", f"parameter{parameter_name(at.settings.stack)}")])


def _items(at: _Service, actions: Sequence[str], partitions: Sequence[str]) -> Statement:
    """Allows actions such as "dynamodb:GetItem" on the items of some partitions, given as patterns of their keys."""
    # ForAllValues is true for a request without a partition key.
    condition = {"ForAllValues:StringLike": {LEADING_KEYS: list(partitions)}, "Null": {LEADING_KEYS: "false"}}
    return {**_allow(actions, [at.table_arn]), "Condition": condition}


def _puts(at: _Service, partitions: Sequence[str], kinds: Iterable[str], *, checked: str) -> Statement:
    """Allows to put items of some kinds into some partitions, alone and in transactions.

    IAM may compare a put with the keys and attributes of the whole transaction (docs/security.md). So a request may
    name the partition and the attributes that the same transaction checks, but only together with at least one of the
    partitions.

    Args:
        at: the service and its location.
        partitions: patterns of partition keys.
        kinds: names in `storage.table_keys.CLIENT_ITEMS`.
        checked: the partition in which the transaction checks an item.
    """
    own = {table_keys.PARTITION_KEY, table_keys.SORT_KEY} | table_keys.CHECKED_BY_CLIENTS
    condition = {
        "ForAllValues:StringLike": {LEADING_KEYS: [checked, *partitions]},
        "ForAnyValue:StringLike": {LEADING_KEYS: list(partitions)},
        "ForAllValues:StringEquals": {
            ATTRIBUTES: sorted(own.union(*(table_keys.CLIENT_ITEMS[kind] for kind in kinds)))
        },
        # ForAllValues is true for a request without attributes.
        "Null": {ATTRIBUTES: "false"},
    }
    return {**_allow(["dynamodb:PutItem"], [at.table_arn]), "Condition": condition}


def _claiming(at: _Service, topic: str, own: str) -> Statement:
    """Allows to claim messages, and to cancel unclaimed messages. IAM cannot tell the two apart.

    Args:
        at: the service and its location.
        topic: the topic.
        own: a pattern of an attribute: the consumer's own, or that of moves.
    """
    attributes = [table_keys.PARTITION_KEY, table_keys.SORT_KEY, *sorted(table_keys.CLAIM_ATTRIBUTES), own]
    condition = {
        "ForAllValues:StringLike": {LEADING_KEYS: [_beside(topic, "CLAIM#*")], ATTRIBUTES: attributes},
        "Null": {LEADING_KEYS: "false", ATTRIBUTES: "false"},
    }
    return {**_allow(["dynamodb:UpdateItem"], [at.table_arn]), "Condition": condition}


def _large_bodies(at: _Service, topic: str) -> str:
    """Returns the ARN of a topic's large bodies. Beside their folders, collections store how far they are."""
    return at.object_arn(f"{topic_prefix(PAYLOADS, topic)}{_DAY}/*")


def _creating_bodies(at: _Service, topic: str) -> Statement:
    """Allows to create a topic's large bodies, and to overwrite none."""
    return {**_allow(["s3:PutObject"], [_large_bodies(at, topic)]), "Condition": CREATED_ONLY}


def _sending(at: _Service, topic: str) -> Statement:
    return _allow(["sqs:SendMessage"], [at.queue_arn(url) for url in at.settings.ingest_queues(topic)])


def _sending_plain(at: _Service, topic: str) -> Statement:
    return _allow(["sqs:SendMessage"], [at.queue_arn(at.settings.address(topic))])


def _key_use(at: _Service, key: str | None, *, decrypt: Sequence[str], encrypt: Sequence[str]) -> list[Statement]:
    """Allows to use a key through AWS services, such as "s3". Returns [] if there is no key."""
    if key is None:
        return []
    used = ((DECRYPT, decrypt), (MAKE_DATA_KEY, encrypt))
    through = {action: [f"{each}.{at.region}.{at.dns_suffix}" for each in services] for action, services in used}
    return [
        {**_allow([action], [key]), "Condition": {"StringEquals": {"kms:ViaService": services}}}
        for action, services in through.items()
        if services
    ]


def _key_arn(key: str, at: _Service) -> str:
    """Returns the ARN of a key given by ARN or id.

    Raises:
        InvalidValue: the key is an alias, which IAM does not accept as a resource.
    """
    if "alias/" in key:
        advice = "IAM wants the key, not its alias: `aws kms describe-key --key-id <alias>` says it"
        raise InvalidValue("queue_key", key, advice)
    return key if key.startswith("arn:") else at.arn("kms", f"key/{key}")


def _beside(topic: str, rest: str) -> str:
    """Returns a pattern of a topic's partitions other than its main partition."""
    return f"{table_keys.topic_partition(topic)}#{rest}"


def _service_at(
    settings: ServiceSettings,
    region: str | None = None,
    account: str | None = None,
    partition: str | None = None,
    dns_suffix: str | None = None,
) -> _Service:
    known = settings.dispatch_arn.split(":")
    if len(known) < 5 or known[0] != "arn":
        known = ["", "", "", "", ""]
    found = {"partition": partition or known[1], "region": region or known[3], "account": account or known[4]}
    for name, value in found.items():
        if not value:
            raise InvalidValue(name, value, f"dispatch_arn={settings.dispatch_arn!r} does not name it; give {name}=")
    suffix = dns_suffix or DNS_SUFFIXES.get(found["partition"], DNS_SUFFIX)
    return _Service(settings=settings, dns_suffix=suffix, **found)


def _queue_arn(queue: str, partition: str, region: str) -> str:
    """Returns the ARN of a standard queue given by ARN or URL. A Region in the URL comes before the given Region."""
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
    region = said[1] if said else region
    if parts.scheme not in ("https", "http") or len(names) < 2 or not all(names) or not region:
        raise InvalidValue("queue", queue, advice)
    account, name = names[-2:]
    return f"arn:{partition}:sqs:{region}:{account}:{name}"


def _check_actions(actions: Collection[str], known: Sequence[str]) -> None:
    if isinstance(actions, str) or not actions:
        raise InvalidValue("actions", actions, f"give some of {', '.join(known)}")
    for action in actions:
        if action not in known:
            raise InvalidValue("actions", action, f"give some of {', '.join(known)}")
