"""Tests the port Claims, which decides between consumers and cancels."""

from __future__ import annotations

from tests.contract.builders import Store, a_message_id
from tests.contract.test_keys import an_entry
from tidewheel.model.tombstone import KEPT_S, Claim, Holder, Tombstone
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.tombstones import superseding

MINE, OTHERS, NEXT = (a_message_id(number) for number in (1, 2, 3))
BILLING = Holder(subscription="billing", generation="g1")
AUDIT = Holder(subscription="audit", generation="g1")


def taken(*names: str) -> dict[str, int]:
    """When these subscriptions claimed, if the claim is kept until second 50."""
    return dict.fromkeys(names, 50 - KEPT_S)


def test_a_subscription_made_anew_claims_for_itself(store: Store) -> None:
    store.topic()
    store.claims.claim("orders", MINE, BILLING, 50)
    assert store.claims.claim("orders", MINE, Holder(subscription="billing", generation="g2"), 50) == 1
    assert store.claims.read("orders", MINE).holders == ("billing",)


def test_what_is_cancelled_is_claimed_by_nobody_and_what_is_claimed_is_not_cancelled(store: Store) -> None:
    store.topic()
    assert store.claims.cancel("orders", MINE, 50) == Claim(cancelled=True)
    assert store.claims.cancel("orders", MINE, 50) == Claim(cancelled=True)
    assert store.claims.claim("orders", MINE, BILLING, 50) is None
    store.claims.claim("orders", OTHERS, BILLING, 50)
    assert store.claims.cancel("orders", OTHERS, 50) == Claim(holders=("billing",), taken=taken("billing"))
    assert store.claims.claim("orders", OTHERS, AUDIT, 50) == 1


def test_the_first_message_that_takes_anothers_place_stays_and_finds_its_own_write(store: Store) -> None:
    store.topic()
    moved = Claim(cancelled=True, to=NEXT)
    assert store.claims.cancel("orders", MINE, 50, NEXT) == moved
    assert store.claims.cancel("orders", MINE, 50, NEXT) == moved
    assert store.claims.cancel("orders", MINE, 50, OTHERS) == moved
    assert store.claims.cancel("orders", MINE, 50) == moved


def test_a_consumer_shows_itself_once_and_again_for_a_subscription_made_anew(store: Store) -> None:
    store.topic()
    assert not store.claims.shown("orders", BILLING)
    for _ in range(2):
        store.claims.show("orders", BILLING, 50)
    assert store.claims.shown("orders", BILLING)
    assert not store.claims.shown("orders", AUDIT) and not store.claims.shown("orders-2", BILLING)
    assert not store.claims.shown("orders", Holder(subscription="billing", generation="g2"))


def supersede(store: Store, *, from_all: bool, state: TopicState | None = None) -> bool:
    """Moves a key to a newer message, and cancels the older message, whose slot is sealed."""
    late = Tombstone(100, MINE, 50, put_ms=7)
    stop = superseding("orders", MINE, 50, from_all=from_all)
    return store.keys.move("orders", an_entry(1), an_entry(2), late, stop, state)


def test_a_newer_message_stops_an_older_one_only_if_its_sender_knows_all_subscriptions(store: Store) -> None:
    known = store.topic(sealed=500)
    store.keys.claim("orders", an_entry(1))
    store.subscribed("audit", reader="plain")
    assert not supersede(store, from_all=True, state=known)
    assert supersede(store, from_all=True, state=store.current())


def test_a_newer_message_stops_an_older_one_and_takes_its_key_or_does_neither(store: Store) -> None:
    store.topic(sealed=500)
    store.keys.claim("orders", an_entry(1))
    store.claims.claim("orders", MINE, BILLING, 50)
    assert not supersede(store, from_all=True)
    assert store.keys.read("orders", "k") == an_entry(1)
    assert store.tombstones.read("orders", 100, MINE) is None
    assert store.claims.claim("orders", MINE, AUDIT, 50) == 1
    assert supersede(store, from_all=False)
    assert store.keys.read("orders", "k") == an_entry(2)
    assert store.claims.read("orders", MINE) == Claim(
        holders=("audit", "billing"), taken=taken("audit", "billing"), cancelled=True
    )
    assert store.tombstones.read("orders", 100, MINE) == Tombstone(100, MINE, 50, put_ms=7)
    assert store.claims.claim("orders", MINE, BILLING, 50) is None


def test_a_newer_message_stops_none_that_is_cancelled_or_moved(store: Store) -> None:
    store.topic(sealed=500)
    store.keys.claim("orders", an_entry(1))
    store.claims.cancel("orders", MINE, 50, NEXT)
    assert not supersede(store, from_all=True) and not supersede(store, from_all=False)
    assert store.claims.read("orders", MINE).to == NEXT
    assert store.keys.read("orders", "k") == an_entry(1)


def test_a_newer_message_stops_one_that_was_superseded_perhaps_too_late(store: Store) -> None:
    store.topic(sealed=500)
    store.keys.claim("orders", an_entry(1))
    store.tombstones.put("orders", Tombstone(100, MINE, 50, certain=False))
    assert supersede(store, from_all=True)
    store.keys.claim("orders", other := an_entry(3, key="other"))
    store.tombstones.put("orders", known := Tombstone(100, NEXT, 50))
    stop = superseding("orders", NEXT, 50, from_all=True)
    assert not store.keys.move("orders", other, an_entry(2, key="other"), known, stop)


def test_a_late_tombstone_says_what_the_claim_says(store: Store) -> None:
    store.topic(sealed=500)
    certain = Tombstone(100, MINE, 50, NEXT, put_ms=7)
    store.tombstones.put("orders", certain._replace(to=None, certain=False))
    store.tombstones.put_late("orders", certain)
    assert store.tombstones.read("orders", 100, MINE) == certain
    store.tombstones.put_late("orders", certain._replace(to=OTHERS))
    assert store.tombstones.read("orders", 100, MINE) == certain
    store.tombstones.put_late("unknown", certain)
    assert store.tombstones.read("unknown", 100, MINE) is None
