"""Lists the AWS requests of each flow, as `tests/local/test_request_counts*.py` count these.

A flow makes some requests once a run, others once for each subscription, segment, ten messages and so on. Each is a
measure, and a run is described by its measures:

    FLOWS["dispatch"].requests({"call": 1, "subscription": 2, "segment": 1, "sends": 6})

Units are those of small items, up to 1 KB written and 4 KB read, and of SQS payloads up to 64 KiB. The additional cost
of larger ledgers, plans and payloads depends on the workload: see `tidewheel.cost.stream`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_BILLED = {
    "lambda.Invoke": "lambda.invocation",
    "scheduler.Invoke": "scheduler.invocation",
    "s3.PutObject": "s3.put",
    "s3.ListObjectsV2": "s3.put",
    "s3.GetObject": "s3.get",
}
"""Operation -> billed unit. Each operation of SQS is a request, and all others but DynamoDB's are free."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests and billed units for each unit of a measure.

    Attributes:
        requests: "service.Operation" -> number of requests.
        reads: DynamoDB's read units.
        writes: DynamoDB's write units.
    """

    requests: Mapping[str, int]
    reads: float = 0.0
    writes: float = 0.0

    @property
    def units(self) -> dict[str, float]:
        """Kind of bill, as in `tidewheel.model.prices` -> number of units."""
        units = {"dynamodb.read": self.reads, "dynamodb.write": self.writes}
        for operation, count in self.requests.items():
            unit = "sqs.request" if operation.startswith("sqs.") else _BILLED.get(operation)
            if unit is not None:
                units[unit] = units.get(unit, 0.0) + count
        return units


class Flow:
    """The requests of a flow by measure.

    Attributes:
        function: what runs the flow, in `tidewheel.cost.function_time.PATHS`; None if a client does.
        asked: measure -> requests for each unit of the measure; "call" is a run of the flow.
    """

    def __init__(self, function: str | None, **asked: Asked) -> None:
        self.function, self.asked = function, asked

    def requests(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Returns the requests of runs with these measures.

        Raises:
            KeyError: the flow has no such measure.
        """
        return added((self.asked[measure].requests, times) for measure, times in measures.items())

    def units(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Returns the billed units of runs with these measures.

        Raises:
            KeyError: the flow has no such measure.
        """
        return added((self.asked[measure].units, times) for measure, times in measures.items())


def added(parts: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """Returns the sum of counts by name, each multiplied by its number. Zeros are left out."""
    total: dict[str, float] = {}
    for counts, times in parts:
        for name, count in counts.items():
            total[name] = total.get(name, 0.0) + count * times
    return {name: count for name, count in total.items() if count}


_SENDS = Asked({"sqs.SendMessageBatch": 1})
_SEGMENT = Asked({"s3.GetObject": 1})
_TAKEN = {"sqs.ReceiveMessage": 1, "sqs.DeleteMessageBatch": 1}

FLOWS: Mapping[str, Flow] = {
    "ingest": Flow(
        "ingest",
        call=Asked({"lambda.Invoke": 1}),
        # The event source mapping receives and deletes packs, ten at a time.
        ten_packs=Asked(_TAKEN),
        # Reads each topic's state to find the first open slot.
        topic=Asked({"dynamodb.GetItem": 1}, reads=1),
        # Puts the ledger, then commits its bucket and the topic state.
        ledger=Asked({"s3.PutObject": 1, "dynamodb.TransactWriteItems": 1}, writes=4),
        # All waiting messages are due later: lowers the next slot and creates the first slot's schedule.
        lowered=Asked({"scheduler.CreateSchedule": 1}, writes=2),
        # Rows of sealed slots go direct, after a check of tombstones, to all subscriptions.
        direct=Asked({"dynamodb.Query": 2}, reads=2),
        sends=_SENDS,
    ),
    # A call of ingest with plain messages that may wait: a pack for each topic, to the bulk queue.
    "forward": Flow(
        "forward",
        call=Asked({"lambda.Invoke": 1}),
        ten_packs=Asked(_TAKEN),
        topic=Asked({"dynamodb.GetItem": 1, "sqs.SendMessage": 1}, reads=1),
    ),
    "dispatch": Flow(
        "dispatch",
        call=Asked(
            {
                "scheduler.Invoke": 1,
                "lambda.Invoke": 1,
                "dynamodb.GetItem": 1,  # the topic state
                "dynamodb.UpdateItem": 1,  # seal: no new ledger for the slot from now on
                "dynamodb.Query": 3,  # buckets; tombstones of the plan's slots; subscriptions
                "dynamodb.TransactWriteItems": 1,  # the plan, all cursors and deliveries, and the next slot
            },
            reads=4,
            writes=7,
        ),
        # A subscription's cursor and delivery, in the same transaction.
        subscription=Asked({}, writes=5),
        # The next slot's schedule.
        armed=Asked({"scheduler.CreateSchedule": 1}),
        # Dispatch delivers a small plan itself: reads each segment once for all subscriptions ...
        segment=_SEGMENT,
        sends=_SENDS,
        # ... and deletes each subscription's delivery.
        inline=Asked({"dynamodb.DeleteItem": 1}, writes=2),
        # A larger plan's parts go to the work queue, in tens for each subscription.
        ten_parts=_SENDS,
    ),
    "deliver": Flow(
        "deliver",
        # Leases the part, reads topic state and plan, and marks the part as done.
        call=Asked({**_TAKEN, "lambda.Invoke": 1, "dynamodb.UpdateItem": 2, "dynamodb.GetItem": 2}, reads=2, writes=2),
        segment=_SEGMENT,
        sends=_SENDS,
        # The last part deletes the delivery.
        complete=Asked({"dynamodb.DeleteItem": 1}, writes=2),
    ),
    "sweep": Flow(
        "sweep",
        # A query for each shard of the index `checks`, for late and due checks, and the heartbeat. The rule costs
        # nothing.
        call=Asked({"lambda.Invoke": 1, "dynamodb.Query": 16, "dynamodb.UpdateItem": 1}, reads=8, writes=1),
        # Once an hour, the backlog: the whole index, and each topic in the index.
        hour=Asked({"dynamodb.Query": 16}, reads=8),
        hour_topic=Asked({"dynamodb.GetItem": 1}, reads=1),
        # A topic whose next check is due: its topic state is read twice.
        topic=Asked({"dynamodb.GetItem": 2}, reads=2),
        # Once a day: claims and completes the daily job, and lists S3 to find unreferenced objects.
        orphans=Asked({"dynamodb.UpdateItem": 2, "s3.ListObjectsV2": 7}, writes=2),
        # Once a day for each topic with objects: its checkpoint, and all references to its ledgers, with the keys'
        # sixteen partitions, eventually consistent.
        orphans_topic=Asked(
            {"dynamodb.GetItem": 3, "dynamodb.Query": 25, "s3.ListObjectsV2": 1, "s3.GetObject": 1, "s3.PutObject": 1},
            reads=20,
        ),
        # Considers a merge after 32 new ledgers: topic state, buckets, and a record of the decision. Ingest set
        # this check, which moved the topic's place in the index.
        merge=Asked({"dynamodb.GetItem": 1, "dynamodb.Query": 1, "dynamodb.UpdateItem": 1}, reads=2, writes=5),
    ),
    "collect": Flow(
        "dispatch",
        call=Asked(
            {
                "dynamodb.GetItem": 2,  # the topic state, before and after collected_until is raised
                # Subscriptions, deliveries, what is set aside, buckets, trash, tombstones twice, plans' ranges.
                # The keys' sixteen partitions, eventually consistent.
                "dynamodb.Query": 24,
                "dynamodb.UpdateItem": 2,  # collected_until; when to collect next
                "s3.ListObjectsV2": 1,  # the checkpoints
                "s3.GetObject": 1,  # the newest checkpoint
            },
            reads=18,
            writes=3,
        ),
        # Work is left for a later collection: the topic stays in the index `checks`, at another place.
        again=Asked({}, writes=1),
        # The topic changed since the newest checkpoint.
        checkpoint=Asked({"s3.PutObject": 1}),
        plan=Asked({"dynamodb.DeleteItem": 1}, writes=1),
        bucket=Asked({"dynamodb.DeleteItem": 1, "s3.DeleteObjects": 1}, writes=1),
        trash=Asked({"dynamodb.DeleteItem": 1, "s3.DeleteObjects": 1}, writes=1),
    ),
    "merge": Flow(
        "compact",
        # The buckets' items are read twice. The trash has every source's name.
        call=Asked(
            {
                "lambda.Invoke": 1,
                "dynamodb.UpdateItem": 3,  # the merge lease, taken and released; when to collect the trash
                "dynamodb.GetItem": 7,  # the topic state, before the lease, each plan and each swap, and at the end
                "dynamodb.Query": 2,  # buckets, and a check that no merge is left
                "dynamodb.TransactWriteItems": 1,
            },
            reads=11,
            writes=11,
        ),
        # Read by ranges. Its bucket is deleted, and a note is left.
        source=Asked({"s3.GetObject": 1, "dynamodb.PutItem": 1}, writes=3),
        output=Asked({"s3.PutObject": 1}, writes=2),
    ),
    # Every client that sends or changes something reads the topic's state once a minute.
    "client": Flow(None, minute=Asked({"dynamodb.GetItem": 1}, reads=1)),
    # A single pack for any number of messages.
    "send": Flow(None, call=_SENDS),
    # A plain message, or an envelope.
    "plain": Flow(None, call=Asked({"sqs.SendMessage": 1})),
    # A consumer receives and deletes ten messages.
    "receive": Flow(None, ten=Asked(_TAKEN)),
}
"""Flow -> its requests and units."""
