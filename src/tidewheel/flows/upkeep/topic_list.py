"""Keeps the list of topics complete, beside clients and functions of releases that do not know it."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.flows.ports import Ports
from tidewheel.flows.upkeep.orphans import DAILY
from tidewheel.model.checked_clock import unchecked_ms
from tidewheel.storage.topic_list import GAP_MS


def keep_topic_list(ports: Ports, due: Iterable[str]) -> None:
    """Lists topics whose check is due. The first sweep of a process looks at the mark, too.

    No sweep of any release has run on a new table: no daily work was claimed. Its list is complete, since its topics
    were created by clients that list them.

    Args:
        due: topics that exist.
    """
    topics = ports.topic_list
    if not topics.checked:
        swept_ms = ports.checks.swept_at_ms()
        if swept_ms is None and not ports.checks.claimed_daily(DAILY):
            topics.mark()
        elif swept_ms is None or swept_ms < unchecked_ms(ports.clock) - GAP_MS:
            topics.unmark()
        topics.checked = True
    topics.add_missing(due)
