"""Lists the AWS requests of each flow, measured line by line by `tests/local/test_request_counts*.py`.

Other calls of clients: `tests/local/client_requests.py`.

Units are those of small items, up to 1 KB written and 4 KB read, and of SQS payloads up to 64 KiB. The additional cost
of larger ledgers, plans and payloads depends on the workload: see `tidewheel.cost.bill`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewheel.cost.flow import Asked, Flow


def _asked(requests: Mapping[str, int], units: Mapping[str, float]) -> Asked:
    return Asked(requests=requests, units=units)


_SENDS = _asked({"sqs.SendMessageBatch": 1}, {"sqs.request": 1})
_SEGMENT = _asked({"s3.GetObject": 1}, {"s3.get": 1})
_TAKEN = {"sqs.ReceiveMessage": 1, "sqs.DeleteMessageBatch": 1}
_FIRED = {"scheduler.Invoke": 1, "lambda.Invoke": 1}
_FIRED_UNITS = {"scheduler.invocation": 1.0, "lambda.invocation": 1.0}

_INGEST = Flow(
    function="ingest",
    asked={
        "call": _asked({"lambda.Invoke": 1}, {"lambda.invocation": 1}),
        # The event source mapping receives and deletes packs, ten at a time.
        "ten_packs": _asked(_TAKEN, {"sqs.request": 2}),
        # Reads each topic's state to find the first open slot.
        "topic": _asked({"dynamodb.GetItem": 1}, {"dynamodb.read": 1}),
        # Puts the ledger, then commits its bucket and the topic state.
        "ledger": _asked({"s3.PutObject": 1, "dynamodb.TransactWriteItems": 1}, {"s3.put": 1, "dynamodb.write": 4}),
        # No message waited: sets the next slot and creates the first slot's schedule.
        "woken": _asked({"scheduler.CreateSchedule": 1}, {"dynamodb.write": 1}),
        # All waiting messages are due later: lowers the next slot and creates the first slot's schedule.
        "lowered": _asked({"scheduler.CreateSchedule": 1}, {"dynamodb.write": 2}),
        # Rows of sealed slots go direct, after a check of tombstones, to all subscriptions.
        "direct": _asked({"dynamodb.Query": 2}, {"dynamodb.read": 2}),
        # The slots of direct rows can no longer be scheduled, and are sealed now.
        "sealed": _asked({"dynamodb.UpdateItem": 1}, {"dynamodb.write": 1}),
        "sends": _SENDS,
        # A message with a free key ...
        "key": _asked({"dynamodb.PutItem": 1}, {"dynamodb.write": 1}),
        # ... a message that replaces another ...
        "upsert": _asked(
            {"dynamodb.PutItem": 1, "dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1},
            {"dynamodb.write": 5, "dynamodb.read": 1},
        ),
        # ... and a message that loses against another.
        "loser": _asked({"dynamodb.PutItem": 2, "dynamodb.GetItem": 1}, {"dynamodb.write": 2, "dynamodb.read": 1}),
        # A rescheduled message: reads that it may replace the other, whose tombstone it writes.
        "moved": _asked(
            {"dynamodb.GetItem": 2, "dynamodb.TransactWriteItems": 1}, {"dynamodb.write": 4, "dynamodb.read": 2}
        ),
        # Direct messages of a subscription that is paused, or whose queue is broken, are kept in the table.
        "parked": _asked({"dynamodb.TransactWriteItems": 1}, {"dynamodb.write": 7}),
    },
)
_DISPATCH = Flow(
    function="dispatch",
    asked={
        "call": _asked(
            {
                **_FIRED,
                "dynamodb.GetItem": 1,  # the topic state
                "dynamodb.UpdateItem": 1,  # seal: no new ledger for the slot from now on
                "dynamodb.Query": 3,  # buckets; tombstones of the plan's slots; subscriptions
                "dynamodb.TransactWriteItems": 1,  # the plan, all cursors and deliveries, and the next slot
            },
            {**_FIRED_UNITS, "dynamodb.read": 4, "dynamodb.write": 7},
        ),
        # A subscription's cursor and delivery, in the same transaction.
        "subscription": _asked({}, {"dynamodb.write": 5}),
        # The next slot's schedule.
        "armed": _asked({"scheduler.CreateSchedule": 1}, {}),
        # Dispatch delivers a small plan itself: reads each segment once for all subscriptions ...
        "segment": _SEGMENT,
        "sends": _SENDS,
        # ... and deletes each subscription's delivery.
        "inline": _asked({"dynamodb.DeleteItem": 1}, {"dynamodb.write": 2}),
        # Recurring messages: reads the rules and puts an object with the plan's recurring messages.
        "recurring": _asked({"dynamodb.Query": 1, "s3.PutObject": 1}, {"dynamodb.read": 1, "s3.put": 1}),
        # A larger plan's parts go to the work queue, in tens for each subscription.
        "ten_parts": _SENDS,
    },
)
_DELIVER = Flow(
    function="deliver",
    asked={
        "call": _asked(
            {
                **_TAKEN,
                "lambda.Invoke": 1,
                "dynamodb.UpdateItem": 2,  # the lease; the part is done
                "dynamodb.GetItem": 2,  # topic state and plan
            },
            {"sqs.request": 2, "lambda.invocation": 1, "dynamodb.read": 2, "dynamodb.write": 2},
        ),
        "segment": _SEGMENT,
        "sends": _SENDS,
        # The last part deletes the delivery.
        "complete": _asked({"dynamodb.DeleteItem": 1}, {"dynamodb.write": 2}),
        # A resumed subscription's job: parks become jobs, ten in each request ...
        "catch_up": _asked(
            {**_TAKEN, "lambda.Invoke": 1, "dynamodb.GetItem": 3, "dynamodb.Query": 1},
            {"sqs.request": 2, "lambda.invocation": 1, "dynamodb.read": 4},
        ),
        "ten_parks": _SENDS,
        # ... and each plan behind the cursor is handed out. Small plans are delivered at once.
        "handed_out": _asked(
            {"dynamodb.GetItem": 2, "dynamodb.Query": 1, "dynamodb.TransactWriteItems": 1},
            {"dynamodb.read": 3, "dynamodb.write": 5},
        ),
        # Leases, sends and deletes a park.
        "drain": _asked(
            {**_TAKEN, "lambda.Invoke": 1, "dynamodb.GetItem": 2, "dynamodb.UpdateItem": 1, "dynamodb.DeleteItem": 1},
            {"sqs.request": 2, "lambda.invocation": 1, "dynamodb.read": 2, "dynamodb.write": 4},
        ),
    },
)
_SWEEP = Flow(
    function="sweep",
    asked={
        # A query for each shard of the index `checks`, for late and due checks. Reads no topic. The rule costs nothing.
        "call": _asked({"lambda.Invoke": 1, "dynamodb.Query": 16}, {"lambda.invocation": 1.0, "dynamodb.read": 8}),
        # Once an hour, the backlog: the whole index, and each topic in the index.
        "hour": _asked({"dynamodb.Query": 16}, {"dynamodb.read": 8}),
        "hour_topic": _asked({"dynamodb.GetItem": 1}, {"dynamodb.read": 1}),
        # A topic whose next check is due: its topic state is read twice.
        "topic": _asked({"dynamodb.GetItem": 2}, {"dynamodb.read": 2}),
        # Once a day: claims and completes the daily job, and lists S3 to find unreferenced objects.
        "orphans": _asked({"dynamodb.UpdateItem": 2, "s3.ListObjectsV2": 7}, {"dynamodb.write": 2, "s3.put": 7}),
        # Once a day for each topic with objects: its checkpoint, and all references to its ledgers.
        "orphans_topic": _asked(
            {
                "dynamodb.GetItem": 3,
                # The keys' sixteen partitions, eventually consistent.
                "dynamodb.Query": 25,
                "s3.ListObjectsV2": 1,
                "s3.GetObject": 1,
                "s3.PutObject": 1,
            },
            {"dynamodb.read": 20, "s3.put": 2, "s3.get": 1},
        ),
        # A client lowered the next slot, for a recurring message or a new subscription. The sweep creates the schedule.
        "armed": _asked(
            {"dynamodb.GetItem": 1, "scheduler.CreateSchedule": 1, "dynamodb.UpdateItem": 1},
            {"dynamodb.read": 1, "dynamodb.write": 3},
        ),
        # A deleted topic with a subscription and a ledger: emptied first ...
        "emptied_topic": _asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 42,
                "dynamodb.UpdateItem": 2,
                "dynamodb.DeleteItem": 2,
                "s3.ListObjectsV2": 9,
                "s3.DeleteObjects": 2,
                "scheduler.ListSchedules": 1,
                "scheduler.DeleteSchedule": 1,
            },
            {"dynamodb.read": 45, "dynamodb.write": 8, "s3.put": 9},
        ),
        # ... and checked again before its name is free.
        "freed_topic": _asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 21,
                "dynamodb.UpdateItem": 1,
                "dynamodb.TransactWriteItems": 1,
                "s3.ListObjectsV2": 9,
                "scheduler.ListSchedules": 1,
            },
            {"dynamodb.read": 24, "dynamodb.write": 6, "s3.put": 9},
        ),
        # Considers a merge after 32 new ledgers: topic state, buckets, and a record of the decision. Ingest set this
        # check, which moved the topic's place in the index.
        "merge": _asked(
            {"dynamodb.GetItem": 1, "dynamodb.Query": 1, "dynamodb.UpdateItem": 1},
            {"dynamodb.read": 2, "dynamodb.write": 5},
        ),
    },
)
_COLLECT = Flow(
    function="dispatch",
    asked={
        "call": _asked(
            {
                "dynamodb.GetItem": 2,  # the topic state, before and after collected_until is raised
                # Subscriptions, deliveries, what is set aside, buckets, trash, tombstones twice, plans' ranges.
                # The keys' sixteen partitions, eventually consistent.
                "dynamodb.Query": 24,
                "dynamodb.UpdateItem": 2,  # collected_until; when to collect next
                "s3.ListObjectsV2": 1,  # the checkpoints
                "s3.GetObject": 1,  # the newest checkpoint
            },
            {"dynamodb.read": 18, "dynamodb.write": 3, "s3.put": 1, "s3.get": 1},
        ),
        # Work is left for a later collection: the topic stays in the index `checks`, at another place.
        "again": _asked({}, {"dynamodb.write": 1}),
        # The topic changed since the newest checkpoint.
        "checkpoint": _asked({"s3.PutObject": 1}, {"s3.put": 1}),
        "plan": _asked({"dynamodb.DeleteItem": 1}, {"dynamodb.write": 1}),
        # Deleting objects is free.
        "bucket": _asked({"dynamodb.DeleteItem": 1, "s3.DeleteObjects": 1}, {"dynamodb.write": 1}),
        "trash": _asked({"dynamodb.DeleteItem": 1, "s3.DeleteObjects": 1}, {"dynamodb.write": 1}),
    },
)
_MERGE = Flow(
    function="compact",
    asked={
        "call": _asked(
            {
                "lambda.Invoke": 1,
                "dynamodb.UpdateItem": 3,  # the merge lease, taken and released; when to collect the trash
                "dynamodb.GetItem": 7,  # the topic state, before the lease, each plan and each swap, and after the last
                "dynamodb.Query": 2,  # buckets, and a check that no merge is left
                "dynamodb.TransactWriteItems": 1,
            },
            # The buckets' items are read twice. The trash has every source's name.
            {"lambda.invocation": 1, "dynamodb.read": 11, "dynamodb.write": 11},
        ),
        # Read by ranges. Its bucket is deleted, and a note is left.
        "source": _asked({"s3.GetObject": 1, "dynamodb.PutItem": 1}, {"s3.get": 1, "dynamodb.write": 3}),
        "output": _asked({"s3.PutObject": 1}, {"s3.put": 1, "dynamodb.write": 2}),
    },
)


FLOWS: Mapping[str, Flow] = {
    "ingest": _INGEST,
    "dispatch": _DISPATCH,
    "deliver": _DELIVER,
    "sweep": _SWEEP,
    "collect": _COLLECT,
    "merge": _MERGE,
    # Every client that sends or changes something reads the topic's state once a minute.
    "client": Flow(function=None, asked={"minute": _asked({"dynamodb.GetItem": 1}, {"dynamodb.read": 1})}),
    # A single pack for any number of messages.
    "send": Flow(function=None, asked={"call": _asked({"sqs.SendMessageBatch": 1}, {"sqs.request": 1})}),
    # A consumer receives and deletes ten messages.
    "receive": Flow(
        function=None,
        asked={"ten": _asked({"sqs.ReceiveMessage": 1, "sqs.DeleteMessageBatch": 1}, {"sqs.request": 2})},
    ),
}
"""Flow -> its requests and units."""
