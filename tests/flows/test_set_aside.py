"""Each try of a part sets unreadable segments aside."""

from __future__ import annotations

import pytest

from tests.flows.world import HOUR, MINUTE, TOPIC, World, failing_reads, once
from tidewheel.errors import CorruptMetadata
from tidewheel.flows.delivery import deliver
from tidewheel.flows.delivery.deliver import deliver_part
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.upkeep.due_checks import SweepResult, check_set_aside


def test_a_part_that_misses_another_ledger_when_it_comes_again_loses_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(inline_rows=1)
    sent = {}
    for _ in range(2):
        [id] = world.send(HOUR)
        [name] = {each.object_name for each in world.service.buckets.all(TOPIC)} - sent.keys()
        sent[name] = id
    (first, second), ids = sorted(sent), list(sent.values())

    def dies(*_: object) -> None:
        raise SystemExit

    world.clock.advance_ms(HOUR - 5 * MINUTE)
    dispatch(world.ports, TOPIC)
    [opened] = world.service.deliveries.all(TOPIC)
    with (
        failing_reads(world, {first: TimeoutError()}),
        monkeypatch.context() as patch,
        pytest.raises(SystemExit),
    ):
        patch.setattr(deliver.release, "send", dies)
        deliver_part(world.ports, opened.key, 0)
    world.clock.advance_ms(HOUR)  # the lease of the first try has ended
    with failing_reads(world, {second: TimeoutError()}):
        deliver_part(world.ports, opened.key, 0)
    assert sorted(each.objects for each in world.service.set_aside.all(TOPIC)) == sorted([(first,), (second,)])

    world.run(HOUR, sweeps=True)
    assert set(world.received()) == set(ids)
    assert world.received() - once(ids) == once([sent[first]])  # the first try put it aside, and died
    assert world.service.set_aside.all(TOPIC) == []


def test_a_suspect_is_tried_although_its_subscription_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nothing would count the tries or list the segment as damaged."""
    world = World(inline_rows=1)
    world.send(HOUR), world.send(HOUR)
    ledger, _ = (each.object_name for each in world.service.buckets.all(TOPIC))
    world.clock.advance_ms(HOUR - 5 * MINUTE)
    with failing_reads(world, {ledger: TimeoutError()}):
        dispatch(world.ports, TOPIC)
        [opened] = world.service.deliveries.all(TOPIC)
        deliver_part(world.ports, opened.key, 0)
    [suspect] = world.service.set_aside.all(TOPIC)

    def unread(*_: object) -> None:
        raise CorruptMetadata("the subscription")

    world.clock.advance_ms(HOUR)
    swept = SweepResult()
    with monkeypatch.context() as patch:
        patch.setattr(world.service.subscriptions, "read", unread)
        check_set_aside(world.ports, suspect.key, swept)
    assert swept.tries == 1
