"""The weights of a ledger's bytes over time are few, nearly exact, and sealed against damage."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.index import Weight, decode_weights, encode_weights
from tidewheel.ledger.writer import join_weights

steps = st.lists(
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**7), st.sampled_from([0, 5, 2_000_000_000])), min_size=1
)


def weights_of(drawn: list[tuple[int, int, int]]) -> list[Weight]:
    found, slot = [], 0
    for gap, raw_bytes, expires_s in drawn:
        slot += gap
        found.append(Weight(slot, slot, raw_bytes, expires_s))
    return found


def joined(weights: list[Weight]) -> list[Weight]:
    return join_weights(np.array(weights))


@given(steps)
def test_joined_weights_are_few_and_keep_every_byte_in_order(drawn: list[tuple[int, int, int]]) -> None:
    slots = weights_of(drawn)
    found = joined(slots)
    assert len(found) <= 33
    assert sum(each.raw_bytes for each in found) == sum(each.raw_bytes for each in slots)
    assert (found[0].first_slot, found[-1].last_slot) == (slots[0].first_slot, slots[-1].last_slot)
    assert all(before.last_slot < after.first_slot for before, after in pairwise(found))
    most = sum(each.raw_bytes for each in slots) / 16
    assert all(each.raw_bytes <= most or each.first_slot == each.last_slot for each in found)


def test_up_to_sixteen_slots_are_known_exactly() -> None:
    slots = [Weight(slot, slot, 1) for slot in range(16)]
    assert joined(slots) == slots
    assert len(joined([*slots, Weight(99, 99, 1)])) == 17


def test_the_rows_of_a_slot_that_come_in_two_batches_are_one_weight() -> None:
    assert joined([Weight(3, 3, 10), Weight(3, 3, 5), Weight(4, 4, 1)]) == [Weight(3, 3, 15), Weight(4, 4, 1)]


def test_a_weight_has_expired_when_its_last_row_has_and_never_if_a_row_does_not() -> None:
    assert joined([Weight(3, 3, 1, 50), Weight(3, 3, 1, 70)]) == [Weight(3, 3, 2, 70)]
    assert joined([Weight(3, 3, 1, 50), Weight(3, 3, 1, 0)]) == [Weight(3, 3, 2, 0)]


@given(steps)
def test_encoded_weights_are_read_as_they_were(drawn: list[tuple[int, int, int]]) -> None:
    weights = tuple(joined(weights_of(drawn)))
    assert decode_weights(encode_weights(weights)) == weights


@pytest.mark.parametrize("cut", [1, 2, 6])
def test_damaged_weights_are_refused(cut: int) -> None:
    data = encode_weights([Weight(300, 300, 5), Weight(301, 400, 10**6, 2_000_000_000)])
    with pytest.raises(CorruptMetadata, match="weights of"):
        decode_weights(data[:-cut])
    with pytest.raises(CorruptMetadata, match="weights of"):
        decode_weights(data[:-cut] + bytes([data[-cut] ^ 1]) + data[len(data) - cut + 1 :])
