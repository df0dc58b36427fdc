"""Computes when schedules start the dispatcher and how long SQS delays messages.

The coarse wheel is a schedule for each slot, the fine wheel is SQS's DelaySeconds.

     schedule of slot s fires                slot s
            |<------- lookahead ------->|[------------)
    --------+--+------------------------+-----x-------+----> time
            |  |                              ^ deliver_at
            |  |<- DelaySeconds (<= 900 s) -->|
            |  fires: later by the topic's place in SPREAD_S
            slot s can be sealed from here on

Slots below `open_from` are dispatched, so their messages go straight to the fine wheel.
"""

from __future__ import annotations

from zlib import crc32

from tidewheel.errors import DelayTooLong
from tidewheel.model.settings import SCHEDULER_LATENESS_S, SQS_MAX_DELAY_S, TopicSettings
from tidewheel.model.triggers import SWEEP_INTERVAL_S

SOONEST_S = 5
SPREAD_S = 60
"""The schedules of topics with like settings are spread over this time, or less where the lookahead is short."""
_REFUSED_S = SCHEDULER_LATENESS_S + SWEEP_INTERVAL_S + 60
"""How late a dispatch is whose schedule was refused: the sweep's grace, a sweep, and the precision of the sweep's rule.
The lookahead less this time is what may be spread."""


def open_from(now_ms: int, settings: TopicSettings) -> int:
    """Returns the first slot still open to ledgers.

    This is slot(now + lookahead) + 1.
    """
    return (now_ms + settings.lookahead_ms) // settings.slot_ms + 1


def fires_at_ms(topic: str, slot: int, settings: TopicSettings) -> int:
    """Returns when a slot's schedule fires, one lookahead before the slot starts, or up to SPREAD_S later.

    A later dispatch seals the same slot, and its delays in SQS are shorter. The time is in whole seconds.
    """
    spread_s = min(max(settings.lookahead_s - _REFUSED_S, 0), SPREAD_S)
    later_s = crc32(topic.encode()) % (spread_s + 1)
    return slot * settings.slot_ms - settings.lookahead_ms + later_s * 1000


def schedule_name(topic: str, slot: int) -> str:
    """Returns the name of a slot's schedule.

    At most 64 characters for names that check_name allows.
    """
    return f"{schedule_prefix(topic)}{slot}"


def schedule_prefix(topic: str) -> str:
    """Returns the prefix of the names of all schedules of a topic.

    No other topic's schedules have this prefix, because topic names hold no dot.
    """
    return f"{topic}."


def schedule_time_s(fires_at: int, now_ms: int) -> int:
    """Returns the whole Unix second of a schedule.

    The second is never before `fires_at` ms, and at least SOONEST_S in the future: EventBridge Scheduler refuses a time
    that has passed when the request arrives.
    """
    return max(-(-fires_at // 1000), -(-now_ms // 1000) + SOONEST_S)


def fine_delay_s(deliver_at_ms: int, now_ms: int, max_skew_ms: int) -> int:
    """Returns SQS's DelaySeconds, rounded up so no message is early.

    Includes room for clock skew. The delay is 0 only if the message is overdue by the skew or more.

    Raises:
        DelayTooLong: over 900 s. The delay is never cut to 900 s, because the message would be early.
    """
    delay_s = -(-(deliver_at_ms - now_ms + max_skew_ms) // 1000)
    if delay_s > SQS_MAX_DELAY_S:
        raise DelayTooLong(deliver_at_ms, now_ms)
    return max(0, delay_s)
