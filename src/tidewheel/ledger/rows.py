"""Makes and sorts the rows of a ledger as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import InvalidValue
from tidewheel.ledger.schema import COLUMNS, SCHEMA_VERSIONS, TEXT_TYPES, ColumnType, columns_of

_ARROW_TYPES = {
    ColumnType.INT64: pa.int64(),
    ColumnType.INT8: pa.int8(),
    ColumnType.ID: pa.binary(16),
    ColumnType.TEXT: pa.string(),
    ColumnType.TEXTS: pa.map_(pa.string(), pa.string()),
    ColumnType.BYTES: pa.binary(),
}
SCHEMAS: dict[int, pa.Schema] = {
    version: pa.schema([pa.field(each.name, _ARROW_TYPES[each.type], each.nullable) for each in columns_of(version)])
    for version in SCHEMA_VERSIONS
}
"""The columns of a ledger in Arrow's types, for each version of the schema."""
SCHEMA = SCHEMAS[SCHEMA_VERSIONS[-1]]
"""The columns of rows in memory. A row of an older ledger has no value in a later column."""
_LATER = tuple(each for each in COLUMNS if each.layout > SCHEMA_VERSIONS[0])
_TEXTS = tuple(each for each in COLUMNS if each.type in TEXT_TYPES)

Int64s = npt.NDArray[np.int64]
_Uint64s = npt.NDArray[np.uint64]


def rows_table(**columns: Sequence[Any] | None) -> pa.Table:
    """Returns rows in SCHEMA, made from columns. A missing column is null in every row.

    Raises:
        InvalidValue: an id does not have 16 bytes, a value has the wrong type, the columns differ in length, or a
            ledger has no such column.
    """
    given = {name: column for name, column in columns.items() if column is not None}
    rows = max(map(len, given.values()), default=0)
    unknown = sorted(given.keys() - set(SCHEMA.names))
    if unknown:
        raise InvalidValue("columns", unknown, f"a ledger has {', '.join(SCHEMA.names)}")
    try:
        arrays = [
            _array(given[field.name], field.type) if field.name in given else pa.nulls(rows, field.type)
            for field in SCHEMA
        ]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        table.validate()
        return conform(table)
    except InvalidValue:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidValue("rows", rows, f"not rows of a ledger: {error}") from error


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_map(type_):
        values = [None if each is None else list(each.items()) for each in values]
    return pa.array(values, type_)


def conform(table: pa.Table) -> pa.Table:
    """Returns the table in SCHEMA exactly. Casts columns if the cast loses nothing.

    Raises:
        InvalidValue: the table has other columns, or values that do not fit.
    """
    if not table.schema.equals(SCHEMA):
        try:
            table = table.cast(SCHEMA)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidValue("columns", table.column_names, f"not rows of a ledger: {error}") from error
    for field, column in zip(SCHEMA, table.columns, strict=True):
        if not field.nullable and column.null_count:
            raise InvalidValue(field.name, None, f"{column.null_count} rows have no value; give each one")
    return table


def version_of(table: pa.Table) -> int:
    """Returns the lowest version of the schema that holds all values of rows in SCHEMA."""
    used = [each.layout for each in _LATER if table.column(each.name).null_count < table.num_rows]
    return max(used, default=SCHEMA_VERSIONS[0])


def check_schema(version: str, schema: pa.Schema) -> None:
    """Raises ValueError if this release does not know a ledger's version of the schema, or it has other columns."""
    known = {str(each): schema for each, schema in SCHEMAS.items()}
    if version not in known:
        raise ValueError(f"schema version is {version}, this release reads {', '.join(known)}")
    if not schema.equals(known[version]):
        raise ValueError(f"columns are {schema.to_string(show_field_metadata=False)}")


def widened(table: pa.Table, names: Sequence[str] = SCHEMA.names) -> pa.Table:
    """Returns columns of a ledger, in this order. A column that the ledger lacks is null."""
    if table.column_names == names:
        return table
    have = frozenset(table.column_names)
    arrays = [table.column(n) if n in have else pa.nulls(table.num_rows, SCHEMA.field(n).type) for n in names]
    return pa.Table.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))


