"""The function at the far end: it is called with what is due."""

# region consumer
import json
from typing import Any

from tidewheel import parse_received


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Bills what is due; what could not be billed comes again, and is a dead letter after five times."""
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
