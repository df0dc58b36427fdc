"""The consumer: Lambda calls it with due messages."""

# region consumer
import os
from typing import Any

from tidewheel import ReceivedMessage, Tidewheel, Worker

worker = Worker(Tidewheel(os.environ["TIDEWHEEL_SERVICE"]))


@worker.handles("orders/billing", retry=None)
def bill(message: ReceivedMessage) -> None:
    """Bills a due order. After an error, the message comes again. After eight times, it is a dead letter."""
    print("unpaid since", message.sent_at, "order", message.json()["order"])


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Claims and bills due orders. A cancelled order is dropped."""
    return worker.lambda_handler(event)


# endregion
