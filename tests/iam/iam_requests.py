"""Lists the IAM requests of AWS calls (actions, resources and condition keys).

The source is AWS's service authorization reference.

Why: moto 5.2.5 checks DynamoDB and EventBridge Scheduler against the resource `*`, a transaction as an action that
does not exist in IAM, and no `iam:PassRole`.

AWS does not say which `dynamodb:LeadingKeys` and `dynamodb:Attributes` an action of a transaction has: those of its own
item, or of all items of the transaction. So a transaction asks for both, and a policy must allow both.

`dynamodb:Attributes` are the top-level attributes that a request names: in its item or key, in expressions, and in the
older parameters that expressions replaced. A request that names none has no such condition key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from moto.core.models import DEFAULT_ACCOUNT_ID

from tests.iam.iam_calls import UnknownCall
from tests.iam.iam_policy import Request
from tidewheel.local.emulator.wire import REGION

HOME = f"{REGION}:{DEFAULT_ACCOUNT_ID}"
SCHEDULER = "scheduler.amazonaws.com"
LEADING_KEYS, ATTRIBUTES = "dynamodb:LeadingKeys", "dynamodb:Attributes"

PartitionKey = Callable[[str, str | None], str | None]
"""Returns the partition key attribute of a table, or of its index. Returns None if the table or index does not
exist."""

_WRITES = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
_WRITE_REQUESTS = {"PutRequest": "Item", "DeleteRequest": "Key"}
_REDRIVE = ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
_NAMING = (
    *("Item", "Key", "AttributesToGet", "AttributeUpdates", "Expected"),
    *("KeyConditions", "QueryFilter", "ScanFilter"),
)
"""Parameters that hold names of attributes."""
_NAME = re.compile(r"(?<![\w#:.])#?[A-Za-z_][\w-]*(?![\w-]*\s*\()")
"""A word of an expression that is no value, no inner part of a path and no function."""
_WORDS = frozenset({"add", "and", "between", "delete", "in", "not", "or", "remove", "set"})
_WITHOUT_KEYS = frozenset({"Scan", "DescribeTable", "DeleteTable", "UpdateTable", "CreateTable"})
_S3_OBJECT_ACTIONS = {
    "AbortMultipartUpload": "AbortMultipartUpload",
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteObject": "DeleteObject",
    "DeleteObjects": "DeleteObject",
    "GetObject": "GetObject",
    "HeadObject": "GetObject",
    "ListParts": "ListMultipartUploadParts",
    "PutObject": "PutObject",
    "UploadPart": "PutObject",
}
_S3_BUCKET_ACTIONS = {
    "CreateBucket": "CreateBucket",
    "DeleteBucket": "DeleteBucket",
    "GetBucketLocation": "GetBucketLocation",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "PutBucketVersioning": "PutBucketVersioning",
}


def requests_of(service: str, operation: str, params: Mapping[str, Any], partition_key: PartitionKey) -> list[Request]:
    """Returns a call's requests to IAM.

    Args:
        service, operation, params: as boto3's client has them.
        partition_key: returns the keys of tables.

    Raises:
        UnknownCall: this module does not know the call.
    """
    if service == "dynamodb":
        requests = list(_dynamodb(operation, params, partition_key))
        return requests + _with_all_keys(requests) if operation.startswith("Transact") else requests
    if service not in _RESOLVERS:
        raise UnknownCall(f"{service}:{operation}")
    return list(_RESOLVERS[service](operation, params))


def _dynamodb(operation: str, params: Mapping[str, Any], partition_key: PartitionKey) -> Iterable[Request]:
    for action, part in _table_parts(operation, params):
        name = part["TableName"]
        arn = name if name.startswith("arn:") else f"arn:aws:dynamodb:{HOME}:table/{name}"
        context: dict[str, tuple[str, ...]] = {}
        index = part.get("IndexName")
        if action not in _WITHOUT_KEYS:
            attribute = partition_key(name.rpartition("/")[2], index)
            context = {} if attribute is None else {LEADING_KEYS: (_partition(part, attribute),)}
        if attributes := _attributes(part):
            context[ATTRIBUTES] = tuple(sorted(attributes))
        resource = arn if index is None else f"{arn}/index/{index}"
        yield Request(action=f"dynamodb:{action}", resource=resource, context=tuple(context.items()))


def _attributes(part: Mapping[str, Any]) -> set[str]:
    """Returns the top-level attributes that a request names."""
    names: Mapping[str, str] = part.get("ExpressionAttributeNames") or {}
    found = {name for parameter in _NAMING for name in part.get(parameter) or ()}
    for parameter, text in part.items():
        if parameter.endswith("Expression"):
            found |= {names.get(word, word) for word in _NAME.findall(text) if word.lower() not in _WORDS}
    return found


def _with_all_keys(requests: Sequence[Request]) -> list[Request]:
    """Repeats each action of a transaction with the keys and attributes of all items in the same table.

    Leaves out requests that would be the same.
    """
    together: dict[str, dict[str, set[str]]] = {}
    for each in requests:
        for name, values in each.context:
            together.setdefault(each.resource, {}).setdefault(name, set()).update(values)
    united = {
        resource: tuple((name, tuple(sorted(values))) for name, values in found.items())
        for resource, found in together.items()
    }
    repeated = [replace(each, context=united.get(each.resource, ())) for each in requests]
    return [each for each in dict.fromkeys(repeated) if each not in requests]


def _table_parts(operation: str, params: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Splits a call into actions on items.

    Each action of a transaction has its own name. Actions of a batch have the batch's name.
    """
    if operation == "TransactWriteItems":
        return [(_WRITES[kind], part) for entry in params["TransactItems"] for kind, part in entry.items()]
    if operation == "TransactGetItems":
        return [("GetItem", entry["Get"]) for entry in params["TransactItems"]]
    if operation == "BatchGetItem":
        tables = params["RequestItems"].items()
        return [(operation, {"TableName": table, "Key": key}) for table, part in tables for key in part["Keys"]]
    if operation == "BatchWriteItem":
        entries = [(table, *each) for table, part in params["RequestItems"].items() for e in part for each in e.items()]
        return [
            (operation, {"TableName": table, "Key": request[_WRITE_REQUESTS[kind]]}) for table, kind, request in entries
        ]
    if "TableName" not in params:
        raise UnknownCall(f"dynamodb:{operation}")
    return [(operation, params)]


