"""Delayed messages for Amazon SQS: any delay, at S3 prices, with no server.

Importing this package costs next to nothing: its names are loaded when first used, and boto3 with the client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.errors import (
        AlreadyExists,
        Contended,
        InvalidValue,
        NotConfigured,
        QueueUnavailable,
        SendFailed,
        TidewheelError,
        UnknownSubscription,
        UnknownTopic,
    )
    from tidewheel.message import Encoding, Message, MessageId, Receipt, ReceivedMessage, parse_received
    from tidewheel.sdk.client import Tidewheel
    from tidewheel.sdk.consumer import DeleteFailed
    from tidewheel.sdk.stats import SubscriptionStats, TopicStats
    from tidewheel.settings import ServiceSettings, TopicSettings
    from tidewheel.subscription import Subscription

_HOME = {
    "AlreadyExists": "errors",
    "Contended": "errors",
    "DeleteFailed": "sdk.consumer",
    "Encoding": "message",
    "InvalidValue": "errors",
    "Message": "message",
    "MessageId": "message",
    "NotConfigured": "errors",
    "QueueUnavailable": "errors",
    "Receipt": "message",
    "ReceivedMessage": "message",
    "SendFailed": "errors",
    "ServiceSettings": "settings",
    "Subscription": "subscription",
    "SubscriptionStats": "sdk.stats",
    "Tidewheel": "sdk.client",
    "TidewheelError": "errors",
    "TopicSettings": "settings",
    "TopicStats": "sdk.stats",
    "UnknownSubscription": "errors",
    "UnknownTopic": "errors",
    "parse_received": "message",
}

__all__ = [
    "AlreadyExists",
    "Contended",
    "DeleteFailed",
    "Encoding",
    "InvalidValue",
    "Message",
    "MessageId",
    "NotConfigured",
    "QueueUnavailable",
    "Receipt",
    "ReceivedMessage",
    "SendFailed",
    "ServiceSettings",
    "Subscription",
    "SubscriptionStats",
    "Tidewheel",
    "TidewheelError",
    "TopicSettings",
    "TopicStats",
    "UnknownSubscription",
    "UnknownTopic",
    "__version__",
    "parse_received",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("tidewheel")
    elif name in _HOME:
        value = getattr(import_module(f"tidewheel.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
