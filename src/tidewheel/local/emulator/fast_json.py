"""Writes moto's JSON answers without its general serializer, for frequent operations.

Why: moto walks the service model and tries some ten spellings of each key in each value: most of the time of an SQS
or DynamoDB request. The results of these operations are plain dicts already spelled as AWS spells them.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from moto.core import responses
from moto.core.responses import ActionResult
from moto.core.utils import method_names_from_class
from moto.dynamodb.responses import DynamoHandler
from moto.sqs.responses import SQSResponse

from tidewheel.local.emulator.patching import Patches

_PLAIN = frozenset(
    {
        *("BatchGetItem", "DeleteItem", "GetItem", "PutItem", "Query", "TransactGetItems", "TransactWriteItems"),
        *("DeleteMessage", "DeleteMessageBatch", "ReceiveMessage", "SendMessage", "SendMessageBatch", "UpdateItem"),
    }
)


def install(patches: Patches) -> None:
    """Replaces the serializer of the two response classes, and moto's slow request ids."""
    for response_class in (SQSResponse, DynamoHandler):
        patches.set(response_class, "serialized", _faster(response_class.serialized))
    numbers = itertools.count(1)

    def request_id(headers: dict[str, str]) -> str:
        headers["x-amzn-requestid"] = name = f"local-{next(numbers)}"
        return name

    patches.set(responses, "gen_amzn_requestid_long", request_id)
    # moto looks through all attributes of a service's class at each request.
    patches.set(responses, "method_names_from_class", cache(method_names_from_class))


def _faster(general: Callable[[Any, ActionResult], Any]) -> Callable[[Any, ActionResult], Any]:
    def serialized(self: Any, action_result: ActionResult) -> Any:
        result = action_result.result
        if not isinstance(result, dict) or self._get_action() not in _PLAIN or "x-amz-target" not in self.headers:
            return general(self, action_result)
        headers = {"Content-Type": "application/x-amz-json-1.0", **self.response_headers}
        return 200, headers, json.dumps(result, default=encoded)

    return serialized


def encoded(value: Any) -> Any:
    """Returns a value of an answer as JSON has it, for values that `json` does not know."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC).timestamp()
    raise TypeError(f"{type(value).__name__} in an answer of moto")
