"""The consumer: Lambda calls it with due messages."""

# region consumer
import os
from typing import Any

from tidewheel import Consumer, ReceivedMessage, Tidewheel

consumer = Consumer(Tidewheel(os.environ["TIDEWHEEL_SERVICE"]), "orders", "billing")


def bill(message: ReceivedMessage) -> None:
    """Bills a due order. After an error, the message comes again. After five times, it is a dead letter."""
    print("unpaid since", message.sent_at, "order", message.json()["order"])


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001
    """Claims and bills due orders. A cancelled order is dropped."""
    return consumer.handle_event(event, bill)


# endregion
