"""The coarse wheel spreads schedules within the slack, and keeps every promise of a slot's time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tidewheel.model.settings import SCHEDULER_LATENESS_S, SQS_MAX_DELAY_S, TopicSettings
from tidewheel.model.triggers import SWEEP_INTERVAL_S
from tidewheel.model.wheel import SPREAD_S, fine_delay_s, fires_at_ms, open_from, schedule_time_s

MINUTE_MS = 60_000


def all_settings() -> st.SearchStrategy[TopicSettings]:
    longest = SQS_MAX_DELAY_S - SCHEDULER_LATENESS_S
    pairs = st.integers(1, longest - 1).flatmap(lambda slot: st.tuples(st.just(slot), st.integers(1, longest - slot)))
    return pairs.map(lambda pair: TopicSettings(slot_s=pair[0], lookahead_s=pair[1]))


names = st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=40)
slots = st.integers(1000, 10**7)


@given(names, slots, all_settings())
def test_a_schedule_seals_its_slot_at_its_time_and_a_minute_later(
    topic: str, slot: int, settings: TopicSettings
) -> None:
    at_ms = fires_at_ms(topic, slot, settings)
    assert open_from(at_ms, settings) > slot
    assert open_from(at_ms - SPREAD_S * 1000 - 1, settings) <= slot
    assert schedule_time_s(at_ms, 0) * 1000 == at_ms


@given(names, slots, all_settings())
def test_no_delay_is_longer_than_sqs_allows(topic: str, slot: int, settings: TopicSettings) -> None:
    at_ms = fires_at_ms(topic, slot, settings)
    last_ms = open_from(at_ms, settings) * settings.slot_ms - 1
    assert fine_delay_s(last_ms, at_ms, 100) <= SQS_MAX_DELAY_S


@given(names, slots, all_settings())
def test_a_spread_schedule_that_is_refused_makes_no_message_late(
    topic: str, slot: int, settings: TopicSettings
) -> None:
    later_ms = fires_at_ms(topic, slot, settings) - (slot * settings.slot_ms - settings.lookahead_ms)
    assert 0 <= later_ms <= SPREAD_S * 1000
    rule_ms = MINUTE_MS
    dispatched_ms = later_ms + settings.heal_grace_ms + SWEEP_INTERVAL_S * 1000 + rule_ms
    assert later_ms == 0 or dispatched_ms <= settings.lookahead_ms


def test_topics_of_like_settings_are_spread_evenly_over_a_minute_and_not_where_there_is_no_slack() -> None:
    settings = TopicSettings()
    seconds = Counter(fires_at_ms(f"topic-{number}", 5_000_000, settings) for number in range(6_100))
    assert len(seconds) == SPREAD_S + 1
    assert max(seconds.values()) < 2 * 100
    short = TopicSettings(slot_s=60, lookahead_s=120)
    assert len({fires_at_ms(f"topic-{number}", 5_000_000, short) for number in range(100)}) == 1
