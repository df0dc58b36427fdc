"""Swaps the sources of written merges for their outputs, one swap of a topic at a time.

A swap raises `swap_version`, which refuses the transaction of a dispatch that is under way. So a swap waits for a quiet
time, but not for long:

                  10 s before        the topic's schedule fires       planned: `next_slot` is raised
    --------------|------------------|--------------------------------|------------------------------> time
       swaps, a   |  no swap, but a merge that has waited             |  swaps, a second apart
       second     |  for a slot or a minute is swapped                |
       apart
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.ports import Ports
from tidewheel.ledger.bucket import Bucket, waiting_rows
from tidewheel.model.plan import Trash
from tidewheel.model.wheel import fires_at_ms

APART_MS = 1_000
QUIET_MS = 10_000
LONGEST_WAIT_MS = 60_000
"""Longer than most dispatches. A function must not wait longer."""
_TRIES = 5


class ReadyMerge(NamedTuple):
    """A merge whose outputs are written.

    Attributes:
        work: the merge, with the topic state by which it was chosen.
        since_ms: when the last output was written.
    """

    work: MergeWork
    outputs: tuple[Bucket, ...]
    since_ms: int


class QuietTimes:
    """Tells when a merge may be swapped.

    Args:
        ports: the service.
        pause: waits some milliseconds. With a clock that only its owner moves it may return at once: the wait counts.
    """

    def __init__(self, ports: Ports, pause: Callable[[int], None]) -> None:
        self._ports = ports
        self._pause = pause
        self._least_ms = 0

    def now_ms(self) -> int:
        """Returns the time, which is after all pauses."""
        return max(self._ports.clock.now_ms(), self._least_ms)

    def pause(self) -> None:
        """Waits as long as swaps are apart."""
        self._least_ms = self.now_ms() + APART_MS
        self._pause(APART_MS)

    def allow(self, ready: ReadyMerge, swapped_ms: int | None) -> bool:
        """Returns whether a merge may be swapped now.

        Args:
            swapped_ms: when the last merge of the topic was swapped.
        """
        now_ms = self.now_ms()
        if swapped_ms is not None and now_ms < swapped_ms + APART_MS:
            return False
        state = self._ports.topic_states.read(ready.work.state.topic)
        if state is None or state.next_slot is None:
            return True
        if now_ms >= max(ready.since_ms, swapped_ms or 0) + min(state.slot_ms, LONGEST_WAIT_MS):
            return True
        return now_ms < fires_at_ms(state.topic, state.next_slot, state.settings) - QUIET_MS


def swap(ports: Ports, ready: ReadyMerge) -> bool:
    """Swaps sources for outputs. Returns False if the merge was in vain.

    The trash is stamped with the current `sealed`. A plan made after the sources were read may name the sources. It
    ends at or below `planned`, which is at or below the stamp at the time of the swap. Only a dispatch between the two
    steps can refuse the swap, so the swap is tried again. The plan also has a slot of the sources, so it begins
    below `dead_from`. `collected_until` is never inside a plan.

    If it stops before the swap, the sources are live.
    """
    state, merge = ready.work.state, ready.work.merge
    at_ms = ports.clock.now_ms()
    for _ in range(_TRIES):
        current = ports.topic_states.read(state.topic)
        # A rebuild lowers `planned`: rows that were left out as planned may be due again.
        if current is None or current.generation != state.generation or current.planned < state.planned:
            return False
        names = tuple(source.object_name for source in merge.sources)
        stamp = current.sealed
        dead_from = max(source.read_until(stamp) for source in merge.sources)
        trash = Trash(sealed=stamp, id=secrets.token_hex(8), objects=names, dead_from=dead_from, put_ms=at_ms)
        # Rows that the outputs leave out wait no longer, and estimates give way to exact numbers.
        dropped = waiting_rows(merge.sources, current.planned) - waiting_rows(ready.outputs, current.planned)
        if ports.merges.swap(current, merge.sources, ready.outputs, trash, dropped):
            return True
        if any(ports.buckets.read(state.topic, source.id) is None for source in merge.sources):
            return False
    return False
