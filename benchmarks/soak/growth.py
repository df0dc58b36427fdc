"""What lives in the service and in this process, sampled along a run: a service at a steady rate must not grow."""

from __future__ import annotations

import gc
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.soak.account import Account
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.stack import SoakStack
from tidewheel.ledger.thrift import integer
from tidewheel.model.object_names import LEDGERS, PARKED, PLANS

MOST_BLOCKS_A_MESSAGE = 1.0
"""Blocks of memory that Python may keep more, for each message sent meanwhile: what is kept of a message, by whatever
keeps it, is several."""
_STATM = Path("/proc/self/statm")
# What differs by fewer items than this is the saw-tooth of collections and merges.
_ITEMS_SLACK = 8
# `tombstones` are kept for four weeks, and judged by the cancels; `python_blocks` by the messages.
_JUDGED_OTHERWISE = ("tombstones", "python_blocks")


@dataclass(slots=True, kw_only=True)
class Growth:
    """Samples of a run.

    The mean of the last quarter is compared with that of the second: after the ramp-up, before the end.

    Attributes:
        series: name -> one value a sample, a count or bytes.
    """

    account: Account
    series: dict[str, list[float]] = field(default_factory=dict)

    def sample(self) -> None:
        """Takes a sample."""
        stack = self.account.stack
        values = live(stack) | {
            "waiting": self.account.open,
            "sent": self.account.sent,
            "arrow_bytes": pa.total_allocated_bytes(),
        }
        integer.cache_clear()  # it is bounded, and fills up slowly
        gc.collect()
        values["python_blocks"] = sys.getallocatedblocks()
        if _STATM.exists():
            values["rss_bytes"] = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for name, value in values.items():
            self.series.setdefault(name, []).append(value)

    def ratios(self) -> Mapping[str, float]:
        """Returns name -> mean of the last quarter of the samples by that of the second."""
        return {
            name: _mean_of_quarter(values, 3) / max(1.0, _mean_of_quarter(values, 1))
            for name, values in self.series.items()
            if name != "sent"
        }

    def blocks_a_message(self) -> float:
        """Returns how many more blocks of memory Python holds in the last quarter than in the second, a message."""
        more, messages = (self._between_quarters(name) for name in ("python_blocks", "sent"))
        return more / max(1.0, messages)

    def report(self, outcome: Outcome, *, most: float, rss: bool, most_blocks: float = MOST_BLOCKS_A_MESSAGE) -> None:
        """Writes down the figures, and the promise that nothing grows.

        Args:
            outcome: of the scenario.
            most: the last quarter by the second, at most.
            most_blocks: blocks of memory that are kept a message, at most.
            rss: whether the process's memory is judged, too: in a long run, if nothing large has run before.
        """
        ratios, blocks = self.ratios(), self.blocks_a_message()
        outcome.figures |= {f"{name}_growth": ratio for name, ratio in ratios.items()}
        outcome.figures["python_blocks_a_message"] = blocks
        outcome.at_most("blocks of memory kept a message", blocks, most_blocks)
        for name, ratio in ratios.items():
            if name in _JUDGED_OTHERWISE or (name == "rss_bytes" and not rss):
                continue
            little = self._between_quarters(name) <= _ITEMS_SLACK
            outcome.promise(little or ratio <= most, f"growth of {name}: {ratio:.3g}, at most {most}")
        outcome.exactly("objects that nothing names, in any sample", int(max(self.series["orphans"])), 0)

    def _between_quarters(self, name: str) -> float:
        return _mean_of_quarter(self.series[name], 3) - _mean_of_quarter(self.series[name], 1)


def live(stack: SoakStack) -> dict[str, float]:
    """Counts what the service keeps now, between two calls of functions.

    Returns:
        Items of the table by kind, of all topics; objects, their bytes, and those that nothing names; schedules; and
        messages in the service's own queues.
    """
    storage = stack.service
    names = [state.topic for state in storage.topic_states.all()]
    counts = dict.fromkeys(("buckets", "plans", "deliveries", "parks", "trash", "tombstones"), 0)
    named: set[str] = set()
    for name in names:
        buckets, parks, trash = storage.buckets.all(name), storage.parks.all(name), storage.merges.trash(name)
        named |= {bucket.object_name for bucket in buckets}
        named |= {park.object_name for park in parks if park.object_name is not None}
        named |= storage.plans.objects(name).union(*(each.objects for each in trash))
        counts["buckets"] += len(buckets)
        counts["plans"] += len(storage.plans.ranges(name))
        counts["deliveries"] += len(storage.deliveries.all(name))
        counts["parks"] += len(parks)
        counts["trash"] += len(trash)
        counts["tombstones"] += len(storage.tombstones.ids(name, 0, 1 << 60))
    kept = list(storage.objects.list(""))
    unnamed = [o for o in kept if o.name.startswith((LEDGERS, PLANS, PARKED)) and o.name not in named]
    return {
        **counts,
        "objects": len(kept),
        "object_bytes": sum(each.size_bytes for each in kept),
        "orphans": len(unnamed),
        "schedules": len(stack.service.wheel.schedules),
        "queued": stack.source_depth(),
    }


def report_empty(stack: SoakStack, outcome: Outcome) -> None:
    """Writes down the promises for the end: all is collected, and no function had trouble."""
    kept = live(stack)
    for name in ("buckets", "plans", "deliveries", "parks", "trash", "orphans", "schedules", "queued"):
        outcome.exactly(f"{name} at the end", int(kept[name]), 0)
    outcome.exactly("dead letters", stack.dead_letters(), 0)
    trouble = stack.trouble()
    outcome.promise(not trouble, f"failures of functions: {len(trouble)}{''.join(f'; {each}' for each in trouble[:3])}")


def _mean_of_quarter(values: list[float], number: int) -> float:
    quarter = values[len(values) * number // 4 : len(values) * (number + 1) // 4]
    return statistics.fmean(quarter) if quarter else 0.0
