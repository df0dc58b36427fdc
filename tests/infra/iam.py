"""As much of IAM as the policies here need: what an AWS call asks for, and whether statements allow it.

It knows no more than it must: a condition or a call that it does not know is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Any
from urllib.parse import urlsplit

HOME = "us-east-1:123456789012"
WRITES = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
REDRIVE = ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "GetQueueAttributes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one call asks IAM for.

    Attributes:
        action: such as sqs:SendMessage.
        resource: its ARN.
        context: condition keys that the call has, with their values.
    """

    action: str
    resource: str
    context: tuple[tuple[str, tuple[str, ...]], ...] = ()


def allowed(statements: Iterable[Mapping[str, Any]], request: Request) -> bool:
    """Whether some statement allows a request and none denies it."""
    effects = {statement["Effect"] for statement in statements if _applies(statement, request)}
    return "Allow" in effects and "Deny" not in effects


def matching(statements: Iterable[Mapping[str, Any]], request: Request) -> list[Mapping[str, Any]]:
    """The statements that allow a request."""
    return [each for each in statements if each["Effect"] == "Allow" and _applies(each, request)]


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    actions = [action.lower() for action in _many(statement["Action"])]
    return (
        any(_like(action, request.action.lower()) for action in actions)
        and any(_like(resource, request.resource) for resource in _many(statement["Resource"]))
        and all(
            _holds(operator, values, dict(request.context).get(key, ()))
            for operator, keys in statement.get("Condition", {}).items()
            for key, values in keys.items()
        )
    )


def _holds(operator: str, wanted: str | Sequence[str], given: Sequence[str]) -> bool:
    values = _many(wanted)
    if operator == "Null":
        return not given if values == ["true"] else bool(given)
    if operator == "ForAllValues:StringEquals":
        return all(value in values for value in given)
    if operator == "ForAllValues:StringLike":
        return all(any(_like(pattern, value) for pattern in values) for value in given)
    raise NotImplementedError(f"condition operator {operator}")


def _like(pattern: str, text: str) -> bool:
    """Matches * and ?, as IAM does; brackets are themselves."""
    return re.match(translate(pattern.replace("[", "[[]")), text) is not None


def _many(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def requests_of(service: str, operation: str, params: Mapping[str, Any]) -> list[Request]:
    """Returns what a call asks for, as the service authorization reference has it.

    Args:
        service, operation, params: as boto3's client has them.
    """
    return list({"dynamodb": _dynamodb, "s3": _s3, "sqs": _sqs, "ssm": _ssm}[service](operation, params))


def _dynamodb(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation == "TransactWriteItems":
        parts = [(WRITES[kind], part) for entry in params["TransactItems"] for kind, part in entry.items()]
    elif operation == "TransactGetItems":
        parts = [("GetItem", entry["Get"]) for entry in params["TransactItems"]]
    elif operation == "BatchGetItem":
        tables = params["RequestItems"].items()
        parts = [(operation, {"TableName": table, "Key": key}) for table, part in tables for key in part["Keys"]]
    else:
        parts = [(operation, params)]
    for action, part in parts:
        arn = f"arn:aws:dynamodb:{HOME}:table/{part['TableName']}"
        if "IndexName" in part:
            arn += f"/index/{part['IndexName']}"
        keys = () if action == "Scan" else (("dynamodb:LeadingKeys", (_partition(part),)),)
        yield Request(action=f"dynamodb:{action}", resource=arn, context=keys)


def _partition(part: Mapping[str, Any]) -> str:
    if "KeyConditionExpression" in part:
        [name] = re.findall(r"^\w+ = (:\w+)", part["KeyConditionExpression"])
        return str(part["ExpressionAttributeValues"][name]["S"])
    return str((part.get("Key") or part["Item"])["pk"]["S"])


def _s3(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation in ("ListObjectsV2", "HeadBucket"):
        yield Request(action="s3:ListBucket", resource=f"arn:aws:s3:::{params['Bucket']}")
        return
    if operation == "CopyObject":
        source = params["CopySource"]
        yield Request(action="s3:GetObject", resource=f"arn:aws:s3:::{source['Bucket']}/{source['Key']}")
    keys = [each["Key"] for each in params["Delete"]["Objects"]] if operation == "DeleteObjects" else [params["Key"]]
    action = {"HeadObject": "GetObject", "CopyObject": "PutObject", "DeleteObjects": "DeleteObject"}.get(
        operation, operation
    )
    assert action in ("GetObject", "PutObject", "DeleteObject"), operation
    for key in keys:
        yield Request(action=f"s3:{action}", resource=f"arn:aws:s3:::{params['Bucket']}/{key}")


def _sqs(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    if operation == "StartMessageMoveTask":
        for action in REDRIVE:
            yield Request(action=f"sqs:{action}", resource=params["SourceArn"])
        # Without a destination the messages go back to the queue whose dead-letter queue it is.
        target = params.get("DestinationArn") or params["SourceArn"].removesuffix("-dead")
        yield Request(action="sqs:SendMessage", resource=target)
        return
    name = params["QueueName"] if "QueueName" in params else urlsplit(params["QueueUrl"]).path.rpartition("/")[2]
    yield Request(action=f"sqs:{operation.removesuffix('Batch')}", resource=f"arn:aws:sqs:{HOME}:{name}")
    if operation == "CreateQueue" and params.get("tags"):
        yield Request(action="sqs:TagQueue", resource=f"arn:aws:sqs:{HOME}:{name}")


def _ssm(operation: str, params: Mapping[str, Any]) -> Iterable[Request]:
    yield Request(action=f"ssm:{operation}", resource=f"arn:aws:ssm:{HOME}:parameter{params['Name']}")
