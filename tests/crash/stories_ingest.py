"""Stories of sending and of ingest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conftest import TOPIC
from tests.crash.death import CLIENT
from tests.crash.story import Story, told
from tests.crash.world import Promise, World
from tidewheel.model.message import SQS_MAX_BYTES

TRANSACTION = "dynamodb.TransactWriteItems"
KEYS_WAIT: Mapping[str, Any] = {"collect_interval_s": 6 * 3600}
"""Tombstones are looked after for 28 days: not every hour, here."""
SEND = "sqs.SendMessageBatch"
URGENT_S = 120
"""The urgent queue shows a pack again after it: the price in lateness of an ingest that died."""
BULK_S = 660
"""Likewise the bulk queue; its packs are due in over an hour, so no message is late for it."""


@told("send: a direct message, some that wait", "ssm.GetParameter", "dynamodb.GetItem", SEND)
def sending(world: World) -> None:
    with world.mortal(CLIENT):
        world.send({"soon": "5m", "later": "30m", "far": "2h"})


@told("send: a body too large for SQS", "s3.PutObject", SEND, cleaned_after_days=(1.1, 2.2, 3.3, 31.5, 32.6))
def sending_a_large_body(world: World) -> None:
    body = "large ".ljust(SQS_MAX_BYTES + 1, "x")
    with world.mortal(CLIENT):
        world.send({body: "2h"})


@told(
    "ingest: urgent, a ledger and direct messages",
    "s3.PutObject",
    TRANSACTION,
    "scheduler.CreateSchedule",
    SEND,
    subscriptions=("audit", "billing"),
    late_s=URGENT_S,
    because="the urgent queue's visibility time-out",
)
def ingesting_urgent(world: World) -> None:
    world.send({"at once": "0s", "soon": "1m", "later": "30m", "much later": "50m"})
    with world.mortal("ingest"):
        world.advance(seconds=1)


@told("ingest: bulk", "s3.PutObject", TRANSACTION, "scheduler.CreateSchedule", subscriptions=("audit", "billing"))
def ingesting_bulk(world: World) -> None:
    world.send({"far": "2h", "farther": "3h"})
    world.advance(minutes=1)
    world.send({"also far": "2h"})
    with world.mortal("ingest"):
        world.advance(minutes=6)


@told("ingest: what a paused subscription must not have yet", TRANSACTION, SEND, subscriptions=("audit", "billing"))
def ingesting_for_a_paused_one(world: World) -> None:
    world.user(lambda client: client.pause(TOPIC, "audit"))
    world.send({"soon": "5m", "later": "30m"})
    with world.mortal("ingest"):
        world.advance(seconds=1)
    world.advance(minutes=40)
    world.user(lambda client: client.resume(TOPIC, "audit"))
    world.held_until_now("audit")


@told(
    "ingest: a large park",
    "s3.PutObject",
    TRANSACTION,
    constants={"tidewheel.flows.delivery.parking.MAX_INLINE_PARK_BYTES": 1},
)
def ingesting_a_large_park(world: World) -> None:
    world.user(lambda client: client.pause(TOPIC, "billing"))
    world.send({"soon": "5m"})
    with world.mortal("ingest"):
        world.advance(seconds=1)
    world.advance(minutes=10)
    world.user(lambda client: client.resume(TOPIC, "billing"))
    world.held_until_now("billing")


@told("ingest: a key is taken", "dynamodb.PutItem", TRANSACTION, settings=KEYS_WAIT)
def taking_a_key(world: World) -> None:
    world.send({"first": "30m"}, key="k")
    world.send({"dropped": "40m"}, key="k")
    world.change(Promise.NEVER, "dropped")
    with world.mortal("ingest"):
        world.advance(seconds=1)


@told("ingest: one takes another's place", "dynamodb.PutItem", TRANSACTION, settings=KEYS_WAIT)
def replacing(world: World) -> None:
    world.send({"old": "30m"}, key="k")
    world.advance(minutes=1)
    world.send({"new": "40m"}, key="k", replace=True)
    world.change(Promise.NEVER, "old")
    with world.mortal("ingest"):
        world.advance(seconds=1)


@told("ingest: what a sender has moved", TRANSACTION, settings=KEYS_WAIT)
def ingesting_a_moved_one(world: World) -> None:
    [receipt] = world.send({"moved": "30m"})
    world.advance(minutes=1)
    moved = world.user(lambda client: client.reschedule(TOPIC, receipt.id, delay="50m"))
    world.promise("moved", moved.receipt.deliver_at_ms)
    with world.mortal("ingest"):
        world.advance(seconds=1)


STORIES: tuple[Story, ...] = (
    sending,
    sending_a_large_body,
    ingesting_urgent,
    ingesting_bulk,
    ingesting_for_a_paused_one,
    ingesting_a_large_park,
    taking_a_key,
    replacing,
    ingesting_a_moved_one,
)
