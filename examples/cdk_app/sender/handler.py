"""The sender: an order came in, or was paid."""

# region sender
import os
from typing import Any

from tidewheel import Tidewheel

tidewheel = Tidewheel(os.environ["TIDEWHEEL_SERVICE"])


def handler(event: dict[str, Any], context: object) -> None:  # noqa: ARG001
    """Sends a reminder for in three days, or cancels it when the order is paid."""
    key = f"order {event['order']}"
    if event["paid"]:
        tidewheel.cancel("orders", key=key)
    else:
        tidewheel.send("orders", {"order": event["order"]}, delay="3d", key=key, attributes={"kind": "reminder"})


# endregion
