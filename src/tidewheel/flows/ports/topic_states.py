"""The port to topic states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import Purge, TopicState

AT_ONCE_MS = 0
"""Sentinel in `next_check_ms`: tells the sweep to create the missing schedule of the next slot."""


def check_again_at(state: TopicState, collect_at_ms: int | None) -> int | None:
    """Returns the next check of a topic whose next slot stays. A missing schedule stays missing."""
    if state.next_check_ms == AT_ONCE_MS:
        return AT_ONCE_MS
    return state.check_at(state.next_slot, collect_at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWork:
    """A changed next slot, with the times of the next check and the next collection."""

    next_slot: int | None
    next_check_ms: int | None
    collect_at_ms: int | None


class TopicStates(Protocol):
    """The state of each topic, one item a topic.

    A topic that is being deleted is absent here. The port `Deletions` sees it.
    """

    def create(self, state: TopicState) -> bool:
        """Creates the topic state if the topic is absent. Returns False if the topic exists."""
        ...

    def read(self, topic: str) -> TopicState | None:
        """Reads a topic's state. Returns None if the topic is absent or being deleted."""
        ...

    def all(self) -> list[TopicState]:
        """Lists all topics by name. Not for hot paths (eventually consistent)."""
        ...

    def seal(self, state: TopicState, slot: int) -> TopicState | None:
        """Seals all slots below `slot`.

        `sealed = slot IF sealed < slot and generation as read`.

        Returns the topic state afterwards; None if the topic is gone or was created again.
        """
        ...

    def raise_layout(self, state: TopicState, to: int) -> TopicState | None:
        """Moves the topic to a later layout, for ever. Releases that do not know the layout then refuse the topic.

        `layout = to IF layout < to and generation as read`.

        Returns the topic state afterwards; None if the topic is gone or was created again.
        """
        ...

    def raise_next_slot(self, state: TopicState, next_work: NextWork) -> bool:
        """Raises the next slot. Returns False if refused.

        `the next slot = ... IF generation, work_version and swap_version as read`.
        """
        ...

    def raise_collected_until(self, state: TopicState, collected_until: int) -> bool:
        """Raises `collected_until`. Returns False if refused.

        `collected_until = ... IF collected_until < the new value and subscriptions_version and generation as read`.
        """
        ...

    def set_collect_at(
        self,
        state: TopicState,
        collect_at_ms: int | None,
        next_check_ms: int | None,
        merge_at_ms: int | None = None,
    ) -> bool:
        """Sets the times of the next collection and the next check. Returns False if refused.

        `collect_at_ms, next_check_ms = ... IF work_version, generation and next_slot as read`.

        Args:
            merge_at_ms: when the sweep is to consider a merge. None: as it is.
        """
        ...

    def merge_considered(self, state: TopicState, next_check_ms: int | None) -> bool:
        """Notes that a merge was considered. Returns False if refused.

        `merge_considered_version = work_version, merge_at_ms = None, next_check_ms = ... IF work_version, generation
        and next_slot as read`.
        """
        ...

    def update_settings(self, state: TopicState, settings: TopicSettings) -> bool:
        """Changes the settings. Returns False if refused.

        `settings = ... IF generation and settings as read`.
        """
        ...

    def set_purges(self, state: TopicState, purge_ms: int, purges: Sequence[Purge]) -> bool:
        """Changes the purge marks. Returns False if refused.

        `purge_ms, purges = ... IF generation, purge_ms and purges as read`.
        """
        ...

    def delete(self, topic: str) -> None:
        """Deletes the topic state. Does nothing if the topic state is gone.

        All writes that are conditional on the topic state are refused from then on.
        """
        ...
