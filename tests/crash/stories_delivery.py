"""Stories of dispatch and of the work queue's jobs."""

from __future__ import annotations

from tests.conftest import TOPIC
from tests.crash.stories_ingest import SEND, TRANSACTION
from tests.crash.story import Story, told
from tests.crash.world import World

UPDATE, DELETE = "dynamodb.UpdateItem", "dynamodb.DeleteItem"
ARM = "scheduler.CreateSchedule"
BY_PARTS = {"inline_rows": 1, "part_rows": 2}
"""As settings: everything goes through the work queue, in parts of two."""
THREE = {"one": "20m", "two": "20m 10s", "three": "20m 20s"}
"""Due in one slot."""
SWEEP_S = 300
VISIBILITY_S = 180
"""The work queue shows a job again after it."""
LEASED_S = 150
"""What a worker leased that died is another's after it."""
REDRIVE_S = 1800
"""A topic's `redrive_s`, by default."""
HEALED_S = 2 * SWEEP_S
"""A queue that is back is tried by the sweep after the next one at the latest: a look after a lease of 150 s."""


@told(
    "dispatch: one transaction, a small plan sent at once",
    UPDATE,
    TRANSACTION,
    "s3.GetObject",
    SEND,
    ARM,
    subscriptions=("audit", "billing"),
)
def dispatching_a_small_plan(world: World) -> None:
    world.send({"one": "20m", "two": "20m 10s", "later": "50m"})
    world.advance(minutes=1)
    with world.mortal("dispatch"):
        world.advance(minutes=15)


@told(
    "dispatch: one transaction, parts to the work queue",
    UPDATE,
    TRANSACTION,
    SEND,
    ARM,
    settings=BY_PARTS,
    late_s=REDRIVE_S,
    because="the sweep enqueues the parts of a plan after redrive_s, 1,800 s",
)
def dispatching_parts(world: World) -> None:
    world.send(THREE)
    world.advance(minutes=1)
    world.send({"later": "50m"})  # not in one segment with the others, which would make them seem fewer
    world.advance(minutes=1)
    with world.mortal("dispatch"):
        world.advance(minutes=15)


@told(
    "dispatch: single steps",
    UPDATE,
    TRANSACTION,
    SEND,
    ARM,
    subscriptions=("audit", "billing"),
    constants={"tidewheel.flows.delivery.dispatch._ONE_STEP_SUBSCRIPTIONS": 0},
    every=3,
)
def dispatching_in_single_steps(world: World) -> None:
    world.send({"one": "20m", "later": "50m"})
    world.advance(minutes=1)
    with world.mortal("dispatch"):
        world.advance(minutes=15)


@told(
    "dispatch: a manifest too large for an item",
    "s3.PutObject",
    TRANSACTION,
    constants={"tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES": 1},
    every=3,
)
def dispatching_a_large_plan(world: World) -> None:
    world.send({"one": "20m"})
    world.advance(minutes=1)
    with world.mortal("dispatch"):
        world.advance(minutes=15)


@told(
    "dispatch: the queue of a small plan is gone",
    UPDATE,
    SEND,
    late_s=HEALED_S,
    late_anyway_s=HEALED_S,
    because="the queue is gone, and the sweep tries it",
    every=3,
)
def dispatching_to_no_queue(world: World) -> None:
    world.send({"one": "20m"})
    world.advance(minutes=1)
    world.remove_queue("billing")
    with world.mortal("dispatch"):
        world.advance(minutes=12)
    world.advance(minutes=10)
    world.restore_queue("billing")


@told("deliver: parts", UPDATE, "s3.GetObject", SEND, DELETE, settings=BY_PARTS)
def delivering_parts(world: World) -> None:
    world.send(THREE)
    world.advance(minutes=1)
    with world.mortal("deliver"):
        world.advance(minutes=15)


@told(
    "deliver: the queue is gone",
    UPDATE,
    TRANSACTION,
    settings=BY_PARTS,
    late_s=HEALED_S,
    late_anyway_s=HEALED_S,
    because="the queue is gone, and the sweep tries it",
    every=3,
)
def delivering_to_no_queue(world: World) -> None:
    world.send(THREE)
    world.advance(minutes=1)
    world.remove_queue("billing")
    with world.mortal("deliver"):
        world.advance(minutes=12)
    world.advance(minutes=10)
    world.restore_queue("billing")


@told(
    "drain: the queue is back",
    UPDATE,
    TRANSACTION,
    SEND,
    DELETE,
    settings=BY_PARTS,
    late_s=REDRIVE_S,
    because="the sweep looks again at parks that it has put off after redrive_s, 1,800 s",
    late_anyway_s=HEALED_S,
)
def draining_to_a_queue_that_is_back(world: World) -> None:
    world.send(THREE)
    world.advance(minutes=1)
    world.remove_queue("billing")
    world.advance(minutes=30)
    world.restore_queue("billing")
    with world.mortal("deliver"):
        world.advance(minutes=20)


@told(
    "catch up and drain: a resumed subscription",
    UPDATE,
    TRANSACTION,
    SEND,
    DELETE,
    late_s=LEASED_S + SWEEP_S,
    because="the lease that died with the job, then the next sweep",
)
def catching_up(world: World) -> None:
    world.user(lambda client: client.pause(TOPIC, "billing"))
    world.send({"parked": "5m", "behind": "20m", "also behind": "30m", "ahead": "80m"})
    world.advance(minutes=40)
    world.user(lambda client: client.resume(TOPIC, "billing"))
    world.held_until_now("billing")
    with world.mortal("deliver"):
        world.advance(minutes=20)


@told(
    "drain: a large park",
    UPDATE,
    "s3.GetObject",
    SEND,
    DELETE,
    "s3.DeleteObjects",
    constants={"tidewheel.flows.delivery.parking.MAX_INLINE_PARK_BYTES": 1},
    late_s=VISIBILITY_S,
    because="the work queue's visibility time-out",
)
def draining_a_large_park(world: World) -> None:
    world.user(lambda client: client.pause(TOPIC, "billing"))
    world.send({"parked": "5m"})
    world.advance(minutes=10)
    world.user(lambda client: client.resume(TOPIC, "billing"))
    world.held_until_now("billing")
    with world.mortal("deliver"):
        world.advance(minutes=20)


STORIES: tuple[Story, ...] = (
    dispatching_a_small_plan,
    dispatching_parts,
    dispatching_in_single_steps,
    dispatching_a_large_plan,
    dispatching_to_no_queue,
    delivering_parts,
    delivering_to_no_queue,
    draining_to_a_queue_that_is_back,
    catching_up,
    draining_a_large_park,
)
