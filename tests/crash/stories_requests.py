"""Stories of requests to the client, repeated after a death of the program."""

from __future__ import annotations

from contextlib import suppress

from tests.conftest import TOPIC
from tests.crash.death import CLIENT
from tests.crash.stories_delivery import DELETE, SWEEP_S, UPDATE
from tests.crash.stories_ingest import KEYS_WAIT, SEND, TRANSACTION
from tests.crash.story import Story, told
from tests.crash.world import NO_TOPIC, Promise, World
from tidewheel.client.changes import Rescheduled
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import UnknownMessage, UnknownRecurring, UnknownSubscription, UnknownTopic

KEPT_FOR_REPLAYS = {"retention_s": 2 * 86_400}
CLAIMED = {"cancel_until": "consumed"}
START_S = 1_767_225_600
"""2026-01-01T00:00:00Z, when a local stack's clock begins."""


@told("pause", UPDATE, subscriptions=("audit", "billing"))
def pausing(world: World) -> None:
    world.send({"waits": "40m"})
    world.advance(minutes=1)
    with world.mortal(CLIENT):
        world.user(lambda client: client.pause(TOPIC, "billing"))
    world.send({"soon": "5m"})
    world.advance(minutes=50)
    assert not world.stack.receive(TOPIC, "billing")
    world.user(lambda client: client.resume(TOPIC, "billing"))
    world.held_until_now("billing")


@told("resume", TRANSACTION, SEND)
def resuming(world: World) -> None:
    world.user(lambda client: client.pause(TOPIC, "billing"))
    world.send({"parked": "5m", "behind": "30m"})
    world.advance(minutes=40)
    with world.mortal(CLIENT):
        world.user(lambda client: client.resume(TOPIC, "billing"))
    world.held_until_now("billing")


@told("cancel by id", TRANSACTION, settings=KEYS_WAIT)
def cancelling(world: World) -> None:
    [receipt, _, early] = world.send({"cancelled": "28m", "stays": "29m", "before ingest": "50m"})
    world.user(lambda client: client.cancel(TOPIC, early.id))
    world.advance(minutes=1)
    with world.mortal(CLIENT):
        assert world.user(lambda client: client.cancel(TOPIC, receipt.id))
    world.change(Promise.NEVER, "cancelled", "before ingest")


@told("cancel many", TRANSACTION, settings=KEYS_WAIT)
def cancelling_many(world: World) -> None:
    receipts = world.send({"one": "28m", "two": "29m", "stays": "30m"})
    world.advance(minutes=1)
    with world.mortal(CLIENT):
        assert all(world.user(lambda client: client.cancel_many(TOPIC, [each.id for each in receipts[:2]])))
    world.change(Promise.NEVER, "one", "two")


@told("cancel by key", TRANSACTION, settings=KEYS_WAIT)
def cancelling_a_key(world: World) -> None:
    world.send({"cancelled": "40m"}, key="k")
    world.advance(minutes=1)
    with world.mortal(CLIENT):
        assert world.user(lambda client: client.cancel(TOPIC, key="k"))
    world.change(Promise.NEVER, "cancelled")


@told("reschedule", SEND, TRANSACTION, settings=KEYS_WAIT)
def rescheduling(world: World) -> None:
    [receipt] = world.send({"moved": "30m"})
    world.advance(minutes=1)

    def move(client: Tidewheel) -> Rescheduled:
        try:
            moved = client.reschedule(TOPIC, receipt.id, deliver_at=START_S + 90 * 60)
        except UnknownMessage:  # what it was moved to has not been ingested yet: it says to try again
            world.advance(minutes=6)
            moved = client.reschedule(TOPIC, receipt.id, deliver_at=START_S + 90 * 60)
        assert isinstance(moved, Rescheduled)
        return moved

    with world.mortal(CLIENT):
        world.promise("moved", world.user(move).receipt.deliver_at_ms)


@told("cancel after the seal", UPDATE, TRANSACTION, settings=CLAIMED)
def cancelling_late(world: World) -> None:
    [receipt, _] = world.send({"cancelled": "28m", "stays": "29m"})
    world.advance(minutes=24)
    with world.mortal(CLIENT):
        assert world.user(lambda client: client.cancel(TOPIC, receipt.id))
    world.change(Promise.NEVER, "cancelled")


@told("cancel by key after the seal", UPDATE, "dynamodb.PutItem", settings=CLAIMED)
def cancelling_a_key_late(world: World) -> None:
    world.send({"cancelled": "40m"}, key="k")
    world.advance(minutes=36)
    with world.mortal(CLIENT):
        assert world.user(lambda client: client.cancel(TOPIC, key="k"))
    world.change(Promise.NEVER, "cancelled")


@told("ingest replaces after the seal", TRANSACTION, settings=CLAIMED)
def replacing_late(world: World) -> None:
    world.send({"older": "40m"}, key="k")
    world.advance(minutes=36)
    with world.mortal("ingest"):
        world.send({"newer": "20m"}, key="k", replace=True)
        world.advance(minutes=1)
    world.change(Promise.NEVER, "older")


@told("ingest sends a message that comes at its key's latest time", TRANSACTION, "sqs.SendMessage", settings=CLAIMED)
def coming_earlier(world: World) -> None:
    world.send({"older": "20m"}, key="k", replace=True, max_wait="25m")
    world.advance(minutes=10)
    with world.mortal("ingest"):
        world.send({"newer": "20m"}, key="k", replace=True)
        world.advance(minutes=1)
    world.change(Promise.NEVER, "older")


