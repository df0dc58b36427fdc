from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.peers import dynamodb_poller, redis_poller, schedules, tidewheel_stack
from benchmarks.peers.account import START_MS, Account, Run
from benchmarks.peers.dynamodb_poller import AHEAD, DYNEIN, DynamoDbPoller, Polling
from benchmarks.peers.redis_poller import LEASE_S, Redis, RedisPoller
from benchmarks.peers.schedules import OneScheduleEach
from benchmarks.peers.stream import Delivery, Timed, outcome, stream
from tidewheel.clock import ManualClock
from tidewheel.errors import InvalidValue

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


def writes_a_message(run: Run) -> dict[str, float]:
    names = ("PutItem", "UpdateItem", "DeleteItem")
    return {name: run.requests.get(f"dynamodb.{name}", 0) / MESSAGES for name in names}


@needs_redis
def test_the_redis_poller_delivers_each_message_once_and_within_its_interval() -> None:
    run = redis_poller.run(small_stream(), until_ms=UNTIL_MS, interval_ms=1000)

    assert_sound(run, late_ms=1000)
    assert run.requests["redis.claim"] >= (UNTIL_MS - START_MS) // 1000


@pytest.mark.parametrize("polling", [DYNEIN, AHEAD, Polling(shards=3)], ids=["as Dynein does", "ahead", "three shards"])
def test_the_dynamodb_poller_delivers_each_message_once_and_within_a_second(polling: Polling) -> None:
    run = dynamodb_poller.run(small_stream(), until_ms=UNTIL_MS + AHEAD.interval_s * 1000, polling=polling)

    assert_sound(run, late_ms=1001)
    assert ("lambda.Invoke" in run.requests, "sqs.ReceiveMessage" in run.requests) == (
        polling.serverless,
        not polling.serverless,
    )
    assert writes_a_message(run) == {"PutItem": 1, "UpdateItem": 1 if polling.claims else 0, "DeleteItem": 1}


def test_a_function_each_minute_pays_for_the_least_writes_that_it_needs_and_dynein_for_its_claims() -> None:
    assert DYNEIN.claims and not AHEAD.claims


class DiesBeforeItDeletes(DynamoDbPoller):
    dies = True

    def _change(self, change: Any, item: dict[str, Any], status: str, **update: str) -> None:
        if self.dies:
            raise KeyboardInterrupt
        super()._change(change, item, status, **update)


def test_a_function_that_dies_between_send_and_delete_sends_again() -> None:
    messages = stream(3, first_ms=FIRST_MS, span_ms=1000)
    with Account() as account:
        poller = DiesBeforeItDeletes(account, AHEAD)
        poller.send(messages)
        account.clock.set_ms(FIRST_MS - AHEAD.lookahead_s * 1000 + 2000)
        with pytest.raises(KeyboardInterrupt):
            poller.poll()
        poller.dies = False
        found = outcome(messages, poller.run_until(UNTIL_MS))

    assert (found.lost, found.early, found.duplicates) == (0, 0, 3)


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


def test_what_is_due_within_15_minutes_never_comes_into_the_table() -> None:
    soon = stream(MESSAGES, first_ms=START_MS + 1000, span_ms=SPAN_MS)
    with Account() as account:
        poller = DynamoDbPoller(account, DYNEIN)
        poller.send(soon)
        assert poller.take_in() == 0
        deliveries = poller.run_until(START_MS + SPAN_MS + 3000)

    assert outcome(soon, deliveries).sound


def test_schedules_wait_until_they_fire() -> None:
    with Account() as account:
        peer = OneScheduleEach(account)
        peer.send(small_stream())
        assert peer.waiting() == MESSAGES
        assert peer.run_until(FIRST_MS - 1000) == []
        assert peer.waiting() == MESSAGES


class DiesBeforeItAcknowledges(RedisPoller):
    def _acknowledge(self, numbers: Sequence[int]) -> None:
        raise KeyboardInterrupt


@needs_redis
def test_what_a_redis_poller_claimed_before_it_died_comes_again_after_its_lease() -> None:
    messages = small_stream()
    clock = ManualClock(UNTIL_MS)
    with Redis() as server:
        server.start()
        dying, alive = DiesBeforeItAcknowledges(server.client, clock), RedisPoller(server.client, clock)
        alive.send(messages)
        with pytest.raises(KeyboardInterrupt):
            dying.poll()
        assert alive.poll() == []
        clock.advance_ms(LEASE_S * 1000)
        deliveries = alive.poll()
        assert alive.waiting() == 0

    assert outcome(messages, deliveries).sound


def test_the_stream_is_in_order_within_its_span_and_numbers_are_in_the_bodies() -> None:
    for count in (1, 7, 6000):
        messages = stream(count, first_ms=FIRST_MS, span_ms=SPAN_MS)
        assert len(messages) == count
        assert messages == sorted(messages, key=lambda message: message.due_ms)
        assert all(FIRST_MS <= message.due_ms <= FIRST_MS + SPAN_MS for message in messages)
        assert sorted(int(message.body.split(" ", 1)[0]) for message in messages) == list(range(count))


def test_an_outcome_tells_what_was_lost_early_and_doubled() -> None:
    sent = [Timed(number=n, due_ms=1000 * n, body=f"{n} {{}}") for n in range(4)]
    arrived = [Delivery(number=n, at_ms=at_ms) for n, at_ms in ((0, 10), (1, 999), (2, 2500), (2, 2600))]

    found = outcome(sent, arrived)

    assert (found.delivered, found.lost, found.early, found.duplicates) == (3, 1, 1, 1)
    assert not found.sound
    assert found.lateness_ms == (-1, 10, 500, 600)
    assert [found.percentile_ms(percent) for percent in (0, 50, 100)] == [-1, 500, 600]


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidValue, match="nothing was delivered"):
        outcome([], []).percentile_ms(50)
