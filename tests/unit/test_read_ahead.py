"""What is read ahead comes in order, within a bound, and not once nobody wants it."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from tidewheel import deadline
from tidewheel.storage.read_ahead import read_ahead


class Reads:
    """Answers once `enough` requests stand side by side.

    Attributes:
        begun: what was asked for, in the order of the requests.
    """

    def __init__(self, enough: int = 1) -> None:
        self.begun: list[int] = []
        self._together = threading.Barrier(enough)

    def __call__(self, wanted: int) -> int:
        self.begun.append(wanted)
        self._together.wait(30)
        return -wanted


@pytest.mark.parametrize("threads", [0, 1, 3, 50])
def test_answers_come_in_the_order_in_which_they_are_wanted(threads: int) -> None:
    assert list(read_ahead(Reads(), range(20), threads=threads)) == [-each for each in range(20)]


def test_requests_stand_side_by_side() -> None:
    assert len(list(read_ahead(Reads(4), range(20), threads=4))) == 20


def test_without_threads_nothing_is_read_ahead() -> None:
    reads = Reads()
    found = read_ahead(reads, range(20), threads=0)
    assert [next(found), next(found)] == [0, -1]
    assert reads.begun == [0, 1]


@pytest.mark.parametrize(("most_bytes", "ahead"), [(0, 0), (25, 2), (1000, 7)])
def test_what_nobody_asked_for_yet_stays_within_the_bound(most_bytes: int, ahead: int) -> None:
    reads = Reads()
    with closing(read_ahead(reads, range(20), size=lambda _: 10, threads=8, most_bytes=most_bytes)) as found:
        next(found)
    assert len(reads.begun) <= 1 + ahead


def test_an_error_comes_in_its_turn_and_ends_the_reading() -> None:
    begun: list[int] = []

    def read(wanted: int) -> int:
        begun.append(wanted)
        if wanted == 3:
            raise ValueError(wanted)
        return wanted

    found = read_ahead(read, range(1000), threads=2)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="3"):
        next(found)
    assert len(begun) < 10


def test_requests_end_with_the_time_of_their_caller() -> None:
    def read(_: int) -> float:
        return deadline.left_s()

    with deadline.ends_in(lambda: 5):
        assert max(read_ahead(read, range(10), threads=2)) <= 5
