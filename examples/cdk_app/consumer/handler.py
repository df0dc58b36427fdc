"""The consumer: Lambda calls it with due messages."""

# region consumer
import json
from typing import Any

from tidewheel import parse_received


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Bills due orders. A failed order comes again, and becomes a dead letter after five attempts."""
    failures = []
    for record in event["Records"]:
        try:
            message = parse_received(record)
            print("unpaid since", message.sent_at, "order", json.loads(message.body)["order"])
        except (KeyError, ValueError) as error:
            print(record["messageId"], error)
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


# endregion
