import pytest

from benchmarks.peers import redis_poller, schedules, tidewheel_stack
from benchmarks.peers.account import START_MS, Run
from benchmarks.peers.redis_poller import Redis
from benchmarks.peers.stream import Delivery, Timed, outcome, stream

# More than SQS can delay.
FIRST_MS = START_MS + 1_000_000
SPAN_MS = 20_000
UNTIL_MS = FIRST_MS + SPAN_MS + 3_000
MESSAGES = 25

needs_redis = pytest.mark.skipif(Redis.missing() is not None, reason="there is no redis-server")


def small_stream() -> list[Timed]:
    return stream(MESSAGES, first_ms=FIRST_MS, span_ms=SPAN_MS)


def assert_sound(run: Run, *, late_ms: int) -> None:
    assert run.outcome.sound, run.outcome
    assert run.outcome.sent == MESSAGES
    assert run.outcome.lateness_ms[-1] <= late_ms


@needs_redis
def test_the_redis_poller_delivers_each_message_once_and_within_its_interval() -> None:
    run = redis_poller.run(small_stream(), until_ms=UNTIL_MS, interval_ms=1000)

    assert_sound(run, late_ms=1000)
    assert run.requests["redis.claim"] >= (UNTIL_MS - START_MS) // 1000


def test_schedules_deliver_each_message_once_and_none_is_left() -> None:
    run = schedules.run(small_stream(), until_ms=UNTIL_MS)

    assert_sound(run, late_ms=1000)
    assert run.requests == dict.fromkeys(("scheduler.CreateSchedule", "scheduler.Invoke", "sqs.SendMessage"), MESSAGES)


def test_tidewheel_delivers_the_same_stream_once_and_within_its_promise_with_the_skew_it_is_deployed_with() -> None:
    run = tidewheel_stack.run(small_stream(), until_ms=UNTIL_MS)

    assert tidewheel_stack.MAX_SKEW_MS == 100
    assert_sound(run, late_ms=1100)
    assert run.outcome.lateness_ms[0] >= 100
    assert run.requests["s3.PutObject"] >= 1


def test_an_outcome_tells_what_was_lost_early_and_doubled() -> None:
    sent = [Timed(number=n, due_ms=1000 * n, body=f"{n} {{}}") for n in range(4)]
    arrived = [Delivery(number=n, at_ms=at_ms) for n, at_ms in ((0, 10), (1, 999), (2, 2500), (2, 2600))]

    found = outcome(sent, arrived)

    assert (found.delivered, found.lost, found.early, found.duplicates) == (3, 1, 1, 1)
    assert not found.sound
    assert found.lateness_ms == (-1, 10, 500, 600)
    assert [found.percentile_ms(percent) for percent in (0, 50, 100)] == [-1, 500, 600]
