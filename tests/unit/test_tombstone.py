"""A tombstone is kept at least as long as its message can still come."""

from __future__ import annotations

import pytest

from tidewheel.model.message import IdSource, id_text
from tidewheel.model.tombstone import CANCELLED_KEPT_S, KEPT_S, claim_ttl_s, tombstone, ttl_s

NOW_MS = 1_767_225_600_000
DAY_S = 86_400


def test_a_message_can_wait_for_two_retentions_of_sqs() -> None:
    assert KEPT_S == 2 * 14 * DAY_S


@pytest.mark.parametrize(
    ("due_in_s", "kept_s"),
    [(-90 * DAY_S, 28 * DAY_S), (0, 28 * DAY_S), (60 * DAY_S, 88 * DAY_S), (700 * DAY_S, 728 * DAY_S)],
)
def test_a_tombstone_and_a_claim_are_kept_for_28_days_after_now_and_after_the_message_is_due(
    due_in_s: int, kept_s: int
) -> None:
    due_ms = NOW_MS + due_in_s * 1000
    assert ttl_s(due_ms, NOW_MS) == NOW_MS // 1000 + kept_s
    assert claim_ttl_s(due_ms, NOW_MS, cancelled=False) == NOW_MS // 1000 + kept_s
    longer_s = CANCELLED_KEPT_S - KEPT_S
    assert claim_ttl_s(due_ms, NOW_MS, cancelled=True) == NOW_MS // 1000 + kept_s + longer_s
    made = tombstone(id_text(IdSource().next(due_ms)), 300_000, NOW_MS)
    assert (made.slot, made.ttl_s, made.to, made.certain) == (due_ms // 300_000, NOW_MS // 1000 + kept_s, None, True)
