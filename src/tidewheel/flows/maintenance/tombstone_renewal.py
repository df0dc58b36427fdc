"""Renews the tombstones of messages that somebody has still to read.

The table deletes a tombstone 28 days after its message is due. A rebuild needs it for longer if a subscription is
paused for longer, or if ledgers are kept for replays: the message is still in a ledger.
"""

from __future__ import annotations

from tidewheel.flows.ports import Ports
from tidewheel.model.tombstone import KEPT_S
from tidewheel.model.topic_state import TopicState

_MARGIN_S = KEPT_S // 2
"""A tombstone is renewed so long before its end. The daily work may fail for as long."""
MOST_RENEWED = 2_000
"""Tombstones that one visit renews, those that end first: 20 s at most, one after the other."""


def renew_tombstones(ports: Ports, state: TopicState) -> None:
    """Renews tombstones that end soon, of slots that are sealed and not collected.

    Sends no request unless such a slot is older than 14 days. A tombstone of a sealed slot does not change, so it may
    be put again. If it stops anywhere, the next day's call renews the rest.
    """
    now_s = ports.clock.now_ms() // 1000
    first, end = state.collected_until, state.sealed
    if first >= end or first * state.slot_ms // 1000 + KEPT_S - _MARGIN_S > now_s:
        return
    needed = (each for each in ports.tombstones.all(state.topic) if first <= each.slot < end)
    ending = sorted((each for each in needed if each.ttl_s < now_s + _MARGIN_S), key=lambda each: each.ttl_s)
    ending = ending[:MOST_RENEWED]
    renewed = [each._replace(ttl_s=now_s + KEPT_S) for each in ending]
    ports.parallel(lambda each: ports.tombstones.restore(state.topic, each), renewed)
