"""The crossing that the benchmark of a merge's machines reports."""

from __future__ import annotations

from benchmarks.bench_merge_machines import crossing


def test_a_crossing_lies_between_the_last_size_that_was_slower_and_the_next() -> None:
    assert crossing([0, 10, 20], [1, 4, 9], [3, 4.5, 8.5]) == 15


def test_a_crossing_that_is_undone_at_a_larger_size_does_not_count() -> None:
    assert crossing([0, 10, 20, 30], [1, 5, 5, 9], [2, 4, 6, 8]) == 25


def test_there_is_no_crossing_if_the_later_is_slower_at_the_largest_size() -> None:
    assert crossing([0, 10], [1, 2], [0.5, 3]) is None


def test_the_smallest_size_is_the_crossing_if_the_later_is_always_faster() -> None:
    assert crossing([5, 10], [1, 2], [0.5, 1]) == 5
