"""Clients under their own policies, with IAM enforced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.iam.iam_policy import allowed
from tests.iam.iam_resources import asked
from tests.iam_requests import requests_of
from tests.infra.test_client_permissions import CALLS, MINE, OTHER, World, statements
from tests.infra.variants import DEDICATED, local_template_of
from tidewheel import Cancelled, Rescheduled, TooLate
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.client.worker.consumer import Consumer
from tidewheel.local import LocalTidewheel
from tidewheel.policies import RECEIVE, ConsumerAction, Statement, consumer_statements, sender_statements

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with LocalTidewheel(template=local_template_of(DEDICATED)) as stack:
        yield World(stack)


def session_of(world: World, given: Sequence[Statement]) -> Any:
    """Returns a session restricted to the statements."""
    session = world.stack._emulator.wire.session()  # type: ignore[attr-defined]

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


def consumes(world: World, topic: str, actions: Sequence[ConsumerAction] = RECEIVE) -> list[Statement]:
    """The statements of a consumer of the topic's subscription mail."""
    return consumer_statements(world.settings, topic, world.queue_url(topic), subscription="mail", actions=actions)


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.optional])
def test_a_call_does_without_what_is_optional(world: World, name: str) -> None:
    CALLS[name].prepare(world, MINE)
    CALLS[name].do(client_of(world, statements(world, CALLS[name], MINE)), world, MINE)


def test_a_call_that_is_not_allowed_tells_so(world: World) -> None:
    with pytest.raises(Exception, match="dynamodb:GetItem"):
        client_of(world, statements(world, CALLS["send"], OTHER)).send(MINE, "x")


def test_consumers_claim_and_senders_cancel_and_move_late_under_their_policies(world: World) -> None:
    administrator = world.stack.client()
    administrator.create_topic("claimed", claims="all", retention_days=1)
    administrator.create_subscription("claimed", "mail", reader="tidewheel")
    sender = client_of(world, sender_statements(world.settings, "claimed"))
    taken, cancelled, moved = (sender.send("claimed", text, delay="20m").id for text in ("taken", "cancelled", "moved"))
    world.stack.advance(minutes=18)
    assert isinstance(sender.cancel("claimed", cancelled), Cancelled)
    assert isinstance(sender.reschedule("claimed", moved, delay="1h"), Rescheduled)
    world.stack.advance(minutes=3)
    reader = Consumer(client_of(world, consumes(world, "claimed")), "claimed", "mail")
    assert [each.body for each in reader.receive(max_messages=10)] == ["taken"]
    late = sender.cancel("claimed", taken)
    assert isinstance(late, TooLate) and late.subscriptions == ("mail",)
    administrator.delete_topic("claimed", delete_queues=True)
    world.stack.advance(minutes=20)


@pytest.mark.parametrize("kind", ["plain", "large", "keyed", "last attempt", "level", "expired"])
def test_retry_later_works_under_its_own_policy(world: World, kind: str) -> None:
    sender = world.stack.client()
    options: dict[str, Any] = {"keyed": {"key": "a retried key"}, "expired": {"expires_in": "5s"}}.get(kind, {})
    sender.send(MINE, "x" * 2_000_000 if kind == "large" else kind, **options)
    world.stack.advance(seconds=2)
    client = client_of(world, consumes(world, MINE, ("retry_later",)))
    consumer = Consumer(client, MINE, "mail", max_attempts=1 if kind == "last attempt" else 16)
    messages = consumer.receive(max_messages=10)
    assert messages
    for each in messages:
        consumer.retry_later(each, level=2 if kind == "level" else None)
