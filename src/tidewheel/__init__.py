"""Delayed messages for Amazon SQS: any delay, at S3 prices, with no server.

Importing this package costs next to nothing: its names are loaded when first used, and boto3 with the client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.errors import (
        AlreadyExists,
        BeingDeleted,
        Contended,
        ExtraMissing,
        InvalidValue,
        LimitExceeded,
        NewerLayout,
        NotConfigured,
        NotKept,
        QueueUnavailable,
        SendFailed,
        TidewheelError,
        TooManyPurges,
        UnknownMessage,
        UnknownRecurring,
        UnknownSubscription,
        UnknownTopic,
    )
    from tidewheel.flows.cancel import Cancelled, TooLate
    from tidewheel.flows.purge import Purged
    from tidewheel.flows.replay import Replayed
    from tidewheel.levels import Backoff, parse_levels
    from tidewheel.message import Encoding, Message, MessageId, Receipt
    from tidewheel.received import ReceivedMessage, parse_received
    from tidewheel.sdk.asynchronous import AsyncTidewheel
    from tidewheel.sdk.buffered import BufferedSender
    from tidewheel.sdk.changes import Rescheduled
    from tidewheel.sdk.client import Tidewheel
    from tidewheel.sdk.closed import Closed
    from tidewheel.sdk.consumer import Consumer, DeleteFailed
    from tidewheel.sdk.consumer_counts import ConsumerCounts
    from tidewheel.sdk.histogram import EstimatedHistogram
    from tidewheel.sdk.recurring import RecurringMessage
    from tidewheel.sdk.retries import RetryLater
    from tidewheel.sdk.stats import SubscriptionStats, TopicStats
    from tidewheel.sdk.unsent import BufferFull, FailedMessage, FlushFailed
    from tidewheel.sdk.waiting import MessageState, MessageStatus, WaitingMessage
    from tidewheel.settings import ServiceSettings, TopicSettings
    from tidewheel.subscription import Subscription

_HOME = {
    "AlreadyExists": "errors",
    "AsyncTidewheel": "sdk.asynchronous",
    "Backoff": "levels",
    "BeingDeleted": "errors",
    "BufferFull": "sdk.unsent",
    "BufferedSender": "sdk.buffered",
    "Cancelled": "flows.cancel",
    "Closed": "sdk.closed",
    "Consumer": "sdk.consumer",
    "ConsumerCounts": "sdk.consumer_counts",
    "Contended": "errors",
    "DeleteFailed": "sdk.consumer",
    "Encoding": "message",
    "EstimatedHistogram": "sdk.histogram",
    "ExtraMissing": "errors",
    "FailedMessage": "sdk.unsent",
    "FlushFailed": "sdk.unsent",
    "InvalidValue": "errors",
    "LimitExceeded": "errors",
    "Message": "message",
    "MessageId": "message",
    "MessageState": "sdk.waiting",
    "MessageStatus": "sdk.waiting",
    "NewerLayout": "errors",
    "NotConfigured": "errors",
    "NotKept": "errors",
    "Purged": "flows.purge",
    "QueueUnavailable": "errors",
    "Receipt": "message",
    "ReceivedMessage": "received",
    "RecurringMessage": "sdk.recurring",
    "Replayed": "flows.replay",
    "Rescheduled": "sdk.changes",
    "RetryLater": "sdk.retries",
    "SendFailed": "errors",
    "ServiceSettings": "settings",
    "Subscription": "subscription",
    "SubscriptionStats": "sdk.stats",
    "Tidewheel": "sdk.client",
    "TidewheelError": "errors",
    "TooLate": "flows.cancel",
    "TooManyPurges": "errors",
    "TopicSettings": "settings",
    "TopicStats": "sdk.stats",
    "UnknownMessage": "errors",
    "UnknownRecurring": "errors",
    "UnknownSubscription": "errors",
    "UnknownTopic": "errors",
    "WaitingMessage": "sdk.waiting",
    "parse_levels": "levels",
    "parse_received": "received",
}

__all__ = [
    "AlreadyExists",
    "AsyncTidewheel",
    "Backoff",
    "BeingDeleted",
    "BufferFull",
    "BufferedSender",
    "Cancelled",
    "Closed",
    "Consumer",
    "ConsumerCounts",
    "Contended",
    "DeleteFailed",
    "Encoding",
    "EstimatedHistogram",
    "ExtraMissing",
    "FailedMessage",
    "FlushFailed",
    "InvalidValue",
    "LimitExceeded",
    "Message",
    "MessageId",
    "MessageState",
    "MessageStatus",
    "NewerLayout",
    "NotConfigured",
    "NotKept",
    "Purged",
    "QueueUnavailable",
    "Receipt",
    "ReceivedMessage",
    "RecurringMessage",
    "Replayed",
    "Rescheduled",
    "RetryLater",
    "SendFailed",
    "ServiceSettings",
    "Subscription",
    "SubscriptionStats",
    "Tidewheel",
    "TidewheelError",
    "TooLate",
    "TooManyPurges",
    "TopicSettings",
    "TopicStats",
    "UnknownMessage",
    "UnknownRecurring",
    "UnknownSubscription",
    "UnknownTopic",
    "WaitingMessage",
    "__version__",
    "parse_levels",
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
