"""The client for asyncio has the methods of the client, and its example runs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from tidewheel import AsyncTidewheel, Closed, InvalidValue, Tidewheel
from tidewheel.local import MemoryTidewheel

OWN = {"aclose"}
CALLS = sorted(name for name in dir(Tidewheel) if not name.startswith("_"))


def test_both_clients_have_the_same_methods() -> None:
    assert {name for name in dir(AsyncTidewheel) if not name.startswith("_")} - OWN == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_method_has_the_arguments_and_the_documentation_of_the_other_clients_and_is_awaited(name: str) -> None:
    mine, other = getattr(AsyncTidewheel, name), getattr(Tidewheel, name)
    assert inspect.iscoroutinefunction(mine) or (name == "find" and inspect.isasyncgenfunction(mine))
    assert inspect.signature(mine).parameters == inspect.signature(other).parameters
    assert mine.__name__ == name and mine.__doc__ in (other.__doc__, f"As `Tidewheel.{name}`.")


def test_both_clients_are_made_with_the_same_arguments() -> None:
    mine = dict(inspect.signature(AsyncTidewheel).parameters)
    assert (mine.pop("client").default, mine.pop("max_threads").default) == (None, 16)
    assert mine == dict(inspect.signature(Tidewheel).parameters)


class Gate(Tidewheel):
    """A client whose calls wait until they are let through."""

    def __init__(self) -> None:
        super().__init__("gate")
        self.begun: list[str] = []
        self.done: list[str] = []
        self.open = threading.Event()
        self.someone_is_here = threading.Semaphore(0)

    def subscriptions(self, topic: str) -> Any:
        self.begun.append(topic)
        self.someone_is_here.release()
        assert self.open.wait(10)
        self.done.append(topic)
        return [MARK.get()]


MARK: ContextVar[str] = ContextVar("MARK", default="none")


def test_no_more_calls_run_at_once_than_there_are_threads_and_all_come_to_their_turn() -> None:
    async def go() -> None:
        gate = Gate()
        async with AsyncTidewheel(client=gate, max_threads=2) as tw:
            calls = [asyncio.create_task(tw.subscriptions(str(i))) for i in range(5)]
            for _ in range(2):
                assert await asyncio.to_thread(gate.someone_is_here.acquire, timeout=10)
            assert len(gate.begun) == 2
            gate.open.set()
            await asyncio.gather(*calls)
            assert sorted(gate.done) == list("01234")

    asyncio.run(go())


def test_a_call_that_is_cancelled_goes_on_if_it_has_begun_and_never_begins_otherwise() -> None:
    async def go() -> None:
        gate = Gate()
        async with AsyncTidewheel(client=gate, max_threads=1) as tw:
            first = asyncio.create_task(tw.subscriptions("begun"))
            assert await asyncio.to_thread(gate.someone_is_here.acquire, timeout=10)
            second = asyncio.create_task(tw.subscriptions("waits"))
            await asyncio.sleep(0)
            for call in (second, first):
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            gate.open.set()
        assert (gate.begun, gate.done) == (["begun"], ["begun"])

    asyncio.run(go())


def test_context_variables_of_the_caller_are_seen_by_the_call() -> None:
    async def go() -> Any:
        gate = Gate()
        gate.open.set()
        MARK.set("the caller's")
        async with AsyncTidewheel(client=gate) as tw:
            return await tw.subscriptions("x")

    assert asyncio.run(go()) == ["the caller's"]


def test_a_closed_client_says_so() -> None:
    async def go() -> None:
        tw = AsyncTidewheel(client=MemoryTidewheel().client())
        await tw.aclose()
        await tw.aclose()
        with pytest.raises(Closed, match="this AsyncTidewheel was closed: make a new one"):
            await tw.topics()

    asyncio.run(go())


@pytest.mark.parametrize("threads", [0, 51, True, "2", None])
def test_a_number_of_threads_that_cannot_be_is_refused(threads: Any) -> None:
    with pytest.raises(InvalidValue, match="max_threads"):
        AsyncTidewheel(max_threads=threads)


def test_the_example_runs() -> None:
    from examples import async_and_buffered

    stack = MemoryTidewheel()
    client = stack.client()
    client.create_topic("orders")
    client.create_subscription("orders", "billing")

    async def go() -> int:
        async with AsyncTidewheel(client=client) as tw:
            await async_and_buffered.remind(tw, ["a", "b"])
            stack.advance(days=3)
            return await async_and_buffered.work(tw)

    assert asyncio.run(go()) == 2
    receipts = async_and_buffered.load(client, ({"id": i} for i in range(2500)))
    assert len({receipt.id for receipt in receipts}) == 2500
    stack.advance(days=1, minutes=10)
    assert len(stack.receive("orders", "billing")) == 2500
