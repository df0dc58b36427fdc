"""Tests the port Parks, with parks and their leases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.builders import Store, a_park, in_state
from tidewheel.model.park import Park
from tidewheel.model.subscription_state import State
from tidewheel.storage.parks import Parked


def parked(store: Store, **fields: Any) -> Park:
    """A park of a paused subscription."""
    park = a_park(in_state(store, State.PAUSED), **fields)
    assert store.parks.put(park, State.PAUSED) is Parked.PARKED
    return park


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (State.ACTIVE, {"state": State.PAUSED}),
        (State.ACTIVE, {"state": State.BROKEN}),
        (State.PAUSED, {"state": State.ACTIVE}),
        (State.BROKEN, {"state": State.ACTIVE}),
        (State.PAUSED, {"generation": "s0"}),
        (State.PAUSED, {"name": "unknown"}),
    ],
)
def test_no_park_appears_for_a_subscription_whose_state_changed_or_that_is_another(
    store: Store, state: State, seen: dict[str, Any]
) -> None:
    subscription = replace(in_state(store, state), **seen)
    assert store.parks.put(a_park(subscription), subscription.state) is Parked.MOVED
    assert store.parks.all("orders") == []


def test_a_park_that_is_put_again_stays_as_it_is(store: Store) -> None:
    park = parked(store)
    leased = store.parks.lease(park.key, 700, 400)
    assert store.parks.put(replace(park, next_check_ms=9000), State.PAUSED) is Parked.EXISTS
    assert store.parks.read(park.key) == leased


def test_all_parks_of_a_topic_are_read_without_their_ledgers(store: Store) -> None:
    store.topic()
    made = []
    for subscription in store.subscribed("a", "b", "c"):
        store.subscriptions.pause(subscription)
        for id in ("p1", "p2"):
            made.append(a_park(subscription, id, ledger=b"x" * 50_000, first_due_ms=3000))
            assert store.parks.put(made[-1], State.PAUSED) is Parked.PARKED
    without = [replace(park, ledger=None) for park in made]
    assert store.parks.all("orders") == without
    assert store.parks.all("order") == []
    [b] = [each for each in store.subscriptions.all("orders") if each.name == "b"]
    assert store.parks.of(b) == [park for park in without if park.key.subscription == "b"]
    assert store.parks.of(replace(b, generation=f"{b.generation}0")) == []


def test_a_park_that_nobody_has_is_leased_once(store: Store) -> None:
    park = parked(store)
    assert store.parks.lease(park.key, 700, 400) == replace(park, leased_ms=700)
    assert store.parks.lease(park.key, 900, 700) is None
    assert store.parks.read(park.key) == replace(park, leased_ms=700)


def test_a_park_is_put_off_by_whom_has_its_lease_only(store: Store) -> None:
    park = parked(store)
    leased = store.parks.lease(park.key, 700, 400)
    assert leased is not None and store.parks.lease(park.key, 900, 701) is not None
    assert not store.parks.put_off(leased, park)
    assert store.parks.read(park.key) == replace(park, leased_ms=900)


def test_a_park_is_due_from_its_next_check_on_and_gets_its_next_check_once_by_those_who_saw_the_same(
    store: Store,
) -> None:
    park = parked(store, next_check_ms=5000)
    assert store.checks.due(4999).parks == []
    assert store.checks.due(5000).parks == [park.key]
    assert store.parks.set_next_check(park.key, 5000, 6000)
    assert not store.parks.set_next_check(park.key, 5000, 7000)
    assert store.checks.due(5999).parks == []
    assert store.parks.read(park.key) == replace(park, next_check_ms=6000)


def test_nothing_brings_a_deleted_park_back(store: Store) -> None:
    park = parked(store)
    store.parks.delete([park.key, replace(park.key, id="p7"), replace(park.key, topic="unknown")])
    assert store.parks.lease(park.key, 700, 400) is None
    assert not store.parks.set_next_check(park.key, park.next_check_ms, 1)
    assert not store.parks.put_off(replace(park, leased_ms=700), park)
    assert store.parks.read(park.key) is None
    assert store.checks.due(10**12).parks == []