@told("send a recurring message", SEND, TRANSACTION)
def making_a_recurring_one(world: World) -> None:
    world.told_by_time = True
    with world.mortal(CLIENT):
        world.user(lambda client: client.send_recurring(TOPIC, "every", "tick", every="20m", start=START_S))
    for minutes in (0, 20, 40, 60):
        world.promise(f"tick at 0{minutes // 60}:{minutes % 60:02}", (START_S + minutes * 60) * 1000)
    world.advance(minutes=62)
    world.user(lambda client: client.cancel_recurring(TOPIC, "every"))


@told("end a recurring message", TRANSACTION)
def ending_a_recurring_one(world: World) -> None:
    world.told_by_time = True
    world.user(lambda client: client.send_recurring(TOPIC, "every", "tick", every="40m", start=START_S + 2400))
    world.promise("tick at 00:40", (START_S + 2400) * 1000)
    world.advance(minutes=42)
    with world.mortal(CLIENT), suppress(UnknownRecurring):
        world.user(lambda client: client.cancel_recurring(TOPIC, "every"))


@told("purge", UPDATE, TRANSACTION)
def purging(world: World) -> None:
    world.send({"purged": "40m", "also purged": "2h"})
    world.advance(minutes=6)
    world.send({"not ingested yet": "3h"})
    with world.mortal(CLIENT):
        world.user(lambda client: client.purge(TOPIC))
    world.change(Promise.NEVER, "purged", "also purged", "not ingested yet")
    world.send({"after it": "30m"})


@told("purge a range of time", UPDATE, TRANSACTION)
def purging_a_range(world: World) -> None:
    world.send({"before": "20m"})
    world.advance(minutes=1)
    world.send({"inside": "30m"})
    world.advance(minutes=1)
    world.send({"behind": "70m"})
    world.advance(minutes=6)
    with world.mortal(CLIENT):
        world.user(lambda client: client.purge(TOPIC, start=START_S + 25 * 60, end=START_S + 65 * 60))
    world.change(Promise.NEVER, "inside")


@told(
    "replay",
    TRANSACTION,
    SEND,
    settings=KEPT_FOR_REPLAYS,
    late_s=SWEEP_S + 150,
    because="the sweep enqueues the parts",
    cleaned_after_days=(1.1, 2.2, 3.3),
)
def replaying(world: World) -> None:
    world.send({"one": "30m", "two": "50m"})
    world.advance(minutes=55)
    world.receive()
    world.again("billing", "one", "two")
    with world.mortal(CLIENT):
        world.user(lambda client: client.replay(TOPIC, "billing"))
    world.held_until_now("billing")


@told("create a topic and a subscription", "dynamodb.PutItem", "sqs.CreateQueue", TRANSACTION, settings=NO_TOPIC)
def creating(world: World) -> None:
    with world.mortal(CLIENT):
        world.user(lambda client: client.create_topic(TOPIC))
        world.user(lambda client: client.create_subscription(TOPIC, "billing"))
    world.subscriptions.append("billing")
    world.send({"soon": "1m", "later": "30m"})


@told(
    "subscribe from the earliest message on", TRANSACTION, settings=KEPT_FOR_REPLAYS, cleaned_after_days=(1.1, 2.2, 3.3)
)
def subscribing_from_the_earliest(world: World) -> None:
    world.send({"past": "20m", "later": "80m"})
    world.advance(minutes=30)
    with world.mortal(CLIENT):
        world.user(lambda client: client.create_subscription(TOPIC, "late", initial_position="earliest"))
    world.subscriptions.append("late")
    for body in ("past", "later"):
        world.promises[body]["late"] = Promise.COMES
    world.advance(minutes=5)
    world.held_until_now("late")


@told("change settings and a filter", UPDATE)
def changing(world: World) -> None:
    with world.mortal(CLIENT):
        world.user(lambda client: client.update_topic(TOPIC, inline_rows=1))
        world.user(lambda client: client.set_filter(TOPIC, "billing", {"kind": ["wanted"]}))
    world.send({"wanted": "20m"}, attributes={"kind": "wanted"})
    world.send({"not wanted": "20m"})
    world.change(Promise.NEVER, "not wanted")


@told(
    "delete a subscription", DELETE, "sqs.DeleteQueue", subscriptions=("audit", "billing"), settings={"inline_rows": 1}
)
def deleting_a_subscription(world: World) -> None:
    world.user(lambda client: client.pause(TOPIC, "audit"))
    world.send({"parked": "5m", "waits": "40m"})
    world.advance(minutes=1)
    with world.mortal(CLIENT), suppress(UnknownSubscription):
        world.user(lambda client: client.delete_subscription(TOPIC, "audit", delete_queue=True))
    world.forget("audit")


@told("delete a topic", UPDATE, "sqs.DeleteQueue")
def deleting_a_topic(world: World) -> None:
    world.send({"waits": "30m"})
    world.advance(minutes=1)
    world.forget("billing")
    with world.mortal(CLIENT), suppress(UnknownTopic):
        world.user(lambda client: client.delete_topic(TOPIC, delete_queues=True))
    world.deleted.append(TOPIC)


STORIES: tuple[Story, ...] = (
    pausing,
    resuming,
    cancelling,
    cancelling_many,
    cancelling_a_key,
    rescheduling,
    cancelling_late,
    cancelling_a_key_late,
    replacing_late,
    making_a_recurring_one,
    ending_a_recurring_one,
    purging,
    purging_a_range,
    replaying,
    creating,
    subscribing_from_the_earliest,
    changing,
    deleting_a_subscription,
    deleting_a_topic,
)
