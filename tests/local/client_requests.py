"""Lists the AWS requests of each client call and of rare work. Changes here change the users' bill.

Units are those of small items and messages, as in `tidewheel.cost.requests`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewheel.cost.requests import FLOWS, Asked, Flow

_TAKEN = {"sqs.ReceiveMessage": 1, "sqs.DeleteMessageBatch": 1, "lambda.Invoke": 1}

_RARE: Mapping[str, Mapping[str, Asked]] = {
    "ingest": {
        # No message waited: sets the next slot and creates the first slot's schedule.
        "woken": Asked({"scheduler.CreateSchedule": 1}, writes=1),
        # The slots of direct rows can no longer be scheduled, and are sealed now.
        "sealed": Asked({"dynamodb.UpdateItem": 1}, writes=1),
        # A message with a free key ...
        "key": Asked({"dynamodb.PutItem": 1}, writes=1),
        # ... a message that replaces another ...
        "upsert": Asked(
            {"dynamodb.PutItem": 1, "dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1}, reads=1, writes=5
        ),
        # ... and a message that loses against another.
        "loser": Asked({"dynamodb.PutItem": 2, "dynamodb.GetItem": 1}, reads=1, writes=2),
        # A rescheduled message: reads that it may replace the other, whose tombstone it writes.
        "moved": Asked({"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1}, reads=2, writes=4),
        # Direct messages of a subscription that is paused, or whose queue is broken, are kept in the table.
        "parked": Asked({"dynamodb.TransactWriteItems": 1}, writes=9),
    },
    "dispatch": {
        # Recurring messages: reads the rules and puts an object with the plan's recurring messages.
        "recurring": Asked({"dynamodb.Query": 1, "s3.PutObject": 1}, reads=1),
    },
    "deliver": {
        # A resumed subscription's job: parks become jobs, ten in each request ...
        "catch_up": Asked({**_TAKEN, "dynamodb.GetItem": 3, "dynamodb.Query": 1}, reads=4),
        "ten_parks": Asked({"sqs.SendMessageBatch": 1}),
        # ... and each plan behind the cursor is handed out. Small plans are delivered at once.
        "handed_out": Asked(
            {"dynamodb.GetItem": 2, "dynamodb.Query": 1, "dynamodb.TransactWriteItems": 1}, reads=3, writes=5
        ),
        # Leases, sends and deletes a park.
        "drain": Asked(
            {**_TAKEN, "dynamodb.GetItem": 2, "dynamodb.UpdateItem": 1, "dynamodb.DeleteItem": 1}, reads=2, writes=5
        ),
    },
    "receive": {
        # A consumer claims a message, in a topic with `cancel_until="consumed"`.
        "claim": Asked({"dynamodb.UpdateItem": 1}, writes=1),
    },
    "sweep": {
        # A client lowered the next slot, for a recurring message or a new subscription. The sweep creates the schedule.
        "armed": Asked(
            {"dynamodb.GetItem": 1, "scheduler.CreateSchedule": 1, "dynamodb.UpdateItem": 1}, reads=1, writes=3
        ),
        # A deleted topic with a subscription and a ledger: emptied first ...
        "emptied_topic": Asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 42,
                "dynamodb.UpdateItem": 2,
                "dynamodb.DeleteItem": 2,
                "s3.ListObjectsV2": 10,
                "s3.DeleteObjects": 2,
                "scheduler.ListSchedules": 1,
                "scheduler.DeleteSchedule": 1,
            },
            reads=45,
            writes=8,
        ),
        # ... and checked again before its name is free.
        "freed_topic": Asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 21,
                "dynamodb.PutItem": 1,
                "dynamodb.UpdateItem": 1,
                "dynamodb.DeleteItem": 1,
                "dynamodb.TransactWriteItems": 1,
                "s3.ListObjectsV2": 10,
                "scheduler.ListSchedules": 1,
            },
            reads=24,
            writes=8,
        ),
    },
}
"""Flow -> its measures that no bill contains."""


def _flow(requests: Mapping[str, int], *, reads: float = 0, writes: float = 0, **more: Asked) -> Flow:
    return Flow(None, {"call": Asked(requests, reads, writes), **more})


ALL_FLOWS: Mapping[str, Flow] = {
    **{name: Flow(flow.function, {**flow.asked, **_RARE.get(name, {})}) for name, flow in FLOWS.items()},
    # Writes the tombstone and checks the topic state.
    "cancel by id": _flow({"dynamodb.TransactWriteItems": 1}, writes=4),
    # Reads the key's entry, and writes it with the tombstone.
    "cancel by key": _flow({"dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1}, reads=1, writes=6),
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
        reads=4,
        writes=5,
    ),
    # Reads topic state, tombstone, buckets and subscriptions, and the segment of a ledger.
    "get": _flow(
        {"dynamodb.GetItem": 3, "dynamodb.Query": 2, "s3.GetObject": 1},
        reads=5,
    ),
    "peek": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.Query": 1},
        reads=2,
        # A ledger's segment, and the tombstones of its slots.
        segment=Asked({"dynamodb.Query": 1, "s3.GetObject": 1}, reads=1),
    ),
    # Reads topic state, buckets, subscriptions, open deliveries and parks.
    "stats": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.Query": 4},
        reads=5,
        # The subscription's queue and dead-letter queue.
        subscription=Asked({"sqs.GetQueueAttributes": 2}),
    ),
    "pause": _flow({"dynamodb.GetItem": 1, "dynamodb.UpdateItem": 1}, reads=1, writes=1),
    "resume": _flow(
        {"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1, "sqs.SendMessageBatch": 1},
        reads=2,
        writes=6,
    ),
    # Reads topic state and buckets, and raises the purge mark of the topic state.
    "purge": _flow(
        {"dynamodb.GetItem": 1, "dynamodb.Query": 1, "dynamodb.UpdateItem": 1},
        reads=2,
        writes=1,
        # Emptied ledgers go to the trash, a transaction for each hundred, and are collected soon.
        emptied=Asked(
            {"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1, "dynamodb.UpdateItem": 1},
            reads=2,
            writes=11,
        ),
    ),
    # Reads topic state, subscription and plans.
    "replay": _flow(
        {"dynamodb.GetItem": 2, "dynamodb.Query": 2},
        reads=4,
        # A plan's delivery, a change of its next check, and its jobs.
        plan=Asked(
            {
                "dynamodb.GetItem": 1,
                "dynamodb.TransactWriteItems": 1,
                "dynamodb.UpdateItem": 1,
                "sqs.SendMessageBatch": 1,
            },
            reads=1,
            writes=10,
        ),
    ),
    # Reads topic state and rule before and after, and the note of an ended rule. A transaction writes the rule and
    # changes the topic state.
    "send recurring": _flow({"dynamodb.GetItem": 5, "dynamodb.TransactWriteItems": 1}, reads=5, writes=6),
    "cancel recurring": _flow(
        {"dynamodb.GetItem": 2, "dynamodb.PutItem": 1, "dynamodb.TransactWriteItems": 1}, reads=2, writes=5
    ),
    # Lists the topic first.
    "create topic": _flow({"dynamodb.GetItem": 2, "dynamodb.PutItem": 2}, reads=2, writes=2),
    # The sweep does the rest.
    "delete topic": _flow({"dynamodb.GetItem": 1, "dynamodb.UpdateItem": 1}, reads=1, writes=3),
    # Includes the queue and dead-letter queue, and asks the sweep for a checkpoint.
    "create subscription": _flow(
        {
            "dynamodb.GetItem": 5,
            "dynamodb.TransactWriteItems": 1,
            "dynamodb.UpdateItem": 1,
            "sqs.CreateQueue": 2,
            "sqs.GetQueueUrl": 2,
            "sqs.GetQueueAttributes": 1,
            "sqs.ListQueueTags": 1,
        },
        reads=5,
        writes=8,
    ),
}
"""Flow -> its requests and units, those of the functions and of the clients."""

CALLS: Mapping[str, tuple[str, ...]] = {
    "send": ("send", "client"),
    "send_many": ("send", "client"),
    "cancel": ("cancel by id", "cancel by key", "client"),
    "cancel_many": ("cancel by id", "client"),
    "reschedule": ("reschedule",),
    "deliver_now": ("reschedule",),
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
    "find": _SELDOM,
    "estimate": _SELDOM,
    "cancel_where": _SELDOM,
    "reschedule_where": _SELDOM,
    "delete_subscription": _SELDOM,
    "topics": _LISTING,
    "subscriptions": _LISTING,
    "recurring": _LISTING,
    "damaged": _LISTING,
    "ledgers": _LISTING,
    "read_body": _SELDOM,
    "dead_letters": _SELDOM,
    "health": "the requests of stats for each topic, and some for the service",
    "retry_damaged": _SELDOM,
    "restore_damaged": _SELDOM,
    "give_up_damaged": _SELDOM,
    "redrive": "SQS moves the messages itself",
    "redrive_service": _SELDOM,
    "refused": _SELDOM,
}
"""A client's other calls -> why no bill contains these calls."""
