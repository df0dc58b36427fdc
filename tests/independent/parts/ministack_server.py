"""Runs MiniStack with the mends that the story needs: see `tests.independent.differences`."""

import hashlib
import json
import re
import tempfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ministack.app import main
from ministack.core import iam_actions, lambda_runtime
from ministack.services import lambda_svc, sqs

_concurrency, _context = lambda_svc._sqs_esm_concurrency, iam_actions.dynamodb_service_context
_action, _arn = iam_actions.extract_iam_action, iam_actions.extract_resource_arn
_NAME = re.compile(r"(?<![:#.\w])[a-z]\w*+(?!\()")
"""An attribute in an expression: keywords are in capitals, and functions have a bracket."""


def concurrency(mapping: dict[str, Any], *given: Any) -> int:
    """Takes CloudFormation's number parameters, which MiniStack hands on as text, for numbers."""
    scaling = {name: int(value) for name, value in (mapping.get("ScalingConfig") or {}).items()}
    return int(_concurrency({**mapping, "ScalingConfig": scaling}, *given))


class Archive(zipfile.ZipFile):
    """A function's archive, which is unpacked once for all its workers."""

    unpacking = threading.Lock()

    def extractall(self, path: Any = None, *_: Any) -> None:
        """Makes a folder a link to the unpacked archive."""
        content = repr([(each.filename, each.CRC) for each in self.infolist()])
        unpacked = Path(tempfile.gettempdir()) / hashlib.sha256(content.encode()).hexdigest()
        with self.unpacking:
            if not unpacked.exists():
                super().extractall(unpacked)
        Path(path).rmdir()
        Path(path).symlink_to(unpacked)


def action(service: str, *given: Any) -> str | None:
    """Calls a batch's action by its name in policies."""
    found: str | None = _action(service, *given)
    return found.removesuffix("Batch") if found and service == "sqs" else found


def arn(service: str, method: str, path: str, headers: Any, body: bytes, query: Any, *given: Any) -> str:
    """Names a schedule's group."""
    found: str = _arn(service, method, path, headers, body, query, *given)
    if service != "scheduler" or ":schedule/" not in found:
        return found
    group = json.loads(body)["GroupName"] if body else query["groupName"]
    return found.replace(":schedule/default/", f":schedule/{group if isinstance(group, str) else group[0]}/")


def context(body: bytes) -> dict[str, Any]:
    """Adds the partition keys of a request, and the attributes of a write, for a transaction those of all its items."""
    request = json.loads(body or b"{}")
    parts = [each for item in request.get("TransactItems", ()) for each in item.values()]
    parts += [{"Key": key} for table in request.get("RequestItems", {}).values() for key in table.get("Keys", ())]
    keys, names = [each[name] for each in parts or [request] for name in ("Key", "Item") if name in each], set[str]()
    for each in parts or [request]:
        if not each.keys().isdisjoint({"Item", "UpdateExpression", "ConditionExpression"}):
            text = f"{each.get('UpdateExpression', '')} {each.get('ConditionExpression', '')}"
            names |= {*each.get("ExpressionAttributeNames", {}).values(), *_NAME.findall(text)}
            names |= {*each.get("Key", {}), *each.get("Item", {})}
    partitions = [key["pk"]["S"] for key in keys]
    if "IndexName" not in request and "KeyConditionExpression" in request:
        partitions.append(request["ExpressionAttributeValues"][":pk"]["S"])
    added = {"dynamodb:LeadingKeys": partitions, "dynamodb:Attributes": sorted(names)}
    return {**_context(body), **{name: value for name, value in added.items() if value}}


def dead_letter_sources(request: Any, _: str) -> dict[str, Any]:
    """Answers ListDeadLetterSourceQueues."""
    dead = sqs._get_q(request["QueueUrl"], "sqs:ListDeadLetterSourceQueues")["attributes"]["QueueArn"]
    policies = {url: each["attributes"].get("RedrivePolicy", "{}") for url, each in sqs._queues.items()}
    return {"queueUrls": [url for url, text in policies.items() if json.loads(text).get("deadLetterTargetArn") == dead]}


def move(request: Any, _: str) -> dict[str, Any]:
    """Answers StartMessageMoveTask, when all messages are moved."""
    urls = {each["attributes"]["QueueArn"]: url for url, each in sqs._queues.items()}
    dead, to = sqs._get_q(urls[request["SourceArn"]], "sqs:StartMessageMoveTask"), urls[request["DestinationArn"]]
    while dead["messages"]:
        each = dead["messages"].pop(0)
        again = {"QueueUrl": to, "MessageBody": each["body"], "MessageAttributes": each["message_attributes"]}
        sqs._act_send_message(again, to)
    return {"TaskHandle": "moved"}


lambda_svc._sqs_esm_concurrency = concurrency
lambda_runtime.zipfile = SimpleNamespace(**{**vars(zipfile), "ZipFile": Archive})
iam_actions.extract_iam_action = action
iam_actions.extract_resource_arn = arn
iam_actions.dynamodb_service_context = context
sqs._HANDLERS |= {"ListDeadLetterSourceQueues": dead_letter_sources, "StartMessageMoveTask": move}

main()
