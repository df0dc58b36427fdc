"""Compares estimates of finds and of their changes with what AWS would bill."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from tidewheel import InvalidValue, Message, Tidewheel
from tidewheel.local import LocalTidewheel
from tidewheel.model.prices import dollars

TOPIC = "orders"


@contextmanager
def waiting(ledgers: int, messages: int, *, body_bytes: int = 100, **settings: Any) -> Iterator[LocalTidewheel]:
    """A topic with messages due in a day, from hour 30 on, evenly in each of the ledgers."""
    random_ = random.Random(1)
    with LocalTidewheel() as stack:
        tw = stack.client()
        tw.create_topic(TOPIC, **settings)
        tw.create_subscription(TOPIC, "billing")
        for ledger in range(ledgers):
            sent = [
                Message(
                    body=random_.randbytes(body_bytes // 2).hex(),
                    delay=30 * 3600 + random_.random() * 86_400,
                    key=f"cart-{ledger}/{number}",
                )
                for number in range(messages)
            ]
            for first in range(0, messages, 500):
                tw.send_many(TOPIC, sent[first : first + 500])
            stack.advance(seconds=301)
        yield stack


def billed(stack: LocalTidewheel, call: Callable[[Tidewheel], object]) -> tuple[int, float]:
    """Returns the requests and the dollars of a call."""
    client = stack.client()
    client.core.cache.read(TOPIC)
    requests, units = Counter(stack.requests), Counter(stack.requests.units)
    call(client)
    asked = Counter(stack.requests) - requests
    return asked.total(), sum(dollars(*each) for each in (Counter(stack.requests.units) - units).items())


SHAPES = {
    "one ledger": (1, 2500, 10),
    "ledgers of the same time": (6, 500, 100),
    "small ledgers": (20, 20, 100),
    "large bodies": (3, 400, 4000),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_find_over_ledgers_costs_is_known_within_a_factor_of_two_by_two_requests(shape: str) -> None:
    ledgers, messages, body_bytes = SHAPES[shape]
    with waiting(ledgers, messages, body_bytes=body_bytes) as stack:
        found = stack.client().estimate(TOPIC, everything=True)
        assert billed(stack, lambda tw: tw.estimate(TOPIC, everything=True))[0] == 2
        requests, cost = billed(stack, lambda tw: list(tw.find(TOPIC, everything=True)))
        assert found.messages == ledgers * messages
        assert requests / 2 < found.requests < requests * 2 and cost / 2 < found.dollars < cost * 2
        end = stack.now() + timedelta(hours=42)
        half = stack.client().estimate(TOPIC, group="tenant-7", end=end)
        requests, cost = billed(stack, lambda tw: list(tw.find(TOPIC, group="tenant-7", end=end)))
        assert 0.3 < half.messages / found.messages < 0.7 and 0 < half.read_bytes <= found.read_bytes
        assert requests / 2 < half.requests < requests * 2 and cost / 2 < half.dollars < cost * 2


def test_a_find_by_a_prefix_costs_sixteen_queries_the_topic_state_and_then_by_the_key() -> None:
    with waiting(1, 3000) as stack:
        found = stack.client().estimate(TOPIC, key_prefix="cart-0/")
        assert billed(stack, lambda tw: list(tw.find(TOPIC, key_prefix="no"))) == (found.requests, found.dollars)
        assert found.requests == 17 and found.read_bytes == 0
        _, cost = billed(stack, lambda tw: list(tw.find(TOPIC, key_prefix="cart-0/")))
        assert found.dollars + 3000 * found.key_dollars == pytest.approx(cost, rel=0.2)


@pytest.mark.parametrize("claims", ["none", "keyed"])
def test_a_cancel_costs_what_the_estimate_says_before_the_seal_and_after(claims: str) -> None:
    with LocalTidewheel() as stack:
        tw = stack.client()
        tw.create_topic(TOPIC, claims=claims)
        tw.create_subscription(TOPIC, "billing", reader="tidewheel")
        for cart, hours in (("late", 2), ("open", 3)):
            tw.send_many(TOPIC, [Message(body="x", delay=hours * 3600, key=f"{cart}/{n}") for n in range(90)])
        stack.advance(seconds=7200 - 200)
        told = stack.client().estimate(TOPIC, key_prefix="open")
        keys = told.dollars + dollars("dynamodb.read", 90)  # a tombstone of each
        _, cost = billed(stack, lambda tw: tw.cancel_where(TOPIC, key_prefix="open"))
        assert cost - keys == pytest.approx(90 * told.cancel_dollars)
        counted = stack.client().cancel_where(TOPIC, key_prefix="late", dry_run=True)
        assert (counted.matched, counted.sealed) == (90, 90)
        _, cost = billed(stack, lambda tw: tw.cancel_where(TOPIC, key_prefix="late"))
        assert cost - keys == pytest.approx(90 * told.late_cancel_dollars)
        assert told.late_cancel_dollars == pytest.approx({"none": 2.625e-6, "keyed": 5.875e-6}[claims])


def test_a_move_costs_what_the_estimate_says() -> None:
    with waiting(1, 100) as stack:
        told = stack.client().estimate(TOPIC, key_prefix="cart-0/7")
        _, cost = billed(stack, lambda tw: tw.reschedule_where(TOPIC, key_prefix="cart-0/7", by="1h"))
        assert cost - told.dollars == pytest.approx(11 * told.move_dollars, rel=0.1)


def test_what_selects_nothing_or_too_much_is_not_estimated() -> None:
    with LocalTidewheel() as stack:
        stack.client().create_topic(TOPIC)
        for selected in ({}, {"key_prefix": "cart-", "group": "tenant-7"}):
            with pytest.raises(InvalidValue):
                stack.client().estimate(TOPIC, **selected)  # type: ignore[arg-type]
        none = stack.client().estimate(TOPIC, everything=True)
        assert (none.messages, none.requests, none.read_bytes) == (0, 2, 0)
