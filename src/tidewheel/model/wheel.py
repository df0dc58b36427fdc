"""The two wheels: when the coarse one (a schedule) wakes the dispatcher, and how long the fine one (SQS) waits.

    schedule of slot s fires                 slot s
            |<------- lookahead ------->|[------------)
    --------+---------------------------+-----x-------+----> time
            |                                 ^ deliver_at
            |<-- DelaySeconds (<= 900 s) ---->|

Slots below `open_from` are dispatched, so their messages go straight to the fine wheel.
"""

from __future__ import annotations

from tidewheel.errors import DelayTooLong
from tidewheel.model.settings import SQS_MAX_DELAY_S, TopicSettings


def open_from(now_ms: int, settings: TopicSettings) -> int:
    """Returns the first slot that stays open to ledgers: slot(now + lookahead) + 1."""
    return (now_ms + settings.lookahead_ms) // settings.slot_ms + 1


def fires_at_ms(slot: int, settings: TopicSettings) -> int:
    """Returns when a slot's schedule fires: lookahead before the slot starts."""
    return slot * settings.slot_ms - settings.lookahead_ms


def schedule_name(topic: str, slot: int) -> str:
    """Returns a schedule's name; at most 64 characters for names that check_name allows."""
    return f"{schedule_prefix(topic)}{slot}"


def schedule_prefix(topic: str) -> str:
    """Returns what the names of all schedules of a topic start with, and of no other's: names hold no dot."""
    return f"{topic}."


def schedule_time_s(fires_at: int, now_ms: int) -> int:
    """Returns the whole Unix second of a schedule: never before `fires_at` ms, and in the future."""
    return max(-(-fires_at // 1000), now_ms // 1000 + 1)


def fine_delay_s(deliver_at_ms: int, now_ms: int, max_skew_ms: int) -> int:
    """Returns SQS's DelaySeconds: rounded up, with room for clock skew, so that nothing is early.

    A message that is due within the skew, or overdue, has no delay if it is past due by the skew's length.

    Raises:
        DelayTooLong: over 900 s; never clamped, since a clamped delay would be early.
    """
    delay_s = -(-(deliver_at_ms - now_ms + max_skew_ms) // 1000)
    if delay_s > SQS_MAX_DELAY_S:
        raise DelayTooLong(deliver_at_ms, now_ms)
    return max(0, delay_s)
