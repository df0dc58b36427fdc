"""The order of a ledger's rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.ledger.rows import in_order, rows_table, sort_rows

TIMES = st.sampled_from([5, 6, 7, 2**40])
# Of 128 bits, so that each half decides alone somewhere; ids compare as unsigned numbers.
IDS = st.sampled_from([0, 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127, 2**128 - 1]).map(lambda n: n.to_bytes(16))
ROWS = st.lists(st.tuples(TIMES, IDS), max_size=40)


def table_of(rows: list[tuple[int, bytes]], *, with_texts: bool) -> pa.Table:
    """Rows with their place as payload, to distinguish equal rows."""
    keys = [f"key {i}" if i % 3 else None for i in range(len(rows))]
    attributes = [{"n": str(i)} if i % 2 else None for i in range(len(rows))]
    return rows_table(
        deliver_at_ms=[ms for ms, _ in rows],
        message_id=[message_id for _, message_id in rows],
        payload=[b"%d" % i for i in range(len(rows))],
        encoding=[0] * len(rows),
        sent_at_ms=list(range(len(rows))),
        key=keys if with_texts else None,
        attributes=attributes if with_texts else None,
    )


@given(rows=ROWS, cut=st.integers(0, 40), with_texts=st.booleans())
def test_rows_are_sorted_by_time_and_id_and_equal_ones_keep_their_order(
    rows: list[tuple[int, bytes]], cut: int, with_texts: bool
) -> None:
    table = table_of(rows, with_texts=with_texts)
    in_two_chunks = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    found = sort_rows(in_two_chunks)
    expected = sorted(table.to_pylist(), key=lambda row: (row["deliver_at_ms"], row["message_id"]))
    assert (found.schema, found.to_pylist()) == (table.schema, expected)
    assert in_order(found)
