"""Real messages over 60 virtual days: the largest topic, on a worker of its own. The others: `..._replay_others`."""

from __future__ import annotations

from tests.conftest import check_replay, real_messages


def test_each_message_of_a_large_topic_reaches_each_subscription_once_and_in_time() -> None:
    check_replay([sample for sample in real_messages() if sample.topic == "rocketmq"])
