"""What each flow asks of AWS, as data; `tests/local/test_request_counts*.py` measure every line of it.

The functions' flows stand here, those of clients in `tidewheel.cost.client_requests`.

Units are those of small items, up to 1 KB written and 4 KB read, and of SQS payloads up to 64 KiB. What ledgers, plans
and payloads cost beyond that depends on the workload: see `tidewheel.cost.bill`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewheel.cost.client_requests import CLIENT_FLOWS
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
        # The event source mapping takes and acknowledges packs, ten at a time.
        "ten_packs": _asked(_TAKEN, {"sqs.request": 2}),
        # Each topic's state: where the open slots begin.
        "topic": _asked({"dynamodb.GetItem": 1}, {"dynamodb.read": 1}),
        # Put, then committed: its bucket, and the topic state.
        "ledger": _asked({"s3.PutObject": 1, "dynamodb.TransactWriteItems": 1}, {"s3.put": 1, "dynamodb.write": 4}),
        # Nothing waited: the next slot is set, and the first slot's schedule is made.
        "woken": _asked({"scheduler.CreateSchedule": 1}, {"dynamodb.write": 1}),
        # What waited is due later: the next slot is lowered, and the first slot's schedule is made.
        "lowered": _asked({"scheduler.CreateSchedule": 1}, {"dynamodb.write": 2}),
        # Rows of sealed slots go direct, past tombstones, to all subscriptions.
        "direct": _asked({"dynamodb.Query": 2}, {"dynamodb.read": 2}),
        # Their slots can no longer be scheduled, and are sealed now.
        "sealed": _asked({"dynamodb.UpdateItem": 1}, {"dynamodb.write": 1}),
        "sends": _SENDS,
        # A message with a key that was free ...
        "key": _asked({"dynamodb.PutItem": 1}, {"dynamodb.write": 1}),
        # ... one that takes the place of another ...
        "upsert": _asked(
            {"dynamodb.PutItem": 1, "dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1},
            {"dynamodb.write": 5, "dynamodb.read": 1},
        ),
        # ... and one that loses against another.
        "loser": _asked({"dynamodb.PutItem": 2, "dynamodb.GetItem": 1}, {"dynamodb.write": 2, "dynamodb.read": 1}),
        # One that was rescheduled: the tombstone of the message whose place it takes.
        "moved": _asked(
            {"dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1}, {"dynamodb.write": 4, "dynamodb.read": 1}
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
        # Its cursor and delivery, in the same transaction.
        "subscription": _asked({}, {"dynamodb.write": 5}),
        # The next slot's schedule.
        "armed": _asked({"scheduler.CreateSchedule": 1}, {}),
        # A small plan is delivered by the dispatch: a segment is read once for all subscriptions ...
        "segment": _SEGMENT,
        "sends": _SENDS,
        # ... and each subscription's delivery deleted.
        "inline": _asked({"dynamodb.DeleteItem": 1}, {"dynamodb.write": 2}),
        # Recurring messages: their rules, and an object with what they add to the plan.
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
        # A resumed subscription's job: its parks become jobs, ten a request ...
        "catch_up": _asked(
            {**_TAKEN, "lambda.Invoke": 1, "dynamodb.GetItem": 3, "dynamodb.Query": 1},
            {"sqs.request": 2, "lambda.invocation": 1, "dynamodb.read": 4},
        ),
        "ten_parks": _SENDS,
        # ... and each plan behind its cursor is handed out, and a small one delivered on the way.
        "handed_out": _asked(
            {"dynamodb.GetItem": 2, "dynamodb.Query": 1, "dynamodb.TransactWriteItems": 1},
            {"dynamodb.read": 3, "dynamodb.write": 5},
        ),
        # A park is leased, sent and deleted.
        "drain": _asked(
            {**_TAKEN, "lambda.Invoke": 1, "dynamodb.GetItem": 2, "dynamodb.UpdateItem": 1, "dynamodb.DeleteItem": 1},
            {"sqs.request": 2, "lambda.invocation": 1, "dynamodb.read": 2, "dynamodb.write": 4},
        ),
    },
)
_SWEEP = Flow(
    function="sweep",
    asked={
        # One query for each shard of the index of checks: what is late and what is due; no topic is read.
        "call": _asked({**_FIRED, "dynamodb.Query": 16}, {**_FIRED_UNITS, "dynamodb.read": 8}),
        # Once an hour, the backlog: the whole index, and each topic in it.
        "hour": _asked({"dynamodb.Query": 16}, {"dynamodb.read": 8}),
        "hour_topic": _asked({"dynamodb.GetItem": 1}, {"dynamodb.read": 1}),
        # A topic whose time to be looked at has come: its topic state, by each of the two.
        "topic": _asked({"dynamodb.GetItem": 2}, {"dynamodb.read": 2}),
        # Once a day: the claim, taken and fulfilled, and the listings of what nothing names.
        "orphans": _asked({"dynamodb.UpdateItem": 2, "s3.ListObjectsV2": 4}, {"dynamodb.write": 2, "s3.put": 4}),
        # Once a day each topic that has objects: its checkpoint, and what names its ledgers.
        "orphans_topic": _asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 5,
                "s3.ListObjectsV2": 1,
                "s3.GetObject": 1,
                "s3.PutObject": 1,
            },
            {"dynamodb.read": 8, "s3.put": 2, "s3.get": 1},
        ),
        # A mark that a client lowered, who may not arm the wheel: for a recurring message, or a new subscription.
        "armed": _asked(
            {"dynamodb.GetItem": 1, "scheduler.CreateSchedule": 1, "dynamodb.UpdateItem": 1},
            {"dynamodb.read": 1, "dynamodb.write": 3},
        ),
        # A topic that was deleted, with one subscription and one ledger: it is emptied ...
        "emptied_topic": _asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 38,
                "dynamodb.UpdateItem": 2,
                "dynamodb.DeleteItem": 2,
                "s3.ListObjectsV2": 7,
                "s3.DeleteObjects": 2,
                "scheduler.ListSchedules": 1,
                "scheduler.DeleteSchedule": 1,
            },
            {"dynamodb.read": 41, "dynamodb.write": 8, "s3.put": 7},
        ),
        # ... and looked at once more before its name is free again.
        "freed_topic": _asked(
            {
                "dynamodb.GetItem": 3,
                "dynamodb.Query": 19,
                "dynamodb.UpdateItem": 1,
                "dynamodb.TransactWriteItems": 1,
                "s3.ListObjectsV2": 7,
                "scheduler.ListSchedules": 1,
            },
            {"dynamodb.read": 22, "dynamodb.write": 6, "s3.put": 7},
        ),
        # Whether a merge is needed, when 32 ledgers have come: topic state, buckets, and the note.
        "merge": _asked(
            {"dynamodb.GetItem": 1, "dynamodb.Query": 1, "dynamodb.UpdateItem": 1},
            {"dynamodb.read": 2, "dynamodb.write": 3},
        ),
    },
)
_COLLECT = Flow(
    function="dispatch",
    asked={
        "call": _asked(
            {
                "dynamodb.GetItem": 2,  # the topic state, before and after its mark was raised
                "dynamodb.Query": 7,  # subscriptions, deliveries, tombstones; trash, plans' ranges, buckets, tombstones
                "dynamodb.UpdateItem": 2,  # collected_until; when to collect next
                "s3.ListObjectsV2": 1,  # the checkpoints
                "s3.GetObject": 1,  # the newest
            },
            {"dynamodb.read": 9, "dynamodb.write": 3, "s3.put": 1, "s3.get": 1},
        ),
        # Something is left to collect later: the topic stays in the index of checks, at another place.
        "again": _asked({}, {"dynamodb.write": 1}),
        # Something changed since the newest checkpoint.
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
                "dynamodb.UpdateItem": 2,  # the lease, taken and given back
                "dynamodb.GetItem": 4,
                "dynamodb.Query": 2,  # buckets, and once more to see that nothing is left to merge
                "dynamodb.TransactWriteItems": 1,
            },
            # The buckets' items are read twice; the trash has every source's name.
            {"lambda.invocation": 1, "dynamodb.read": 8, "dynamodb.write": 10},
        ),
        # Read by ranges, and its bucket deleted.
        "source": _asked({"s3.GetObject": 1}, {"s3.get": 1, "dynamodb.write": 2}),
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
    **CLIENT_FLOWS,
}
"""Flow -> what it asks."""
