"""A Lambda function of your own as the consumer of a subscription's queue."""

# region consumer
from typing import Any

from tidewheel import parse_received


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Handles a batch of an SQS event source mapping with ReportBatchItemFailures."""
    failures = []
    for record in event["Records"]:
        try:
            message = parse_received(record)
            print(message.id, message.deliver_at, message.body)
        except Exception as error:
            print(f"{record['messageId']}: {error}")
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


# endregion
