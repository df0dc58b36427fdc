"""Real messages over 60 virtual days in all topics but the largest, together on one stack."""

from __future__ import annotations

from tests.conftest import check_replay, real_messages


def test_each_message_of_several_topics_reaches_each_subscription_once_and_in_time() -> None:
    check_replay([sample for sample in real_messages() if sample.topic != "rocketmq"][::16])
