"""Tests the choice of ledgers to rewrite for their dead bytes, and the cost in the long run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.test_merge import KIB, PLANNED, SLOT_MS, START_MS, a_bucket
from tidewheel.flows.maintenance.merge_planning import choose
from tidewheel.flows.maintenance.retention import EXPIRED_FOR_MS, STRICT_MS, dead_of
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.index import Weight
from tidewheel.ledger.writer import join_weights
from tidewheel.model.message import MessageId
from tidewheel.model.settings import DAY_MS, TopicSettings
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import Purge, TopicState, new_topic_state

NOW_MS = START_MS


def a_state(planned: int = PLANNED, **changes: object) -> TopicState:
    state = new_topic_state("orders", "g1", TopicSettings(), NOW_MS)
    return replace(state, sealed=planned, planned=planned, collected_until=planned, **changes)  # type: ignore[arg-type]


def weights_of(slots: dict[int, int]) -> tuple[Weight, ...]:
    return tuple(join_weights(np.array([Weight(slot, slot, raw) for slot, raw in sorted(slots.items())])))


def a_ledger(number: int, weights: dict[int, int], size: int = 100 * KIB, checked_ms: int = 0) -> Bucket:
    """A ledger with raw bytes in some slots. Slots count from PLANNED."""
    found = weights_of({PLANNED + slot: raw for slot, raw in weights.items()})
    return replace(a_bucket(number, size, weights), weights=found, checked_ms=checked_ms)


def dead_share(bucket: Bucket, state: TopicState | None = None, now_ms: int = NOW_MS, *tombs: Tombstone) -> float:
    return dead_of(state or a_state(), [bucket], tombs, now_ms).of(bucket) / bucket.size_bytes


def sources_of(buckets: Sequence[Bucket], state: TopicState | None = None, max_buckets: int = 64) -> list[str]:
    dead = dead_of(state or a_state(), buckets, [], NOW_MS)
    merge = choose(buckets, PLANNED, SLOT_MS, max_buckets, dead=dead)
    return [] if merge is None else [each.id for each in merge.sources]


# ---- what is dead
def test_the_bytes_below_collected_until_are_dead_by_their_weights() -> None:
    assert dead_share(a_ledger(1, {-5: 900, 1000: 100})) == pytest.approx(0.9)
    assert dead_share(a_ledger(1, {-5: 100, 1000: 900})) == pytest.approx(0.1)
    assert dead_share(a_ledger(1, {0: 100, 1000: 900})) == 0


def test_without_weights_the_bytes_are_spread_over_the_slots() -> None:
    assert dead_share(a_bucket(1, slots=range(-75, 25))) == pytest.approx(0.75)
    assert dead_share(a_bucket(1, slots=range(-96, 32), shift=5)) == pytest.approx(0.75, abs=0.2)


def test_ledgers_are_kept_for_a_week_unless_bytes_must_go() -> None:
    for strict, default in ((0, 7), (1, 0)):
        kept = [TopicSettings(retention_days=each, strict_erasure=strict).retention_ms for each in (None, 30)]
        assert kept == [default * DAY_MS, 30 * DAY_MS]


def test_what_retention_or_a_pause_holds_back_is_alive() -> None:
    ledger = a_ledger(1, {-5: 900, 1000: 100})
    assert dead_share(ledger, replace(a_state(), collected_until=PLANNED - 5)) == 0


def test_what_has_expired_is_dead_even_while_a_pause_holds_it() -> None:
    expiring = Weight(PLANNED - 5, PLANNED - 5, 900, NOW_MS // 1000 + 60)
    ledger = replace(a_ledger(1, {-5: 900, 1000: 100}), weights=(expiring, Weight(PLANNED + 1000, PLANNED + 1000, 100)))
    held = replace(a_state(), collected_until=PLANNED - 10)
    assert dead_share(ledger, held, NOW_MS) == 0
    assert dead_share(ledger, held, NOW_MS + 60_000 + EXPIRED_FOR_MS - 1) == 0
    assert dead_share(ledger, held, NOW_MS + 60_000 + EXPIRED_FOR_MS) == pytest.approx(0.9)


def test_what_was_purged_is_dead_until_a_merge_has_left_it_out() -> None:
    slot = PLANNED + 1000
    purge = Purge(first_ms=slot * SLOT_MS, end_ms=(slot + 1) * SLOT_MS, sent_before_ms=NOW_MS)
    state = replace(a_state(), purges=(purge,))
    assert dead_share(a_ledger(1, {1000: 700, 2000: 300}), state) == pytest.approx(0.7)
    assert dead_share(a_ledger(1, {1000: 700, 2000: 300}, checked_ms=NOW_MS), state) == 0
    assert dead_share(a_ledger(1, {1000: 700, 2000: 300}), replace(a_state(), purge_ms=NOW_MS)) == 1
    within = replace(purge, first_ms=purge.first_ms + 1)
    assert dead_share(a_ledger(1, {1000: 700, 2000: 300}), replace(a_state(), purges=(within,))) == 0


def test_a_cancelled_message_counts_once_shared_by_the_ledgers_of_its_slot() -> None:
    def entombed(number: int, slot: int, put_ms: int = NOW_MS) -> Tombstone:
        return Tombstone(PLANNED + slot, MessageId(f"{number:032x}"), 10**10, put_ms=put_ms)

    one, other = a_ledger(1, {1000: 100}), a_ledger(2, {1000: 100})
    tombs = [entombed(number, 1000) for number in range(100)]
    assert dead_share(one, None, NOW_MS, *tombs) == 1
    both = dead_of(a_state(), [one, other], tombs, NOW_MS)
    assert both.of(one) == both.of(other) == pytest.approx(one.size_bytes / 2)
    checked = replace(other, checked_ms=NOW_MS + 1)
    assert dead_of(a_state(), [one, checked], tombs, NOW_MS).of(checked) == 0
    assert dead_share(one, None, NOW_MS, entombed(1, 999), entombed(2, -5)) == 0


# ---- which ledgers
def test_a_single_ledger_is_rewritten_when_its_dead_bytes_pass_its_live_bytes_and_the_slack() -> None:
    assert sources_of([a_ledger(1, {-5: 90, 1000: 10})]) == ["b0001"]
    assert sources_of([a_ledger(1, {-5: 40, 1000: 60})]) == []
    assert sources_of([a_ledger(1, {-5: 60, 1000: 40})]) == [], "20 KB more dead than alive: less than the slack"


def test_the_deadest_are_rewritten_and_all_that_are_more_dead_than_alive() -> None:
    shares = [97, 91, 80, 55, 40, 10]
    ledgers = [a_ledger(number, {-5: share, 1000: 100 - share}) for number, share in enumerate(shares)]
    assert sources_of(ledgers) == ["b0000", "b0001", "b0002", "b0003"]


def test_ledgers_that_plans_still_name_are_rewritten_after_the_others() -> None:
    state = replace(a_state(), collected_until=PLANNED - 3)
    free, named = a_ledger(1, {-5: 90, 1000: 10}), a_ledger(2, {-5: 90, -3: 1, 1000: 9})
    assert sources_of([free, named], state) == ["b0001"]
    assert sources_of([named], state) == ["b0002"]


def test_too_many_ledgers_are_merged_first() -> None:
    ledgers = [a_ledger(number, {-5: 90, 1000: 10}) for number in range(9)]
    merge = choose(ledgers, PLANNED, SLOT_MS, 8, dead=dead_of(a_state(), ledgers, [], NOW_MS))
    assert merge is not None and len(merge.sources) == 9


def test_a_ledger_that_ends_within_the_hour_is_left_to_the_collection() -> None:
    assert sources_of([a_ledger(1, {-5: 90, 11: 10})]) == []


def test_strict_erasure_rewrites_every_ledger_with_a_dead_byte_once_in_twenty_hours() -> None:
    strict = replace(a_state(), settings=TopicSettings(strict_erasure=1))
    old, new, live = (
        a_ledger(1, {-5: 1, 1000: 999}, KIB),
        a_ledger(2, {-5: 1, 1000: 999}, KIB, checked_ms=NOW_MS - STRICT_MS + 1),
        a_ledger(3, {5: 1, 1000: 999}, KIB),
    )
    assert sources_of([old, new, live], strict) == ["b0001"]
    assert sources_of([old, new, live]) == []
