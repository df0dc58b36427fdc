"""Tests the client for asyncio and the buffered sender (point 11)."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import (
    AsyncTidewheel,
    BufferedSender,
    BufferFull,
    Closed,
    FailedMessage,
    FlushFailed,
    InvalidValue,
    LimitExceeded,
    Tidewheel,
    UnknownTopic,
)


def test_the_async_client_has_the_same_methods_with_the_same_arguments() -> None:
    methods = [name for name, each in inspect.getmembers(Tidewheel, inspect.isfunction) if not name.startswith("_")]
    assert len(methods) > 20
    for name in methods:
        if name == "find":  # what is found is iterated
            continue
        method = getattr(AsyncTidewheel, name)
        assert inspect.iscoroutinefunction(method), name
        assert inspect.signature(method) == inspect.signature(getattr(Tidewheel, name)), name


def test_what_is_sent_cancelled_and_received_by_await_is_so(topic: Topic) -> None:
    async def story() -> list[str]:
        async with AsyncTidewheel(client=topic.client) as tw:
            receipts = await asyncio.gather(*(tw.send(topic.name, str(n), delay="2h") for n in range(20)))
            assert all(await tw.cancel_many(topic.name, [each.id for each in receipts[10:]]))
            with pytest.raises(UnknownTopic):
                await tw.send("nobody", "x")
            await asyncio.to_thread(topic.advance, hours=3)
            messages = await tw.receive(topic.name, "billing", max_messages=20)
            await tw.delete(topic.name, "billing", messages)
            return [each.body for each in messages]

    assert sorted(asyncio.run(story())) == sorted(map(str, range(10)))
    assert topic.everything_in(topic.queue_url()) == []


def test_a_closed_async_client_says_so(topic: Topic) -> None:
    async def story() -> None:
        tw = AsyncTidewheel(client=topic.client)
        await tw.aclose()
        with pytest.raises(Closed):
            await tw.send(topic.name, "x")

    asyncio.run(story())


def packs_on_their_way(topic: Topic) -> int:
    return len(topic.copies_of_what_is_on_its_way())


@pytest.mark.parametrize("limit", [{"max_messages": 10}, {"max_bytes": 1000}], ids=["count", "bytes"])
def test_the_buffer_is_sent_by_count_and_by_bytes(topic: Topic, limit: dict[str, Any]) -> None:
    with BufferedSender(topic.client, max_age_s=900, **limit) as sender:
        early = [sender.add(topic.name, "x" * 100) for _ in range(10)]
        assert {each.result(timeout=60).topic for each in early} == {topic.name}
        late = sender.add(topic.name, "late")
        assert sender.pending == 1 and not late.done()
    assert late.done()
    topic.advance(seconds=1)
    assert len(topic.bodies()) == 11


def test_what_is_old_enough_is_sent(topic: Topic) -> None:
    with BufferedSender(topic.client, max_age_s=0.01) as sender:
        assert sender.add(topic.name, "x").result(timeout=60).topic == topic.name


def test_what_is_in_the_buffer_is_flushed_on_exit_packed_together(topic: Topic) -> None:
    before = packs_on_their_way(topic)
    with BufferedSender(topic.client, max_age_s=900) as sender:
        futures = [sender.add(topic.name, str(n), delay=60, key=str(n)) for n in range(200)]
        assert packs_on_their_way(topic) == before
    assert packs_on_their_way(topic) == before + 1
    assert len({each.result().id for each in futures}) == 200
    with pytest.raises(Closed):
        sender.add(topic.name, "too late")
    topic.advance(seconds=62)
    assert len(topic.take()) == 200


def test_what_cannot_be_sent_is_reported_and_the_rest_goes(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidewheel.client.sender import Sender

    honest = Sender.try_checked

    def refuse_one(self: Sender, messages: list[Any]) -> dict[int, Exception]:
        assert honest(self, [each for each in messages if each.text != "bad"]) == {}
        return {i: RuntimeError("refused") for i, each in enumerate(messages) if each.text == "bad"}

    monkeypatch.setattr(Sender, "try_checked", refuse_one)
    sender = BufferedSender(topic.client, max_age_s=900)
    good, bad = sender.add(topic.name, "good"), sender.add(topic.name, "bad")
    with pytest.raises(FlushFailed, match="message 1 of topic") as caught:
        sender.flush()
    [failed] = caught.value.failures
    assert (failed.index, failed.message.body, str(failed.error)) == (1, "bad", "refused")
    assert good.result().topic == topic.name and isinstance(bad.exception(), RuntimeError)
    sender.close()
    told: list[FailedMessage] = []
    with BufferedSender(topic.client, max_age_s=900, on_failure=told.append) as sender:
        sender.add(topic.name, "bad")
    assert [each.message.body for each in told] == ["bad"]


def test_a_full_buffer_holds_its_callers_back(topic: Topic) -> None:
    sender = BufferedSender(topic.client, max_age_s=900, max_pending=2, max_wait_s=0)
    sender.add(topic.name, "one")
    sender.add(topic.name, "two")
    with pytest.raises(BufferFull, match="2 messages"):
        sender.add(topic.name, "three")
    sender.flush()
    sender.add(topic.name, "three")
    sender.close()
    topic.advance(seconds=1)
    assert topic.bodies() == ["one", "three", "two"]


def test_bad_messages_and_limits_are_refused_when_they_are_added(topic: Topic) -> None:
    slow = topic.another("slow", max_send_rate=1)
    with BufferedSender(topic.client, max_age_s=900) as sender:
        with topic.nothing_is_sent():
            with pytest.raises(InvalidValue, match="delay='soon'"):
                sender.add(topic.name, "x", delay="soon")
            with pytest.raises(UnknownTopic, match="nobody"):
                sender.add("nobody", "x")
        for _ in range(10):
            sender.add(slow.name, "x")
        with pytest.raises(LimitExceeded, match="max_send_rate=1"):
            sender.add(slow.name, "x")
