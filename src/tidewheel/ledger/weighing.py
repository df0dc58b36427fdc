"""Makes a ledger's weights while the ledger is written. `ledger/weights.py` defines weights."""

from __future__ import annotations

import numpy as np

from tidewheel.ledger.rows import Int64s
from tidewheel.ledger.weights import Weight

_RUNS = 16


def joined(weights: Int64s) -> list[Weight]:
    """Joins weights of ascending slots. The result has at most 33 weights, or 16 that are single slots.

    Args:
        weights: a row a weight, at least one, with the fields of `Weight`. The rows of a slot may come in several
            batches, of which each makes a weight.
    """
    first_slots, last_slots = weights[:, 0], weights[:, 1]
    rows = _summed(weights, np.flatnonzero(np.append(True, first_slots[1:] != last_slots[:-1])))
    if len(rows) > _RUNS:
        rows = _summed(rows, _starts(np.cumsum(rows[:, 2])))
    return [Weight(*row) for row in rows.tolist()]


def _starts(ends: Int64s) -> Int64s:
    """Returns the first weight of each run. A run is as long as it has at most a 16th of all bytes."""
    starts = [0]
    most = int(ends[-1]) // _RUNS
    while True:
        before = int(ends[starts[-1] - 1]) if starts[-1] else 0
        end = max(starts[-1] + 1, int(ends.searchsorted(before + most, "right")))
        if end >= len(ends):
            return np.array(starts)
        starts.append(end)


def _summed(weights: Int64s, starts: Int64s) -> Int64s:
    """Returns the sums of runs of weights."""
    ends = np.append(starts[1:], len(weights)) - 1
    raw_bytes = np.add.reduceat(weights[:, 2], starts)
    expires_s = weights[:, 3]
    never = np.minimum.reduceat(expires_s, starts) == 0
    expires_s = np.where(never, 0, np.maximum.reduceat(expires_s, starts))
    return np.column_stack((weights[starts, 0], weights[ends, 1], raw_bytes, expires_s))
