"""Real messages over 60 virtual days while every one-time schedule is lost: sweeps alone move the service.

Every fifth of the packaged samples: each that is alone in its slot is healed by a sweep of its own.
"""

from __future__ import annotations

from tests.conftest import check_replay
from tidewheel.local.replay import packaged_samples, read_samples


def test_without_any_schedule_the_sweeps_deliver_all_messages_once_and_in_time() -> None:
    check_replay(read_samples(packaged_samples())[::5], drop_schedules=True)
