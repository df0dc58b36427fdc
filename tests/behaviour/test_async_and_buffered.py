"""Tests the client for asyncio and the buffered sender (point 11)."""

from __future__ import annotations

import asyncio

import pytest

from tests.behaviour.topic import Topic
from tidewheel import AsyncTidewheel, UnknownTopic


@pytest.mark.story
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
