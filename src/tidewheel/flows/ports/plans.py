"""The port to plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidewheel.flows.ports.deliveries import HandOut
from tidewheel.flows.ports.topic_states import NextWork
from tidewheel.model.plan import Plan
from tidewheel.model.topic_state import TopicState


class Plans(Protocol):
    """The plans of each topic."""

    def commit(
        self,
        state: TopicState,
        plan: Plan | None,
        end_slot: int,
        hand_outs: Sequence[HandOut] = (),
        next_work: NextWork | None = None,
        *,
        rows: int = 0,
    ) -> bool:
        """Commits a plan, hand-outs and a raised next slot, as far as given. Returns False if nothing was written.

        `T{put PLAN; STATE: planned = end_slot, waiting - rows IF planned, swap_version and generation as read; each
        hand-out}`.

        Hand-outs are conditional as in `Deliveries.hand_out`. With `next_work`, the topic state's work_version must be
        as read too. The transaction writes everything or nothing.
        """
        ...

    def read(self, topic: str, first_slot: int, *, whole: bool = True) -> Plan | None:
        """Reads the plan that starts at `first_slot`.

        Args:
            whole: if False, a manifest in an object of its own is not read; the plan then has no segments.
        """
        ...

    def next(self, topic: str, at_or_after: int, *, whole: bool = True) -> Plan | None:
        """Reads the first plan that starts at or after a slot. `whole` is as in `read`."""
        ...

    def ranges(self, topic: str) -> list[tuple[int, int]]:
        """Reads [first_slot, end_slot) of every plan, without the manifests.

        If an end cannot be read, it is the next plan's begin, or ALL_SEALED.
        """
        ...

    def objects(self, topic: str) -> frozenset[str]:
        """Reads the names of all manifests that are objects of their own."""
        ...

    def delete(self, topic: str, first_slot: int) -> str | None:
        """Deletes a plan, then its manifest object, if any.

        Returns:
            The name of the plan's object with recurring messages, for the caller to delete.
        """
        ...
