"""Reduces many values to a sample with nearly the same percentiles."""

from __future__ import annotations

from collections.abc import Sequence

MOST_VALUES = 99
"""CloudWatch takes 100 values of a metric in one record. Powertools writes a separate record at the hundredth."""


def sample(values: Sequence[int], most: int = MOST_VALUES) -> list[int]:
    """Returns a sorted sample with the least, the greatest and the percentiles of all values.

    The sample is every n-th of the sorted values. Any percentile of the sample is a value within half a step (one
    part in `most`) of the same percentile of all values.

    Args:
        values: any number of values, in any order.
        most: how many values to return at most. At least 2.
    """
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(place * last / (most - 1))] for place in range(most)]
