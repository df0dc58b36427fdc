"""Stories of unrequested work, such as recurring messages' plans, collections, merges and sweeps."""

from __future__ import annotations

from tests.conftest import TOPIC
from tests.crash.stories_delivery import ARM, BY_PARTS, DELETE, HEALED_S, SWEEP_S, THREE, UPDATE
from tests.crash.stories_ingest import SEND, TRANSACTION
from tests.crash.stories_requests import START_S
from tests.crash.story import Story, told
from tests.crash.world import Promise, World

FEW_LEDGERS = {"max_buckets": 2}


def send_four_ledgers(world: World) -> None:
    """Sends four batches, which make more than `FEW_LEDGERS` ledgers, and waits for a look at their merge."""
    for number in range(4):
        world.send({f"message {number}": f"{150 + 5 * number}m"})
        world.advance(minutes=6)
    world.advance(minutes=10)


@told("dispatch: occurrences of a recurring message", "s3.PutObject", TRANSACTION, SEND, ARM)
def dispatching_occurrences(world: World) -> None:
    world.told_by_time = True
    world.user(lambda client: client.send_recurring(TOPIC, "every", "tick", every="30m", start=START_S + 1800))
    for minutes in (30, 60):
        world.promise(f"tick at 0{minutes // 60}:{minutes % 60:02}", (START_S + minutes * 60) * 1000)
    world.advance(minutes=10)
    with world.mortal("dispatch"):
        world.advance(minutes=15)
    world.advance(minutes=37)
    world.user(lambda client: client.cancel_recurring(TOPIC, "every"))


@told("dispatch: a collection and its checkpoint", "s3.PutObject", UPDATE, DELETE, "s3.DeleteObjects", every=2)
def collecting(world: World) -> None:
    world.send({"gone": "20m"})
    world.advance(minutes=30)
    world.send({"due with the collection": "55m"})
    world.advance(minutes=1)
    with world.mortal("dispatch"):
        world.advance(minutes=70)


@told("sweep: a collection and its checkpoint", "s3.PutObject", UPDATE, DELETE, "s3.DeleteObjects")
def sweeping_a_collection(world: World) -> None:
    world.send({"gone": "20m", "stays": "10h"})
    world.advance(hours=2)  # for an hour, the sweep leaves it to the next dispatch
    with world.mortal("sweep"):
        world.advance(minutes=15)


@told("compact: a merge", UPDATE, "s3.GetObject", "s3.PutObject", TRANSACTION, settings=FEW_LEDGERS)
def merging(world: World) -> None:
    with world.mortal("compact"):
        send_four_ledgers(world)


@told("sweep: a merge is begun", "lambda.Invoke", UPDATE, settings=FEW_LEDGERS, every=2)
def sweeping_a_merge(world: World) -> None:
    with world.mortal("sweep"):
        send_four_ledgers(world)


@told("sweep: a lost schedule", "lambda.Invoke", late_s=SWEEP_S, because="the next sweep, 300 s later")
def sweeping_a_lost_schedule(world: World) -> None:
    world.send({"one": "30m"})
    world.stack.drop_schedules = True
    with world.mortal("sweep"):
        world.advance(minutes=50)
    world.stack.drop_schedules = False


@told(
    "sweep: a delivery that died",
    UPDATE,
    SEND,
    late_s=SWEEP_S,
    because="a sweep that dies after its first stamp: the next sweep, 300 s later",
)
def sweeping_a_delivery(world: World) -> None:
    world.send({"one": "30m"})
    world.advance(minutes=10)
    with world.killed("dispatch", TRANSACTION):
        world.advance(minutes=13)
    with world.mortal("sweep"):
        world.advance(minutes=20)


@told(
    "sweep: a broken queue",
    UPDATE,
    SEND,
    settings=BY_PARTS,
    late_s=HEALED_S,
    late_anyway_s=HEALED_S,
    because="the queue is tried by the sweep",
)
def sweeping_a_broken_queue(world: World) -> None:
    world.send(THREE)
    world.advance(minutes=1)
    world.remove_queue("billing")
    world.advance(minutes=25)
    world.restore_queue("billing")
    with world.mortal("sweep"):
        world.advance(minutes=20)


@told(
    "sweep: orphans and large bodies, once a day",
    "dynamodb.UpdateItem",
    "s3.ListObjectsV2",
    "s3.DeleteObjects",
    cleaned_after_days=(2.2, 3.3),
)
def sweeping_orphans(world: World) -> None:
    world.send({"one": "20m"})
    with world.killed("ingest", "s3.PutObject"):
        world.advance(seconds=1)
    world.advance(hours=26)
    with world.mortal("sweep"):
        world.sweep()


@told("sweep: what a deleted topic has left", UPDATE, DELETE, "s3.DeleteObjects", "scheduler.DeleteSchedule", every=2)
def sweeping_a_deleted_topic(world: World) -> None:
    world.send({"waits": "50m", "far": "3h"})
    world.advance(minutes=6)
    world.user(lambda client: client.delete_topic(TOPIC, delete_queues=True))
    world.forget("billing")
    with world.mortal("sweep"):
        world.advance(minutes=30)
    world.user(lambda client: client.create_topic(TOPIC))  # whatever died, its name is free by now
    world.user(lambda client: client.create_subscription(TOPIC, "billing"))
    world.subscriptions.append("billing")
    for body in ("waits", "far"):
        world.promises[body]["billing"] = Promise.NEVER
    world.send({"to its successor": "20m"})


STORIES: tuple[Story, ...] = (
    dispatching_occurrences,
    collecting,
    sweeping_a_collection,
    merging,
    sweeping_a_merge,
    sweeping_a_lost_schedule,
    sweeping_a_delivery,
    sweeping_a_broken_queue,
    sweeping_orphans,
    sweeping_a_deleted_topic,
)
