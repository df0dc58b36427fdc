"""A deadline travels with a call's context, and limits every step of the call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest

from tidewheel import deadline
from tidewheel.deadline import TRY_S
from tidewheel.errors import OutOfTime


class Call:
    """A call of a function, whose time is moved by hand."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def left_s(self) -> float:
        return self.seconds


def test_without_a_deadline_nothing_is_bounded() -> None:
    with deadline.share(3), deadline.reserve(10):
        deadline.check()
        assert deadline.left_s() == inf


def test_no_try_begins_that_would_outlast_the_call() -> None:
    call = Call(TRY_S)
    with deadline.ends_in(call.left_s):
        deadline.check()
        call.seconds = TRY_S - 0.01
        with pytest.raises(OutOfTime):
            deadline.check()


def test_who_has_used_up_a_share_leaves_the_others_theirs() -> None:
    call = Call(60)
    with deadline.ends_in(call.left_s):
        for of, begins, left in ((3, 60, 20), (2, 40, 20), (1, 20, 20)):
            assert call.seconds == begins
            with deadline.share(of):
                assert deadline.left_s() == left
                call.seconds -= left
                with pytest.raises(OutOfTime):
                    deadline.check()


def test_a_reserve_is_kept_for_what_follows_and_is_at_most_half() -> None:
    call = Call(60)
    with deadline.ends_in(call.left_s):
        with deadline.reserve(15):
            assert deadline.left_s() == 45
            call.seconds = 15
            with pytest.raises(OutOfTime):
                deadline.check()
        deadline.check()
        with deadline.reserve(15):
            assert deadline.left_s() == 7.5


def test_a_block_inside_another_has_no_more_time_than_that() -> None:
    call = Call(60)
    with deadline.ends_in(call.left_s), deadline.within(10), deadline.within(30):
        assert deadline.left_s() == 10


def test_a_call_without_a_deadline_gets_one_of_its_own() -> None:
    with deadline.within(30):
        assert 0 < deadline.left_s() <= 30
        deadline.check()
    assert deadline.left_s() == inf


def test_other_threads_have_the_deadline_of_the_caller() -> None:
    call = Call(60)
    with ThreadPoolExecutor(2) as pool, deadline.ends_in(call.left_s), deadline.reserve(20):
        assert list(pool.map(deadline.carried(lambda _: deadline.left_s()), range(4))) == [40] * 4
        assert pool.submit(deadline.left_s).result() == inf


def test_a_wait_ends_with_the_time() -> None:
    call = Call(0.001)
    with deadline.ends_in(call.left_s):
        deadline.sleep(3600)
