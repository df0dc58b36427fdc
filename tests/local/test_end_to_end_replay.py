"""Real messages over 60 virtual days in the largest topic, and deliveries by sweeps alone.

The other topics are in `test_end_to_end_replay_others`, so that two workers share the time. pytest-xdist queues one
more file on a worker that has two tests left: three here keep that one off this worker.
"""

from __future__ import annotations

import pytest

from tests.conftest import check_replay, real_messages
from tidewheel.local.replay import packaged_samples, read_samples


def test_each_message_of_a_large_topic_reaches_each_subscription_once_and_in_time() -> None:
    check_replay([sample for sample in real_messages() if sample.topic == "rocketmq"][::16])


@pytest.mark.parametrize("topic", ["rocketmq", "pyiceberg"])
def test_without_any_schedule_the_sweeps_deliver_all_messages_once_and_in_time(topic: str) -> None:
    # A part of the samples: most are alone in their slot, and each slot takes a sweep of its own.
    check_replay([s for s in read_samples(packaged_samples()) if s.topic == topic][::24], drop_schedules=True)
