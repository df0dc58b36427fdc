"""Draws small limits, since a few small messages never reach large parks, indexes in ledgers or cuts of merges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from unittest.mock import patch

_FLOWS = "tidewheel.flows"
THRESHOLDS: dict[tuple[str, ...], tuple[int, ...]] = {
    (f"{_FLOWS}.delivery.parking.MAX_INLINE_PARK_BYTES",): (2_000, 300_000),
    ("tidewheel.ledger.bucket.INLINE_SEGMENTS_BYTES",): (0, 100, 1024),
    ("tidewheel.model.plan.MAX_PART_SEGMENTS", f"{_FLOWS}.delivery.dispatch.MAX_PART_SEGMENTS"): (1, 3, 100),
    (f"{_FLOWS}.delivery.dispatch._ONE_STEP_SUBSCRIPTIONS",): (1, 49),
    (f"{_FLOWS}.delivery.dispatch._FEW_STEPS",): (1, 2),
    ("tidewheel.model.marks.TOGETHER",): (1, 2, 256),
    ("tidewheel.model.marks.MOST_ITEMS",): (2, 96),
    (f"{_FLOWS}.maintenance.due_checks.MOST_PARKS",): (1, 20),
    (f"{_FLOWS}.maintenance.merge_planning.WINDOW_BYTES",): (500, 32 * 1024 * 1024),
    (f"{_FLOWS}.maintenance.merge_planning.MAX_OUTPUT_ROWS",): (5, 5_000_000),
    (f"{_FLOWS}.maintenance.merge_planning._SOURCES_AN_OUTPUT",): (2, 4),
    (f"{_FLOWS}.maintenance.merge_planning.MAX_ITEMS",): (18, 19, 98),
}
"""Constants that have one value -> the values to draw, of which the last is the service's."""


SLACKS = (0, 2_000, 8_000, 64 * 1024)
"""Dead bytes that a topic may have besides its live bytes. The service's is never reached by a few small messages."""


@contextmanager
def drawn(seed: int) -> Iterator[None]:
    """Draws other values of the constants for the block. Half of the constants keep their values."""
    random = Random(f"thresholds {seed}")
    with ExitStack() as stack:
        for names, values in THRESHOLDS.items():
            value = values[-1] if random.random() < 0.5 else random.choice(values)
            for name in names:
                stack.enter_context(patch(name, value))
        yield
