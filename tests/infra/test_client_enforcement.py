"""Clients under their own policies, with IAM enforced. Intended calls work, all others are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.local_template import normalized
from tests.iam_requests import requests_of
from tests.infra.dedicated import synthesized
from tests.infra.test_client_permissions import (
    ADMINISTRATOR,
    CALLS,
    CONSUMER,
    MINE,
    OTHER,
    SENDER,
    World,
    statements,
)
from tidewheel.client.consumer import Consumer
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator.iam_policy import allowed
from tidewheel.local.emulator.iam_resources import asked
from tidewheel.policies import Statement, consumer_statements, sender_statements

UNLIKE = {"receive with plain boto3"}
"""What CALLS makes with a client of its own."""
LOOKING = {"peek of an administrator", "stats of an administrator"}
"""Calls that senders may make too."""
IMPLIED = {"send": {"send", "reschedule"}, "cancel": {"cancel", "reschedule"}, "look": {"look", "reschedule"}}
"""Action -> the actions whose statements allow the action's calls."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with LocalTidewheel(template=normalized(synthesized(MINE, OTHER))) as stack:
        yield World(stack)


def session_of(world: World, given: Sequence[Statement]) -> Any:
    """Returns a session restricted to the statements."""
    session = world.stack._emulator.session()  # type: ignore[attr-defined]

    def enforce(params: dict[str, Any], model: Any, **_: Any) -> None:
        for request in requests_of(model.service_model.service_name, model.name, params):
            for each in asked(request, model.name):
                if not allowed(given, each):
                    answer = {"Code": "AccessDeniedException", "Message": f"{each.action} on {each.resource}"}
                    raise ClientError({"Error": answer, "ResponseMetadata": {"HTTPStatusCode": 400}}, model.name)

    session.events.register("before-parameter-build.*.*", enforce)
    return session


def client_of(world: World, given: Sequence[Statement]) -> Tidewheel:
    """A client with a session of `session_of`."""
    return Tidewheel(world.stack.stack_name, session=session_of(world, given), clock=world.stack.clock)


def refused(error: BaseException) -> bool:
    """Returns whether AccessDenied is an error's cause, directly or indirectly."""
    return "AccessDenied" in f"{error!r} {error} {error.__cause__!r} {error.__context__!r}"


@pytest.mark.parametrize("name", sorted(CALLS.keys() - UNLIKE))
def test_a_call_works_under_the_policy_that_is_for_it(world: World, name: str) -> None:
    call = CALLS[name]
    call.prepare(world, MINE)
    call.do(client_of(world, statements(world, call, MINE)), world, MINE)
    if name == "create_topic":
        world.stack.client().delete_topic("new", delete_queues=True)
        world.stack.advance(minutes=20)


@pytest.mark.parametrize("name", sorted(name for name in CALLS.keys() - UNLIKE if CALLS[name].role != ADMINISTRATOR))
def test_a_call_is_refused_under_the_policy_of_another_topic(world: World, name: str) -> None:
    call = CALLS[name]
    call.prepare(world, MINE)
    with pytest.raises(Exception) as caught:
        call.do(client_of(world, statements(world, call, OTHER)), world, MINE)
    assert refused(caught.value), caught.value


@pytest.mark.parametrize("given", ["send", "cancel", "look", "reschedule"])
@pytest.mark.parametrize("name", ["send", "cancel by id", "cancel by key", "cancel_many", "reschedule", "get", "peek"])
def test_a_senders_call_is_refused_under_the_policy_of_another_action(world: World, name: str, given: Any) -> None:
    call = CALLS[name]
    world.sent[MINE] = world.stack.client().send(MINE, "waiting", delay="2d").id
    world.stack.client().send(MINE, "keyed", delay="2d", key="a key", replace=True)
    world.stack.advance(minutes=10)
    needed = {"get": "look", "peek": "look"}.get(name, name.split()[0].split("_")[0])
    client = client_of(world, sender_statements(world.settings, MINE, actions=(given,)))
    if given in IMPLIED.get(needed, {needed}):
        call.do(client, world, MINE)
        return
    with pytest.raises(Exception) as caught:
        call.do(client, world, MINE)
    assert refused(caught.value), caught.value


@pytest.mark.parametrize("name", sorted({name for name in CALLS if CALLS[name].role == ADMINISTRATOR} - LOOKING))
@pytest.mark.parametrize("role", [SENDER, CONSUMER])
def test_an_administrators_call_is_refused_under_a_clients_policy(world: World, name: str, role: str) -> None:
    call = CALLS[name]
    call.prepare(world, MINE)
    # A change that changes nothing makes no request that could be refused.
    world.stack.client().update_topic(MINE, max_buckets=33)
    world.stack.client().set_filter(MINE, "mail", {"kind": ["a"]})
    given = (
        sender_statements(world.settings, MINE)
        if role == SENDER
        else consumer_statements(
            world.settings, MINE, world.queue_url(MINE), actions=("receive", "retry_later", "redrive")
        )
    )
    with pytest.raises(Exception) as caught:
        call.do(client_of(world, given), world, MINE)
    world.stack.client().set_filter(MINE, "mail", None)
    assert refused(caught.value), caught.value


@pytest.mark.parametrize("kind", ["plain", "large", "keyed", "last attempt", "level", "expired"])
@pytest.mark.parametrize("actions", [("retry_later",), ("receive", "retry_later")])
def test_retry_later_works_under_its_own_policy(world: World, kind: str, actions: Any) -> None:
    sender = world.stack.client()
    options: dict[str, Any] = {"keyed": {"key": "a retried key"}, "expired": {"expires_in": "5s"}}.get(kind, {})
    sender.send(MINE, "x" * 2_000_000 if kind == "large" else kind, **options)
    world.stack.advance(seconds=2)
    client = client_of(world, consumer_statements(world.settings, MINE, world.queue_url(MINE), actions=actions))
    consumer = Consumer(client, MINE, "mail", max_attempts=1 if kind == "last attempt" else 16)
    messages = consumer.receive(max_messages=10)
    assert messages
    for each in messages:
        consumer.retry_later(each, level=2 if kind == "level" else None)
