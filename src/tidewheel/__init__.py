"""Delayed messages for Amazon SQS: any delay, at S3 prices, with no server.

Importing this package costs next to nothing: each public name is loaded when first used, and boto3 with the client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # What type checkers see. A test compares these names with those of _HOME.
    from tidewheel.errors import AlreadyExists as AlreadyExists
    from tidewheel.errors import BeingDeleted as BeingDeleted
    from tidewheel.errors import Contended as Contended
    from tidewheel.errors import ExtraMissing as ExtraMissing
    from tidewheel.errors import InvalidValue as InvalidValue
    from tidewheel.errors import LimitExceeded as LimitExceeded
    from tidewheel.errors import NewerLayout as NewerLayout
    from tidewheel.errors import NotConfigured as NotConfigured
    from tidewheel.errors import NotKept as NotKept
    from tidewheel.errors import QueueUnavailable as QueueUnavailable
    from tidewheel.errors import SendFailed as SendFailed
    from tidewheel.errors import TidewheelError as TidewheelError
    from tidewheel.errors import TooManyPurges as TooManyPurges
    from tidewheel.errors import UnknownMessage as UnknownMessage
    from tidewheel.errors import UnknownRecurring as UnknownRecurring
    from tidewheel.errors import UnknownSubscription as UnknownSubscription
    from tidewheel.errors import UnknownTopic as UnknownTopic
    from tidewheel.flows.cancel import Cancelled as Cancelled
    from tidewheel.flows.cancel import TooLate as TooLate
    from tidewheel.flows.purge import Purged as Purged
    from tidewheel.flows.replay import Replayed as Replayed
    from tidewheel.levels import Backoff as Backoff
    from tidewheel.levels import parse_levels as parse_levels
    from tidewheel.message import Encoding as Encoding
    from tidewheel.message import Message as Message
    from tidewheel.message import MessageId as MessageId
    from tidewheel.message import Receipt as Receipt
    from tidewheel.received import ReceivedMessage as ReceivedMessage
    from tidewheel.received import parse_received as parse_received
    from tidewheel.sdk.asynchronous import AsyncTidewheel as AsyncTidewheel
    from tidewheel.sdk.buffered import BufferedSender as BufferedSender
    from tidewheel.sdk.changes import Rescheduled as Rescheduled
    from tidewheel.sdk.client import Tidewheel as Tidewheel
    from tidewheel.sdk.closed import Closed as Closed
    from tidewheel.sdk.consumer import Consumer as Consumer
    from tidewheel.sdk.consumer import DeleteFailed as DeleteFailed
    from tidewheel.sdk.consumer_counts import ConsumerCounts as ConsumerCounts
    from tidewheel.sdk.histogram import EstimatedHistogram as EstimatedHistogram
    from tidewheel.sdk.recurring import RecurringMessage as RecurringMessage
    from tidewheel.sdk.retries import RetryLater as RetryLater
    from tidewheel.sdk.stats import SubscriptionStats as SubscriptionStats
    from tidewheel.sdk.stats import TopicStats as TopicStats
    from tidewheel.sdk.unsent import BufferFull as BufferFull
    from tidewheel.sdk.unsent import FailedMessage as FailedMessage
    from tidewheel.sdk.unsent import FlushFailed as FlushFailed
    from tidewheel.sdk.waiting import MessageState as MessageState
    from tidewheel.sdk.waiting import MessageStatus as MessageStatus
    from tidewheel.sdk.waiting import WaitingMessage as WaitingMessage
    from tidewheel.settings import ServiceSettings as ServiceSettings
    from tidewheel.settings import TopicSettings as TopicSettings
    from tidewheel.subscription import Subscription as Subscription

    __version__: str

_HOME = {
    name: module
    for module, names in {
        "errors": [
            "AlreadyExists",
            "BeingDeleted",
            "Contended",
            "ExtraMissing",
            "InvalidValue",
            "LimitExceeded",
            "NewerLayout",
            "NotConfigured",
            "NotKept",
            "QueueUnavailable",
            "SendFailed",
            "TidewheelError",
            "TooManyPurges",
            "UnknownMessage",
            "UnknownRecurring",
            "UnknownSubscription",
            "UnknownTopic",
        ],
        "flows.cancel": ["Cancelled", "TooLate"],
        "flows.purge": ["Purged"],
        "flows.replay": ["Replayed"],
        "levels": ["Backoff", "parse_levels"],
        "message": ["Encoding", "Message", "MessageId", "Receipt"],
        "received": ["ReceivedMessage", "parse_received"],
        "sdk.asynchronous": ["AsyncTidewheel"],
        "sdk.buffered": ["BufferedSender"],
        "sdk.changes": ["Rescheduled"],
        "sdk.client": ["Tidewheel"],
        "sdk.closed": ["Closed"],
        "sdk.consumer": ["Consumer", "DeleteFailed"],
        "sdk.consumer_counts": ["ConsumerCounts"],
        "sdk.histogram": ["EstimatedHistogram"],
        "sdk.recurring": ["RecurringMessage"],
        "sdk.retries": ["RetryLater"],
        "sdk.stats": ["SubscriptionStats", "TopicStats"],
        "sdk.unsent": ["BufferFull", "FailedMessage", "FlushFailed"],
        "sdk.waiting": ["MessageState", "MessageStatus", "WaitingMessage"],
        "settings": ["ServiceSettings", "TopicSettings"],
        "subscription": ["Subscription"],
    }.items()
    for name in names
}
"""Public name -> its module in this package."""

# Hidden from type checkers: they would take any name for an existing one.
if not TYPE_CHECKING:
    __all__ = list(_HOME)
    __all__.append("__version__")

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            value = version("tidewheel")
        elif name in _HOME:
            value = getattr(import_module(f"tidewheel.{_HOME[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