def sort_rows(table: pa.Table) -> pa.Table:
    """Returns the rows sorted by (deliver_at_ms, message_id). Equal rows keep their order."""
    order = _sorted_order(table)
    if np.all(order[1:] > order[:-1]):
        return table
    places = pa.array(order)
    columns = [
        # Nulls need no sorting, and sorting a column of maps costs as much as a column of payloads.
        column if column.null_count == len(column) else column.take(places)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _sorted_order(table: pa.Table) -> npt.NDArray[np.intp]:
    """Returns the row numbers in sorted order.

    Most rows differ in their times, and arrive as some sorted runs, which a stable sort of the time column merges. Ids
    are compared only where times are equal, because a sort by all three columns takes ten times as long.
    """
    times = times_of(table)
    order: npt.NDArray[np.intp] = np.argsort(times, kind="stable")
    ascending = times[order]
    same = ascending[1:] == ascending[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if tied.size:
        rows = order[tied]
        high, low = _id_halves(table, rows)
        order[tied] = rows[np.lexsort((low, high, times[rows]))]
    return order


def without_repeats(table: pa.Table) -> pa.Table:
    """Returns sorted rows without repeated ids, which are copies of a message."""
    times = times_of(table)
    same = np.flatnonzero(times[1:] == times[:-1])
    if not same.size:
        return table
    high, low = _id_halves(table, same)
    next_high, next_low = _id_halves(table, same + 1)
    repeated = same[(next_high == high) & (next_low == low)] + 1
    if not repeated.size:
        return table
    keep = np.ones(table.num_rows, bool)
    keep[repeated] = False
    return table.filter(pa.array(keep))


def in_order(table: pa.Table) -> bool:
    """Returns whether the rows are sorted by (deliver_at_ms, message_id)."""
    times = times_of(table)
    if np.any(times[1:] < times[:-1]):
        return False
    same = np.flatnonzero(times[1:] == times[:-1])
    if not same.size:
        return True
    high, low = _id_halves(table, same)
    next_high, next_low = _id_halves(table, same + 1)
    less = (next_high < high) | ((next_high == high) & (next_low < low))
    return not np.any(less)


def times_of(table: pa.Table) -> Int64s:
    """Returns the delivery times, in milliseconds."""
    times: Int64s = table.column("deliver_at_ms").to_numpy()
    return times


def text_bytes(table: pa.Table) -> Int64s:
    """Returns the bytes of each row in the columns of variable length."""
    total = np.zeros(table.num_rows, np.int64)
    for declared in _TEXTS:
        column = table.column(declared.name)
        if column.null_count == len(column):
            continue
        if declared.type is ColumnType.TEXTS:
            total += np.concatenate([_map_bytes(chunk) for chunk in column.chunks])
        else:
            lengths = pc.binary_length(column)
            total += (pc.fill_null(lengths, 0) if declared.nullable else lengths).to_numpy()
    return total


def _map_bytes(maps: pa.MapArray) -> Int64s:
    # offsets belongs to the slice, keys and items to the whole array behind it.
    ends = maps.offsets.to_numpy()
    total = np.zeros(len(maps), np.int64)
    for texts in (maps.keys, maps.items):
        lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy()
        before = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        total += before[ends[1:]] - before[ends[:-1]]
    return total


def _id_halves(table: pa.Table, rows: npt.NDArray[np.intp]) -> tuple[_Uint64s, _Uint64s]:
    """Returns the upper and lower 64 bits of some rows' ids, which sort as the ids do."""
    halves = [
        np.frombuffer(chunk.buffers()[1], ">u8", 2 * len(chunk), chunk.offset * 16)
        for chunk in table.column("message_id").chunks
        if len(chunk)
    ]
    all_halves = halves[0] if len(halves) == 1 else np.concatenate(halves)
    pairs = all_halves.reshape(-1, 2)[rows].astype(np.uint64)
    return pairs[:, 0], pairs[:, 1]
