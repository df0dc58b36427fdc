"""Tests the port Claims, which decides between consumers and cancels."""

from __future__ import annotations

from tests.contract.builders import Store, a_message_id
from tidewheel.model.claim import Claim, Holder
from tidewheel.model.tombstone import Tombstone

MINE, OTHERS, NEXT = (a_message_id(number) for number in (1, 2, 3))
BILLING = Holder(subscription="billing", generation="g1")
AUDIT = Holder(subscription="audit", generation="g1")


def test_a_claim_counts_for_each_subscription(store: Store) -> None:
    store.topic()
    assert [store.claims.claim("orders", MINE, BILLING, 50) for _ in range(3)] == [1, 2, 3]
    assert store.claims.claim("orders", MINE, AUDIT, 50) == 1
    assert store.claims.claim("orders", OTHERS, BILLING, 50) == 1
    assert store.claims.claim("orders-2", MINE, BILLING, 50) == 1
    assert store.claims.read("orders", MINE) == Claim(holders=("audit", "billing"))


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
    assert store.claims.cancel("orders", OTHERS, 50) == Claim(holders=("billing",))
    assert store.claims.claim("orders", OTHERS, AUDIT, 50) == 1


def test_the_first_message_that_takes_anothers_place_stays_and_finds_its_own_write(store: Store) -> None:
    store.topic()
    moved = Claim(cancelled=True, to=NEXT)
    assert store.claims.cancel("orders", MINE, 50, NEXT) == moved
    assert store.claims.cancel("orders", MINE, 50, NEXT) == moved
    assert store.claims.cancel("orders", MINE, 50, OTHERS) == moved
    assert store.claims.cancel("orders", MINE, 50) == moved
    assert store.claims.cancel("orders", MINE, 50, from_all=False) == moved


def test_a_newer_message_stops_a_claimed_one_for_the_others(store: Store) -> None:
    store.topic()
    store.claims.claim("orders", MINE, BILLING, 50)
    assert store.claims.cancel("orders", MINE, 50, from_all=False) == Claim(holders=("billing",), cancelled=True)
    assert store.claims.claim("orders", MINE, AUDIT, 50) is None
    assert store.claims.claim("orders", MINE, BILLING, 50) is None


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
