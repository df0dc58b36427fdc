"""Makes the rows of a ledger as Arrow tables, also from packs, and sorts the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import InvalidValue
from tidewheel.ledger.schema import COLUMNS, SCHEMA_VERSION, TEXT_TYPES, ColumnType
from tidewheel.model.message import HEADER_ATTRIBUTE, Encoding, bytes_of_text
from tidewheel.model.pack import Pack
from tidewheel.model.received import header_extras
from tidewheel.model.validation import Options

_ARROW_TYPES = {
    ColumnType.INT64: pa.int64(),
    ColumnType.INT8: pa.int8(),
    ColumnType.ID: pa.binary(16),
    ColumnType.TEXT: pa.string(),
    ColumnType.TEXTS: pa.map_(pa.string(), pa.string()),
    ColumnType.BYTES: pa.binary(),
}
SCHEMA = pa.schema([pa.field(each.name, _ARROW_TYPES[each.type], each.nullable) for each in COLUMNS])
"""The columns of a ledger in Arrow's types."""
_TEXTS = tuple(each for each in COLUMNS if each.type in TEXT_TYPES)
_OF_OPTIONS = {each.name: each.of_options for each in COLUMNS if each.of_options is not None}

Int64s = npt.NDArray[np.int64]
Ids = npt.NDArray[np.bytes_]


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


def pack_rows(*packs: Pack) -> pa.Table:
    """Returns the messages of packs as rows of a ledger."""
    n = sum(map(len, packs))
    ids = b"".join(pack.ids for pack in packs)
    times = np.zeros((n, 8), np.uint8)
    times[:, 2:] = np.frombuffer(ids, np.uint8).reshape(n, 16)[:, :6]
    options = _column(packs, "options", None)
    columns = {
        "deliver_at_ms": pa.array(times.view(">i8").reshape(n).astype(np.int64)),
        "message_id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), n, [None, pa.py_buffer(ids)]),
        "payload": _payloads(packs, options),
        "encoding": pa.array(list(chain.from_iterable(p.encodings for p in packs)), SCHEMA.field("encoding").type),
        "sent_at_ms": pa.array(list(chain.from_iterable(map(_sent_ms, packs))), pa.int64()),
    }
    if options is not None or any(pack.attributes is not None for pack in packs):
        attributes = _column(packs, "attributes", {}) or [{}] * n
        columns["attributes"] = pa.array(_pairs(attributes, options or [None] * n), SCHEMA.field("attributes").type)
    for name, of_options in _OF_OPTIONS.items() if options is not None else ():
        values = [None if each is None else of_options(each) for each in options or ()]
        columns[name] = pa.array(values, SCHEMA.field(name).type)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _sent_ms(pack: Pack) -> Sequence[int]:
    return [pack.sent_at_ms] * len(pack) if pack.own_sent_ms is None else pack.own_sent_ms


def _column(packs: Sequence[Pack], name: str, absent: Any) -> list[Any] | None:
    """Returns an optional column of all packs, or None if no pack has it."""
    found = [getattr(pack, name) for pack in packs]
    if all(each is None for each in found):
        return None
    some = (each if each is not None else [absent] * len(pack) for each, pack in zip(found, packs, strict=True))
    return list(chain.from_iterable(some))


def _payloads(packs: Sequence[Pack], options: Sequence[Options | None] | None) -> pa.Array:
    texts = list(chain.from_iterable(pack.texts for pack in packs))
    if not any(Encoding.BYTES in pack.encodings for pack in packs):
        return pa.array(texts, pa.string()).cast(pa.binary())
    encodings = chain.from_iterable(pack.encodings for pack in packs)
    return pa.array(
        [
            # The reference to a body in S3 is text, even if the body is not.
            text.encode() if given is not None and given.payload else bytes_of_text(text, Encoding(encoding))
            for text, encoding, given in zip(texts, encodings, options or [None] * len(texts), strict=True)
        ],
        pa.binary(),
    )


def _pairs(
    attributes: Sequence[Mapping[str, str]], options: Sequence[Options | None]
) -> list[list[tuple[str, str]] | None]:
    """Returns each message's attributes, including the header's extras under the header's name."""
    found = []
    last, extras = None, None
    for each, given in zip(attributes, options, strict=True):
        pairs = list(each.items())
        if given is not last:  # messages of one plain message share their options
            last, extras = given, None if given is None else header_extras(given)
        if extras is not None:
            pairs.append((HEADER_ATTRIBUTE, extras))
        found.append(pairs or None)
    return found


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


def check_schema(version: str, schema: pa.Schema) -> None:
    """Raises ValueError if a ledger has another version of the schema, or other columns."""
    if version != SCHEMA_VERSION:
        raise ValueError(f"schema version is {version}, this release reads {SCHEMA_VERSION}")
    if not schema.equals(SCHEMA):
        raise ValueError(f"columns are {schema.to_string(show_field_metadata=False)}")


def sort_rows(table: pa.Table) -> pa.Table:
    """Returns the rows sorted by (deliver_at_ms, message_id). Equal rows keep their order."""
    return taken(table, sorted_order(table))


def sorted_order(table: pa.Table) -> npt.NDArray[np.intp]:
    """Returns the row numbers in sorted order. Rows that arrive as some sorted runs are merged by a stable sort."""
    order = np.argsort(ids_of(table), kind="stable")
    return order[np.argsort(times_of(table)[order], kind="stable")]


def taken(table: pa.Table, order: npt.NDArray[np.intp]) -> pa.Table:
    """Returns some rows in an order, without a copy if they are neighbours in the table."""
    if not order.size or (order[-1] - order[0] == len(order) - 1 and np.all(order[1:] > order[:-1])):
        return table.slice(order[0] if order.size else 0, len(order))
    places = pa.array(order)
    columns = [
        # Nulls need no sorting, and sorting a column of maps costs as much as a column of payloads.
        column.slice(0, len(order)) if column.null_count == len(column) else column.take(places)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def without_repeats(table: pa.Table) -> pa.Table:
    """Returns sorted rows without repeated ids, which are copies of a message."""
    ids = ids_of(table)
    first = np.append(True, ids[1:] != ids[:-1])
    return table if first.all() else table.filter(pa.array(first))


def in_order(table: pa.Table) -> bool:
    """Returns whether the rows are sorted by (deliver_at_ms, message_id)."""
    times, ids = times_of(table), ids_of(table)
    same, ascending = times[1:] == times[:-1], ids[1:] >= ids[:-1]
    return bool(np.all((times[1:] > times[:-1]) | (same & ascending)))


def ids_of(table: pa.Table) -> Ids:
    """Returns the ids, for comparisons only: NumPy leaves out zeros at the end of a value."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], "S16", len(chunk), chunk.offset * 16)
        for chunk in table.column("message_id").chunks
    ]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, "S16"), *chunks])


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
