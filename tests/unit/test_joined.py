"""Segments decode the same together as alone, and damage of a segment never hides among the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.test_ledger import (
    START_MS,
    Row,
    a_row,
    cuts,
    encode,
    many_rows,
    part,
    row_lists,
    table_of,
    thorough,
    unlike_its_bucket,
)
from tidewheel.errors import CorruptLedger
from tidewheel.ledger import joined
from tidewheel.ledger.joined import StoredSegment, decode_together
from tidewheel.ledger.ledger import Ledger, decode_segment
from tidewheel.model.checksum import sealed


def stored(ledger: Ledger, name: str = "o") -> list[StoredSegment]:
    return [StoredSegment(name, segment, part(ledger.data, segment)) for segment in ledger.summary.segments]


def one_by_one(segments: list[StoredSegment], columns: list[str] | None = None) -> pa.Table:
    return pa.concat_tables(
        decode_segment(bytes(each.data), object_name=each.object_name, segment=each.segment, columns=columns)
        for each in segments
    )


def as_one_file() -> object:
    """Fails if a segment is decoded alone."""
    return patch.object(joined, "decode_segment", side_effect=AssertionError("decoded alone"))


@thorough
@given(row_lists, row_lists, cuts)
def test_segments_of_any_ledgers_decoded_together_have_the_rows_that_each_has_alone(
    some: list[Row], others: list[Row], cut: Row
) -> None:
    segments = [*stored(encode(table_of(some), **cut)), *stored(encode(table_of(others)))]
    with as_one_file():  # type: ignore[attr-defined]
        found = decode_together(segments)
    assert found.equals(one_by_one(segments))


def test_the_order_of_the_rows_is_that_of_the_segments_given_and_views_are_taken() -> None:
    segments = stored(encode(many_rows(900), segment_rows=100))[::-1]
    views = [each._replace(data=memoryview(each.data)) for each in segments]
    with as_one_file():  # type: ignore[attr-defined]
        assert decode_together(views).equals(one_by_one(segments))


def test_only_the_columns_asked_for_are_returned_in_their_order() -> None:
    segments = stored(encode(many_rows(90), segment_rows=30))
    found = decode_together(segments, columns=["payload", "message_id"])
    assert found.equals(one_by_one(segments, ["payload", "message_id"]))


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.long)])
def test_every_flipped_bit_of_a_segment_among_others_is_noticed_and_names_that_segment(step: int) -> None:
    segments = stored(encode(table_of([a_row(START_MS + i, i) for i in range(9)]), segment_rows=3))
    good = segments[1]
    for bit in range(0, 8 * len(good.data), step):
        bad = bytearray(good.data)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptLedger) as caught:
            decode_together([segments[0], good._replace(object_name="bad", data=bytes(bad)), segments[2]])
        assert (caught.value.object_name, caught.value.first_byte) == ("bad", good.segment.offset)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_changed_byte_of_a_footer_whose_checksum_is_right_gives_no_other_rows_than_alone(data: st.DataObject) -> None:
    segments = stored(encode(table_of([a_row(START_MS + i, i) for i in range(9)]), segment_rows=3))
    good = bytes(segments[1].data)
    footer_bytes = int.from_bytes(good[-8:-4], "little") + 8
    changed = bytearray(good[4:])
    changed[data.draw(st.integers(len(changed) - footer_bytes, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    bad = [segments[0], segments[1]._replace(data=sealed(bytes(changed))), segments[2]]
    assert outcome(lambda: decode_together(bad)) == outcome(lambda: one_by_one(bad))


def outcome(decode: Callable[[], pa.Table]) -> object:
    try:
        return decode().to_pydict()
    except CorruptLedger as error:
        return error.first_byte, error.reason


@unlike_its_bucket
def test_a_segment_among_others_that_is_not_what_its_bucket_says_is_noticed(
    changes: dict[str, int], reason: str
) -> None:
    segments = stored(encode(table_of([a_row(START_MS + i, i) for i in range(9)]), segment_rows=3))
    segments[1] = segments[1]._replace(segment=replace(segments[1].segment, **changes))
    with pytest.raises(CorruptLedger, match=reason):
        decode_together(segments)


@pytest.mark.parametrize("encoding", [-1, 3])
def test_an_encoding_that_no_release_knows_is_noticed_among_others(encoding: int) -> None:
    segments = [*stored(encode(many_rows(9))), *stored(encode(table_of([a_row(encoding=encoding)])))]
    with pytest.raises(CorruptLedger, match="encodings"):
        decode_together(segments)


def test_a_key_that_is_no_utf_8_is_noticed_among_others() -> None:
    key = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    rows = table_of([a_row(START_MS)])
    rows = rows.set_column(rows.schema.get_field_index("key"), rows.schema.field("key"), key)
    segments = [*stored(encode(many_rows(9))), *stored(encode(rows))]
    with pytest.raises(CorruptLedger, match="UTF"):
        decode_together(segments)
