"""Messages skipped as unreadable are delivered after an operator restores the object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.flows.alone import local_engine
from tests.flows.test_recurring import make
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, World, failing_reads, once
from tidewheel.errors import CorruptMetadata, ObjectRefused
from tidewheel.flows.administration.pause import pause, resume
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.work import do_job
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.flows.upkeep.checkpoint import checkpoint_topic
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.merge import in_process, merge


class Tolerant(World):
    """A world whose sweeps may fail in part."""

    may_fail = True


@contextmanager
def unreadable(port: Any, *methods: str, which: Callable[[Any], bool] = lambda _: True) -> Iterator[None]:
    """Lets methods of a port raise for some items within the block, and `all` leave these out."""
    with pytest.MonkeyPatch.context() as patch:
        for method in methods:
            patch.setattr(port, method, _failing(getattr(port, method), which))
        yield


def _failing(method: Callable[..., Any], which: Callable[[Any], bool]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        found = method(*args, **kwargs)
        if isinstance(found, Iterator):
            return iter(of_list(list(found), *args))
        if not isinstance(found, list):
            if found is not None and which(found):
                raise CorruptMetadata("not readable")
            return found
        return of_list(found, *args)

    def of_list(found: list[Any], *args: Any) -> list[Any]:
        bad = [each for each in found if which(each)]
        if bad and (len(args) < 2 or args[1] is None):
            raise CorruptMetadata("not readable")
        for each in bad:
            args[1][getattr(each, "id", None) or each.name] = CorruptMetadata("not readable")
        return [each for each in found if not which(each)]

    return call


def test_all_of_a_plan_comes_that_was_handed_out_while_it_could_not_be_read() -> None:
    world = Tolerant("billing", "mail", inline_rows=1, part_rows=2)
    ids = world.send(*[HOUR + i * 1000 for i in range(8)])
    pause(world.service, TOPIC, "billing")
    world.run(2 * HOUR, sweeps=True)
    with unreadable(world.service.plans, "next", "read"):
        resume(world.service, world.service.queues, world.clock, TOPIC, "billing")
        for job in world.service.queues.take_jobs():
            do_job(world.ports, job)
        assert [each.parts for each in world.service.deliveries.all(TOPIC)] == [1]
    world.run(DAY, sweeps=True)
    assert world.received("billing") == world.received("mail") == once(ids)


def test_a_plan_that_is_made_anew_waits_for_a_ledger_of_which_nothing_can_be_read() -> None:
    world = Tolerant(inline_rows=1)
    ids = [*world.send(HOUR), *world.send(HOUR + 1000)]
    world.clock.advance_ms(HOUR - 5 * MINUTE)
    dispatch(world.ports, TOPIC)
    first = world.service.buckets.all(TOPIC)[0]
    with (
        unreadable(world.service.buckets, "in_order", which=lambda each: each.id == first.id),
        unreadable(world.service.plans, "read"),
        failing_reads(world, {first.object_name: ObjectRefused(first.object_name, "403")}),
        pytest.raises(CorruptMetadata),
    ):
        world.work()
    world.run(DAY, sweeps=True)
    assert world.received() == once(ids)


def test_a_merged_ledger_that_is_gone_while_a_plan_is_made_anew_is_set_aside() -> None:
    world = Tolerant(inline_rows=1, max_buckets=2)
    ids = [*world.send(HOUR), *world.send(HOUR, 5 * HOUR), *world.send(HOUR, 6 * HOUR)]
    world.clock.advance_ms(HOUR - 5 * MINUTE)
    dispatch(world.ports, TOPIC)
    names = [each.object_name for each in world.service.buckets.all(TOPIC)]
    merge(world.ports, TOPIC, in_process(world.service.objects), everything=True, lease_s=60)
    whole = {name: world.service.objects.get_range(name, 0, 1 << 30) for name in names}
    world.service.objects.delete(names[:1])
    with unreadable(world.service.plans, "read"):
        world.work()
    assert {name for each in world.service.set_aside.all(TOPIC) for name in each.objects} == {names[0]}
    world.service.objects.put(names[0], whole[names[0]])
    world.run(DAY, sweeps=True)
    assert world.received() == once(ids)


@pytest.mark.parametrize("port", ["subscriptions", "buckets", "recurring"])
def test_what_was_passed_over_is_looked_for_again_within_two_hours(port: str) -> None:
    world = Tolerant("billing", "mail")
    ids = world.send(2 * HOUR)
    if port == "buckets":
        ids += world.send(8 * HOUR)
    if port == "recurring":
        make(world, every="3h")

    world.clock.advance_ms(HOUR)
    last = world.service.buckets.all(TOPIC)[-1].id
    hidden: dict[str, Callable[[Any], bool]] = {
        "subscriptions": lambda each: each.name == "billing",
        "buckets": lambda each: each.id == last,
        "recurring": lambda _: True,
    }
    method = "in_order" if port == "buckets" else "all"
    with (
        unreadable(getattr(world.service, port), method, which=hidden[port]),
        pytest.MonkeyPatch.context() as patch,
    ):
        if port == "buckets":  # nor is its ledger found
            patch.setattr(world.service.objects, "list", lambda *_: iter(()))
        world.run(2 * HOUR, sweeps=True)
    before = world.received("mail")
    world.run(12 * HOUR, sweeps=True)
    assert set(world.received("billing")) >= set(ids)
    if port == "recurring":
        assert sum((world.received("mail") - before).values()) >= 3


def test_a_rebuild_starts_from_the_checkpoint_before_the_damage() -> None:
    world = Tolerant("billing", "mail")
    world.run(DAY, sweeps=True)
    ids = world.send(HOUR)
    collect(world.ports, TOPIC)
    with unreadable(world.service.subscriptions, "all", which=lambda each: each.name == "billing"):
        world.run(2 * HOUR, sweeps=True)
        rebuild(world.ports, TOPIC, local_engine(world.service), lease_s=7200, replace_index=True)
    world.run(DAY, sweeps=True)
    assert world.received("billing") == once(ids)
    assert world.received("mail") == once([*ids, *ids])  # delivered since that checkpoint


def test_no_checkpoint_is_written_while_a_ledgers_item_cannot_be_read() -> None:
    world = World()
    world.send(HOUR)
    world.clock.advance_ms(HOUR)
    dispatch(world.ports, TOPIC)
    with unreadable(world.service.buckets, "in_order"), pytest.raises(CorruptMetadata):
        checkpoint_topic(world.ports, TOPIC)
    assert checkpoint_topic(world.ports, TOPIC)


def test_a_merge_leaves_out_a_ledger_that_s3_refuses() -> None:
    world = World(max_buckets=2)
    for hour in range(2, 6):
        world.send(hour * HOUR)
    refused = world.service.buckets.all(TOPIC)[1].object_name
    with failing_reads(world, {refused: ObjectRefused(refused, "403")}):
        merged = merge(world.ports, TOPIC, in_process(world.service.objects), everything=True, lease_s=60)
    assert [each.object_name for each in merged.skipped] == [refused]
    assert len(world.service.buckets.all(TOPIC)) == 2
