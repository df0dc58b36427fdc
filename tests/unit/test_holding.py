"""What a worker holds, and what it asks of SQS and when, with given times."""

from __future__ import annotations

from dataclasses import replace
from itertools import count as counting

from tests.unit.test_retries import received
from tidewheel.client.worker.holding import Held, Holding

NUMBERS = counting()


def holding(at_once: int = 1, hidden_s: float = 60, timeout_s: float = 3600) -> Holding:
    return Holding(at_once, hidden_s, timeout_s)


def take(held: Holding, count: int, now_s: float = 0) -> None:
    held.take([replace(received(), sqs_message_id=str(next(NUMBERS))) for _ in range(count)], now_s)


def work(held: Holding, count: int, *, took_s: float = 0.01) -> None:
    """Handles messages one after the other, each in so many seconds, and lets go of them."""
    for _ in range(count):
        take(held, 1)
        held.end(begun(held), took_s, done=True)
        held.handled(0, everything=True)


def begun(held: Holding, now_s: float = 0) -> Held:
    one = held.begin(now_s)
    assert one is not None
    return one


def test_a_receive_asks_for_those_that_are_free_and_for_no_more_than_have_begun_before() -> None:
    one, three = holding(), holding(at_once=3)
    assert (one.room(), three.room()) == (1, 3)
    work(one, 1)
    assert one.room() == 1
    work(one, 3)
    assert one.room() == 4
    work(one, 20)
    assert one.room() == 10
    take(one, 1)
    assert one.room() == 0  # what is received begins first
    begun(one)
    assert one.room() == 10


def test_where_calls_are_slow_a_receive_asks_for_what_can_begin_within_five_seconds() -> None:
    held = holding(at_once=2)
    work(held, 20, took_s=4)
    take(held, 2)
    begun(held), begun(held)
    assert held.room() == 2
    held = holding()
    work(held, 20, took_s=6)
    take(held, 1)
    begun(held)
    assert held.room() == 0


def test_nothing_is_received_while_a_claim_gets_no_answer_or_nothing_can_be_acknowledged() -> None:
    held = holding(at_once=50)
    take(held, 1)
    held.waits.add(waiting := begun(held))
    assert held.room() == 0
    held.waits.remove(waiting)
    for _ in range(101):
        take(held, 1)
        held.end(begun(held), 0.01, done=True)
    assert held.room() == 0


def test_of_a_queue_that_hides_nothing_each_message_is_acknowledged_before_the_next_is_received() -> None:
    held = holding(hidden_s=0)
    take(held, 1)
    assert held.fading(0) == []
    held.end(begun(held), 0, done=True)
    assert held.room() == 0 and held.acknowledges and len(held.handled(0, everything=False)) == 1
    assert held.room() == 1


def test_what_does_not_begin_within_five_seconds_goes_back_and_is_not_received_again_meanwhile() -> None:
    held = holding()
    work(held, 20)
    take(held, 4)
    slow = begun(held)
    assert held.unbegun(4.9, everything=False) == []
    assert len(held.unbegun(5, everything=False)) == 3
    assert held.room() == 0
    held.end(slow, 300, done=True)
    assert held.room() == 1
    work(held, 80)
    assert held.room() == 10
    held = holding(hidden_s=5)  # half of a short visibility time-out is less
    take(held, 2)
    assert held.unbegun(2.4, everything=False) == []
    assert len(held.unbegun(2.4, everything=True)) == 2
    take(held, 1)
    assert len(held.unbegun(2.5, everything=False)) == 1


def test_those_with_more_receives_begin_first() -> None:
    held, often = holding(), received()
    held.take([received(), replace(often, receive_count=4), received()], 0)
    assert begun(held).message.id == often.id and held.begin(0) is None


def test_ten_handled_messages_are_acknowledged_together_or_the_first_after_a_second() -> None:
    held = holding(at_once=12)
    take(held, 12)
    for one in [begun(held) for _ in range(9)]:
        held.end(one, 10, done=True)
    assert held.handled(10.9, everything=False) == []
    batch = held.handled(11, everything=False)
    assert len(batch) == 9
    held.unacknowledged(batch)
    held.end(begun(held), 11, done=False)
    assert not held.acknowledges
    held.end(begun(held), 11, done=True)
    assert held.acknowledges and len(held.handled(11, everything=False)) == 10


def test_all_that_is_held_is_extended_when_a_third_of_its_time_is_over() -> None:
    held = holding(hidden_s=30)
    take(held, 3)
    done = begun(held)
    held.end(done, 0, done=True)
    running = begun(held)
    assert held.fading(10) == []
    fading = held.fading(10.1)
    assert len(fading) == 3 and {done, running} < set(fading)
    for each in fading:
        each.visible_s = 40.1
    assert held.fading(20) == []


def test_what_runs_longer_than_its_timeout_is_told_once_and_no_longer_extended() -> None:
    held = holding(timeout_s=60)
    take(held, 1)
    running = begun(held, 1)
    assert held.outlasting(61) == []
    assert held.outlasting(61.1) == [running] and held.outlasting(62) == []
    assert held.fading(1000) == []


def test_a_message_that_comes_again_while_it_is_held_has_its_last_handle_and_runs_once_until_its_timeout() -> None:
    held = holding(at_once=2, timeout_s=100)
    take(held, 1)
    one = begun(held)
    again = replace(one.message, receipt_handle="2")
    held.take([again], 70)
    assert held.begin(70) is None and held.fading(80) == []
    held.end(one, 80, done=True)
    assert [each.message.receipt_handle for each in held.handled(81, everything=True)] == ["2"]
    take(held, 1, 100)
    one = begun(held, 100)
    held.take([one.message], 201)
    assert held.begin(201) is not None