def _partition(part: Mapping[str, Any], attribute: str) -> str:
    if "KeyConditionExpression" not in part:
        [value] = (part.get("Key") or part["Item"])[attribute].values()
        return str(value)
    names: Mapping[str, str] = part.get("ExpressionAttributeNames") or {}
    for name, placeholder in re.findall(r"(#?[\w.-]+)\s*=\s*(:\w+)", part["KeyConditionExpression"]):
        if names.get(name, name) == attribute:
            [value] = part["ExpressionAttributeValues"][placeholder].values()
            return str(value)
    raise UnknownCall(f"dynamodb:Query with {part['KeyConditionExpression']!r}")


def _s3(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    bucket_arn = f"arn:aws:s3:::{params.get('Bucket')}"
    if operation in _S3_BUCKET_ACTIONS:
        prefix = (("s3:prefix", (str(params["Prefix"]),)),) if params.get("Prefix") else ()
        yield Request(action=f"s3:{_S3_BUCKET_ACTIONS[operation]}", resource=bucket_arn, context=prefix)
        return
    if operation not in _S3_OBJECT_ACTIONS:
        raise UnknownCall(f"s3:{operation}")
    if params.get("CopySource"):
        source = params["CopySource"]
        action = "s3:GetObjectVersion" if source.get("VersionId") else "s3:GetObject"
        yield Request(action=action, resource=f"arn:aws:s3:::{source['Bucket']}/{source['Key']}")
    # Where a policy demands this header, S3 takes no other value of it, and no copies.
    new = operation in ("CompleteMultipartUpload", "PutObject") and params.get("IfNoneMatch") == "*"
    given = (("s3:if-none-match", ("*",)),) if new else ()
    objects = params["Delete"]["Objects"] if operation == "DeleteObjects" else [params]
    for each in objects:
        version = "Version" if operation in ("GetObject", "DeleteObjects") and each.get("VersionId") else ""
        action = f"s3:{_S3_OBJECT_ACTIONS[operation]}{version}"
        yield Request(action=action, resource=f"{bucket_arn}/{each['Key']}", context=given)


def _sqs(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation == "StartMessageMoveTask":
        for action in _REDRIVE:
            yield Request(action=f"sqs:{action}", resource=params["SourceArn"])
        # Without a destination the messages go back to the source queue of the dead-letter queue.
        target = params.get("DestinationArn") or params["SourceArn"].removesuffix("-dead")
        yield Request(action="sqs:SendMessage", resource=target)
        return
    if "QueueUrl" in params:
        account, name = urlsplit(params["QueueUrl"]).path.split("/")[-2:]
    elif "QueueName" in params:
        account, name = params.get("QueueOwnerAWSAccountId") or DEFAULT_ACCOUNT_ID, params["QueueName"]
    else:
        raise UnknownCall(f"sqs:{operation}")
    arn = f"arn:aws:sqs:{REGION}:{account}:{name}"
    yield Request(action=f"sqs:{operation.removesuffix('Batch')}", resource=arn)
    if operation == "CreateQueue" and params.get("tags"):
        yield Request(action="sqs:TagQueue", resource=arn)


def _ssm(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if "Name" not in params:
        raise UnknownCall(f"ssm:{operation}")
    yield Request(action=f"ssm:{operation}", resource=f"arn:aws:ssm:{HOME}:parameter/{params['Name'].lstrip('/')}")


def _scheduler(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation == "ListSchedules":
        # The reference names no resource and no condition key for this action.
        yield Request(action="scheduler:ListSchedules", resource="*")
        return
    if operation not in ("CreateSchedule", "UpdateSchedule", "GetSchedule", "DeleteSchedule"):
        raise UnknownCall(f"scheduler:{operation}")
    name = f"{params.get('GroupName') or 'default'}/{params['Name']}"
    yield Request(action=f"scheduler:{operation}", resource=f"arn:aws:scheduler:{HOME}:schedule/{name}")
    if "Target" in params:
        service = (("iam:PassedToService", (SCHEDULER,)),)
        yield Request(action="iam:PassRole", resource=params["Target"]["RoleArn"], context=service)


def _lambda(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation != "Invoke":
        raise UnknownCall(f"lambda:{operation}")
    name = params["FunctionName"]
    arn = name if name.startswith("arn:") else f"arn:aws:lambda:{HOME}:function:{name}"
    yield Request(action="lambda:InvokeFunction", resource=arn)


def _glue(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation != "StartJobRun":
        raise UnknownCall(f"glue:{operation}")
    yield Request(action="glue:StartJobRun", resource=f"arn:aws:glue:{HOME}:job/{params['JobName']}")


_RESOLVERS: dict[str, Callable[[str, Mapping[str, Any]], Iterable[Request]]] = {
    "glue": _glue,
    "lambda": _lambda,
    "s3": _s3,
    "scheduler": _scheduler,
    "sqs": _sqs,
    "ssm": _ssm,
}
