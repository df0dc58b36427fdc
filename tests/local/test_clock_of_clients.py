"""A client of a stack with virtual time is on the stack's clock, or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from tidewheel import AsyncTidewheel, BufferedSender, Consumer, InvalidValue, Tidewheel
from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.local import LocalTidewheel

REFUSED = r"the stack's time is .* 2026 .*take the client from stack\.client\(\)"


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
        tw = stack.client()
        tw.create_topic("orders")
        tw.create_subscription("orders", "billing")
        yield stack


def direct(stack: LocalTidewheel) -> None:
    Tidewheel(session=stack.session).send("orders", "x", delay="1h")


def awaited(stack: LocalTidewheel) -> None:
    async def send() -> None:
        async with AsyncTidewheel(session=stack.session) as tw:
            await tw.send("orders", "x", delay="1h")

    asyncio.run(send())


def buffered(stack: LocalTidewheel) -> None:
    with BufferedSender(Tidewheel(session=stack.session)) as sender:
        sender.add("orders", "x", delay="1h")


def retried(stack: LocalTidewheel) -> None:
    tw = Tidewheel(session=stack.session)
    tw.send("orders", "x")
    stack.advance(seconds=5)
    [message] = tw.receive("orders", "billing")
    Consumer(tw, "orders", "billing").retry_later(message, delay="1h")


WAYS = [direct, awaited, buffered, retried]


@pytest.mark.parametrize("send", WAYS)
def test_a_client_of_the_stack_s_session_sends_by_the_stack_s_clock(
    stack: LocalTidewheel, send: Callable[[LocalTidewheel], None]
) -> None:
    send(stack)
    stack.advance(minutes=59)
    assert stack.receive("orders", "billing") == []
    stack.advance(minutes=1)
    assert [each.body for each in stack.receive("orders", "billing")] == ["x"]


@pytest.fixture
def outside(stack: LocalTidewheel, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return stack.endpoint_url


def test_a_client_on_the_machine_s_clock_is_refused_at_the_endpoint(outside: str, stack: LocalTidewheel) -> None:
    with pytest.raises(InvalidValue, match=REFUSED):
        Tidewheel(endpoint_url=outside).send("orders", "x", delay="1h")
    with pytest.raises(InvalidValue, match=REFUSED):
        asyncio.run(AsyncTidewheel(endpoint_url=outside).send("orders", "x"))
    assert Tidewheel(endpoint_url=outside, clock=stack.clock).topics()


def test_the_command_line_is_refused_at_the_endpoint_in_one_line(outside: str) -> None:
    done = CliRunner().invoke(app, ["send", "orders", "x"], obj=Target(endpoint_url=outside))
    assert done.exit_code == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("tidewheel: clock=") and "stack.client()" in done.stderr
