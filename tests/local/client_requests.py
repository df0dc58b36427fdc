"""Adds to `tidewheel.cost.figures` the AWS requests of keys, cancels and claims. Changes here change the users' bill.

Units are those of small items and messages, as in `tidewheel.cost.figures`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidewheel.cost.figures import FLOWS, Asked, Flow

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
    },
    "receive": {
        # A consumer claims a message that can be cancelled until a consumer has it.
        "claim": Asked({"dynamodb.UpdateItem": 1}, writes=1),
        # A client's first receive from a subscription reads the subscription (and the topic, if that is not known) ...
        "one": Asked({"sqs.ReceiveMessage": 1}),
        "first": Asked({"dynamodb.GetItem": 1}, reads=1),
        # ... and says that a consumer reads it, unless that is declared.
        "shown": Asked({"dynamodb.UpdateItem": 1}, writes=1),
    },
}
"""Flow -> its measures that no bill contains."""


ALL_FLOWS: Mapping[str, Flow] = {
    **{name: Flow(flow.function, {**flow.asked, **_RARE.get(name, {})}) for name, flow in FLOWS.items()},
    # Writes the tombstone and checks the topic state.
    "cancel by id": Flow(None, {"call": Asked({"dynamodb.TransactWriteItems": 1}, writes=4)}),
    # Reads the key's entry, and writes it with the tombstone.
    "cancel by key": Flow(
        None, {"call": Asked({"dynamodb.GetItem": 1, "dynamodb.TransactWriteItems": 1}, reads=1, writes=6)}
    ),
}
"""Flow -> its requests and units, those of the functions and of the clients."""
