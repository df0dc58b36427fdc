"""Lists the AWS requests of each client call: a change here is a change of what users pay.

Units are those of small items and messages, as in `tidewheel.cost.requests`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewheel.cost.flow import Asked, Flow
from tidewheel.cost.requests import FLOWS


def _flow(requests: Mapping[str, int], units: Mapping[str, float], **more: Asked) -> Flow:
    return Flow(function=None, asked={"call": Asked(requests=requests, units=units), **more})


ALL_FLOWS: Mapping[str, Flow] = {
    **FLOWS,
    # Writes the tombstone and checks the topic state.
    "cancel by id": _flow({"dynamodb.TransactWriteItems": 1}, {"dynamodb.write": 4}),
    # Reads the key's entry, and writes it with the tombstone.
    "cancel by key": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1}, {"dynamodb.read": 1, "dynamodb.write": 6}
    ),
    # Reads the message, writes that it may be replaced, writes its tombstone and sends it again.
    "reschedule": _flow(
        {
            "dynamodb.GetItem": 3,
            "dynamodb.Query": 1,
            "s3.GetObject": 1,
            "dynamodb.PutItem": 1,
            "dynamodb.TransactWriteItems": 1,
            "sqs.SendMessageBatch": 1,
        },
        {"dynamodb.read": 4, "s3.get": 1, "dynamodb.write": 5, "sqs.request": 1},
    ),
    # Reads topic state, tombstone and buckets, and the segment of a ledger.
    "get": _flow(
        {"dynamodb.GetItem": 3, "dynamodb.Query": 1, "s3.GetObject": 1},
        {"dynamodb.read": 4, "s3.get": 1},
    ),
    "peek": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.Query": 1},
        {"dynamodb.read": 2},
        # A ledger's segment, and the tombstones of its slots.
        segment=Asked(requests={"dynamodb.Query": 1, "s3.GetObject": 1}, units={"dynamodb.read": 1, "s3.get": 1}),
    ),
    # Reads topic state, buckets, subscriptions, open deliveries, parks and set-aside items.
    "stats": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.Query": 5},
        {"dynamodb.read": 6},
        # The subscription's queue and dead-letter queue.
        subscription=Asked(requests={"sqs.GetQueueAttributes": 2}, units={"sqs.request": 2}),
    ),
    "pause": _flow({"dynamodb.GetItem": 1, "dynamodb.UpdateItem": 1}, {"dynamodb.read": 1, "dynamodb.write": 1}),
    "resume": _flow(
        {"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1, "sqs.SendMessageBatch": 1},
        {"dynamodb.read": 2, "dynamodb.write": 6, "sqs.request": 1},
    ),
    # Reads topic state and buckets, and raises the purge mark of the topic state.
    "purge": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.Query": 1, "dynamodb.UpdateItem": 1},
        {"dynamodb.read": 2, "dynamodb.write": 1},
        # Emptied ledgers go to the trash, a transaction for each hundred, and are collected soon.
        emptied=Asked(
            requests={"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1, "dynamodb.UpdateItem": 1},
            units={"dynamodb.read": 2, "dynamodb.write": 11},
        ),
    ),
    # Reads topic state, subscription and plans.
    "replay": _flow(
        {"dynamodb.GetItem": 2, "dynamodb.Query": 2},
        {"dynamodb.read": 4},
        # A plan's delivery, a change of its next check, and its jobs.
        plan=Asked(
            requests={
                "dynamodb.GetItem": 1,
                "dynamodb.TransactWriteItems": 1,
                "dynamodb.UpdateItem": 1,
                "sqs.SendMessageBatch": 1,
            },
            units={"dynamodb.read": 1, "dynamodb.write": 10, "sqs.request": 1},
        ),
    ),
    # Reads topic state and rule before and after. A transaction writes the rule and changes the topic state.
    "send recurring": _flow(
        {"dynamodb.GetItem": 4, "dynamodb.TransactWriteItems": 1}, {"dynamodb.read": 4, "dynamodb.write": 6}
    ),
    "cancel recurring": _flow(
        {"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1}, {"dynamodb.read": 2, "dynamodb.write": 4}
    ),
    "create topic": _flow({"dynamodb.GetItem": 2, "dynamodb.PutItem": 1}, {"dynamodb.read": 2, "dynamodb.write": 1}),
    # The sweep does the rest.
    "delete topic": _flow({"dynamodb.GetItem": 1, "dynamodb.UpdateItem": 1}, {"dynamodb.read": 1, "dynamodb.write": 3}),
    # Includes the queue and dead-letter queue.
    "create subscription": _flow(
        {
            "dynamodb.GetItem": 4,
            "dynamodb.TransactWriteItems": 1,
            "sqs.CreateQueue": 2,
            "sqs.GetQueueUrl": 2,
            "sqs.GetQueueAttributes": 1,
            "sqs.ListQueueTags": 1,
        },
        {"dynamodb.read": 4, "dynamodb.write": 5, "sqs.request": 6},
    ),
}
"""Flow -> its requests and units, those of the functions and of the clients."""

CALLS: Mapping[str, tuple[str, ...]] = {
    "send": ("send", "client"),
    "send_many": ("send", "client"),
    "cancel": ("cancel by id", "cancel by key", "client"),
    "cancel_many": ("cancel by id", "client"),
    "reschedule": ("reschedule",),
    "send_recurring": ("send recurring", "client"),
    "cancel_recurring": ("cancel recurring",),
    "get": ("get",),
    "peek": ("peek",),
    "stats": ("stats",),
    "pause": ("pause",),
    "resume": ("resume",),
    "purge": ("purge",),
    "replay": ("replay",),
    "create_topic": ("create topic",),
    "delete_topic": ("delete topic",),
    "create_subscription": ("create subscription",),
    "receive": ("receive",),
    "delete": ("receive",),
}
"""A client's call -> its flows."""

_SELDOM = "a few requests when somebody changes a topic by hand"
_LISTING = "a query or scan, a page of 1 MB a request"

NOT_COUNTED: Mapping[str, str] = {
    "update_topic": _SELDOM,
    "set_filter": _SELDOM,
    "delete_subscription": _SELDOM,
    "topics": _LISTING,
    "subscriptions": _LISTING,
    "recurring": _LISTING,
    "damaged": _LISTING,
    "retry_damaged": _SELDOM,
    "restore_damaged": _SELDOM,
    "give_up_damaged": _SELDOM,
    "redrive": "SQS moves the messages itself",
    "redrive_service": "SQS moves the messages itself",
}
"""A client's other calls -> why no bill contains these calls."""
