"""Merging on the real template, handlers and adapters."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.flows.world import Crash, CrashingPorts
from tidewheel.aws.service import Service
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.merge import in_process, merge
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message
from tidewheel.model.settings import ServiceSettings, parameter_name

HOUR = 3600


def send_in_batches(stack: LocalTidewheel, batches: int, each: int) -> Counter[str]:
    """Sends batches ten minutes apart, each for a separate ledger, due within three days. Returns the bodies."""
    random_ = random.Random(5)
    client = stack.client()
    bodies: Counter[str] = Counter()
    for batch in range(batches):
        messages = [
            Message(body=f"{batch}-{i}", delay=timedelta(seconds=HOUR + random_.randrange(70 * HOUR)))
            for i in range(each)
        ]
        client.send_many("orders", messages)
        bodies.update(str(message.body) for message in messages)
        stack.advance(minutes=10)
    return bodies


def test_the_sweep_has_small_merges_done_and_every_message_arrives_once() -> None:
    with LocalTidewheel(max_buckets=16) as stack:
        client = stack.client()
        client.create_topic("orders")
        client.create_subscription("orders", "mail")
        bodies = send_in_batches(stack, 60, 20)
        assert stack.invocations["compact"] >= 3
        live = client.stats("orders").buckets
        assert live < 40, live
        stack.advance(days=4)
        received = stack.receive("orders", "mail")
        assert Counter(message.body for message in received) == bodies
        assert all(m.visible_at is not None and m.visible_at >= m.deliver_at for m in received)
        assert not stack.failures
        assert client.stats("orders").buckets == 0


def ports_of(stack: LocalTidewheel) -> Service:
    """Returns the adapters on the stack's S3 and DynamoDB, as used by the functions."""
    ssm = stack.session.client("ssm")
    text = ssm.get_parameter(Name=parameter_name(stack.stack_name))["Parameter"]["Value"]
    return Service.of(ServiceSettings.from_json(text, "ssm"), stack.session, stack.clock)


def send_some(stack: LocalTidewheel, random_: random.Random, bodies: Counter[str]) -> None:
    """Sends a few messages due within two days."""
    messages = [
        Message(body=str(random_.random()), delay=timedelta(seconds=random_.randrange(2 * 24 * HOUR))) for _ in range(6)
    ]
    stack.client().send_many("orders", messages)
    bodies.update(str(message.body) for message in messages)


def subscribed(stack: LocalTidewheel) -> None:
    stack.client().create_topic("orders")
    for name in ("mail", "audit"):
        stack.client().create_subscription("orders", name)


def assert_each_once(stack: LocalTidewheel, bodies: Counter[str]) -> None:
    for name in ("mail", "audit"):
        received = stack.receive("orders", name)
        assert Counter(message.body for message in received) == bodies
        assert all(m.visible_at is not None and m.visible_at >= m.deliver_at for m in received)


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_sends_merges_and_collections_delivers_every_message_once(seed: int) -> None:
    random_ = random.Random(seed)
    bodies: Counter[str] = Counter()
    with LocalTidewheel(max_buckets=4) as stack:
        subscribed(stack)
        ports = ports_of(stack)
        for _ in range(25):
            match random_.choice(["send", "send", "merge", "collect", "advance"]):
                case "send":
                    send_some(stack, random_, bodies)
                    stack.advance(minutes=random_.choice([1, 6]))
                case "merge":
                    merge(ports, "orders", in_process(ports.objects), lease_s=900, everything=True)
                case "collect":
                    collect(ports, "orders")
                case _:
                    stack.advance(minutes=random_.randrange(200))
        stack.advance(days=3)
        assert_each_once(stack, bodies)
        assert not stack.failures


def test_a_merge_killed_after_any_request_loses_and_doubles_nothing() -> None:
    random_ = random.Random(11)
    bodies: Counter[str] = Counter()
    with LocalTidewheel(max_buckets=64) as stack:
        subscribed(stack)
        ports: Any = CrashingPorts(ports_of(stack))  # type: ignore[arg-type]
        at, crashed = 0, True
        while crashed:
            at += 1
            for _ in range(3):
                send_some(stack, random_, bodies)
                stack.advance(minutes=6)
            ports.plan.schedule(at, "after")
            try:
                merged = merge(ports, "orders", in_process(ports.objects), lease_s=60, everything=True)
                crashed = merged is None
            except Crash:
                pass
            ports.plan.disarm()
        assert at > 8
        stack.advance(days=3)
        assert_each_once(stack, bodies)
