"""Samples: few values that stand for many."""

from __future__ import annotations

from collections.abc import Sequence

MOST_VALUES = 99
"""CloudWatch takes 100 values of a metric in one record, and Powertools writes a record of its own at the hundredth."""


def sample(values: Sequence[int], most: int = MOST_VALUES) -> list[int]:
    """Returns values with the least, the greatest and the percentiles of all, in order.

    It takes every n-th of the sorted values: any percentile of the sample is one of the values within half a step (one
    part in `most`) of that percentile of all.

    Args:
        values: any number, in any order.
        most: how many to return at most; at least 2.
    """
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(place * last / (most - 1))] for place in range(most)]
