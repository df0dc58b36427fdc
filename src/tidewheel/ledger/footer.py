r"""Writes the two kinds of Parquet footer in a ledger.

pyarrow encodes every row group once and reads all footers, but cannot give a row group a second footer. So only
`ledger/` uses Thrift's compact protocol:

    varint      7 bits a byte, lowest first, high bit set on all but the last byte
    integer     varint of its zigzag form: 0, -1, 1, -2, ... -> 0, 1, 2, 3, ...
    string      varint length | bytes
    list        1 byte: length << 4 | element type (length >= 15: 0xF0 | type, then varint length) | elements
    struct      fields | 0x00
    field       1 byte: (its number - the number of the field before) << 4 | type | value
    types       1 true, 2 false, 5 i32, 6 i64, 8 string, 9 list, 12 struct

A footer has these fields, with the numbers of parquet.thrift
(* in the ledger's own footer only):

    FileMetaData    1 version = 2 | 2 schema | 3 num_rows | 4 row_groups | 5 key_value_metadata | 6 created_by
                    | 7 column_orders *
    RowGroup        1 columns | 2 total_byte_size | 3 num_rows | 4 sorting_columns * | 5 file_offset *
    ColumnChunk     2 file_offset = 0 (deprecated) | 3 meta_data
    ColumnMetaData  1 type | 2 encodings | 3 path_in_schema | 4 codec | 5 num_values
                    | 6 total_uncompressed_size | 7 total_compressed_size | 9 data_page_offset
                    | 12 statistics * (of deliver_at_ms: 5 max_value | 6 min_value)

The footer is followed by its length (4 bytes, little-endian) and `PAR1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from tidewheel.ledger.schema import COLUMNS, Column, ColumnType

STOP = b"\x00"
I32, I64, STRING, LIST, STRUCT = 5, 6, 8, 9, 12


def varint(value: int) -> bytes:
    """Encodes a number that is not negative."""
    # A ledger's footers hold thousands of these, nearly all of one to three bytes, and many are equal.
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


@lru_cache(maxsize=4096)
def integer(value: int) -> bytes:
    """Encodes any number."""
    return varint(value << 1 if value >= 0 else ~value << 1 | 1)


def string(value: bytes) -> bytes:
    """Encodes bytes with their length."""
    return varint(len(value)) + value


def list_head(length: int, element_type: int) -> bytes:
    """Encodes the head of a list, before its elements."""
    if length < 15:
        return bytes((length << 4 | element_type,))
    return bytes((0xF0 | element_type,)) + varint(length)


MAGIC = b"PAR1"
_CREATED_BY = b"tidewheel version 1 (build 0)"  # the form that Java's reader insists on


class _Type(IntEnum):
    """Physical types."""

    INT32 = 1
    INT64 = 2
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class _Repetition(IntEnum):
    """Whether a node of the schema is required, optional or repeated."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Encoding(IntEnum):
    """The encodings of values in a ledger."""

    PLAIN = 0
    RLE = 3
    DELTA_BINARY_PACKED = 5
    DELTA_BYTE_ARRAY = 7


class Codec(IntEnum):
    """Compression of a column chunk."""

    NONE = 0
    ZSTD = 6


class _Storage(NamedTuple):
    """How a type of column is stored in Parquet.

    Attributes:
        encoding: encoding of the values. Levels are always RLE.
        codec: compression, if the row group has any values in the column.
        length: bytes of a value of fixed length.
        converted, logical: the type's annotations. LogicalType is a union: 1 STRING, 2 MAP, 10 INTEGER.
    """

    type: _Type
    encoding: Encoding
    codec: Codec
    length: int | None = None
    converted: int | None = None
    logical: bytes | None = None


_TEXT = _Storage(_Type.BYTE_ARRAY, Encoding.PLAIN, Codec.ZSTD, converted=0, logical=b"\x1c\x00\x00")
# IntType: 1 bitWidth (a byte) = 8, 2 isSigned = true
_INT8 = b"\xac" + b"\x13\x08\x11\x00" + b"\x00"
_STORAGE = {
    ColumnType.INT64: _Storage(_Type.INT64, Encoding.DELTA_BINARY_PACKED, Codec.NONE),
    ColumnType.INT8: _Storage(_Type.INT32, Encoding.DELTA_BINARY_PACKED, Codec.NONE, converted=15, logical=_INT8),
    ColumnType.ID: _Storage(_Type.FIXED_LEN_BYTE_ARRAY, Encoding.DELTA_BYTE_ARRAY, Codec.NONE, length=16),
    ColumnType.TEXT: _TEXT,
    ColumnType.TEXTS: _TEXT,
    ColumnType.BYTES: _Storage(_Type.BYTE_ARRAY, Encoding.PLAIN, Codec.ZSTD),
}


class Leaf(NamedTuple):
    """A leaf of the schema. A map has two, all other columns have one.

    Attributes:
        column: the ledger's column.
        path: names from the root to the leaf.
        storage: how the values are stored.
    """

    column: Column
    path: tuple[str, ...]
    storage: _Storage


def _leaves(column: Column) -> tuple[Leaf, ...]:
    ends = (("key_value", "key"), ("key_value", "value")) if column.type is ColumnType.TEXTS else ((),)
    return tuple(Leaf(column, (column.name, *end), _STORAGE[column.type]) for end in ends)


LEAVES = tuple(leaf for column in COLUMNS for leaf in _leaves(column))
"""All leaves."""


class Chunk(NamedTuple):
    """An encoded column of a row group.

    Attributes:
        codec: compression.
        values: how many, nulls included.
        raw_bytes: pages with their headers, uncompressed.
        encoded_bytes: the same, compressed.
    """

    codec: Codec
    values: int
    raw_bytes: int
    encoded_bytes: int


class RowGroup:
    """A row group's entry in a footer, for any place of the pages.

    Args:
        rows: how many.
        chunks: one for each leaf. Their pages are contiguous.
    """

    def __init__(self, rows: int, chunks: Sequence[Chunk]) -> None:
        self.rows = rows
        self._sizes = [chunk.encoded_bytes for chunk in chunks]
        self._heads = [
            CHUNK_HEADS[i, chunk.codec]
            + b"\x16%b\x16%b\x16%b\x26" % tuple(map(integer, (chunk.values, chunk.raw_bytes, chunk.encoded_bytes)))
            for i, chunk in enumerate(chunks)
        ]
        self._tail = b"\x16" + integer(sum(chunk.raw_bytes for chunk in chunks)) + b"\x16" + integer(rows)

    def in_segment(self, first_page: int) -> bytes:
        """Returns the entry in the segment's own footer.

        Args:
            first_page: offset of the first page in the segment's own file.
        """
        return self._entry(first_page, b"", b"")

    def in_ledger(self, first_page: int, first_ms: int, last_ms: int) -> bytes:
        """Returns the entry in the ledger's footer.

        Args:
            first_page: offset of the first page in the ledger.
            first_ms: the least deliver_at_ms.
            last_ms: the greatest.
        """
        least, most = (string(time_ms.to_bytes(8, "little", signed=True)) for time_ms in (first_ms, last_ms))
        statistics = b"\x3c" + b"\x58" + most + b"\x18" + least + STOP
        return self._entry(first_page, statistics, _SORTING_COLUMNS + b"\x16" + integer(first_page))

    def _entry(self, page: int, time_statistics: bytes, order: bytes) -> bytes:
        parts = [b"\x19", list_head(len(self._sizes), STRUCT)]
        end_of_chunk = time_statistics + STOP + STOP
        for head, size in zip(self._heads, self._sizes, strict=True):
            parts += (head, integer(page), end_of_chunk)
            page += size
            end_of_chunk = STOP + STOP
        parts += (self._tail, order, STOP)
        return b"".join(parts)


def segment_footer(row_group: RowGroup, first_page: int, tags: Mapping[str, str]) -> bytes:
    """Returns the footer for a row group as a Parquet file.

    Args:
        row_group: the only row group.
        first_page: offset of its first page in that file.
        tags: key-value metadata.
    """
    return footer_of(row_group.rows, (row_group.in_segment(first_page),), tags, b"")


def ledger_footer(rows: int, row_groups: Sequence[bytes], tags: Mapping[str, str]) -> bytes:
    """Returns the footer of the whole ledger.

    `row_groups` are results of `RowGroup.in_ledger`.
    """
    count = len(LEAVES)
    # Every column has the order of its type. Without this field, readers do not trust min_value and max_value.
    return footer_of(rows, row_groups, tags, b"\x19" + list_head(count, STRUCT) + b"\x1c\x00\x00" * count)


def footer_of(rows: int, row_groups: Sequence[bytes], tags: Mapping[str, str], orders: bytes) -> bytes:
    """Returns a footer with length and magic.

    Args:
        rows: of all row groups.
        row_groups: their entries.
        tags: key-value metadata.
        orders: the field column_orders, or nothing.
    """
    entries = (b"\x18" + string(key.encode()) + b"\x18" + string(value.encode()) + STOP for key, value in tags.items())
    footer = b"".join(
        (
            _HEAD,
            b"\x16" + integer(rows),
            b"\x19" + list_head(len(row_groups), STRUCT),
            *row_groups,
            b"\x19" + list_head(len(tags), STRUCT),
            *entries,
            b"\x18" + string(_CREATED_BY),
            orders,
            STOP,
        )
    )
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _node(
    name: str,
    repetition: _Repetition,
    storage: _Storage | None = None,
    *,
    children: int | None = None,
    converted: int | None = None,
    logical: bytes | None = None,
) -> bytes:
    """Encodes a SchemaElement.

    Its fields are 1 type, 2 type_length, 3 repetition, 4 name, 5 num_children, 6 converted, 10 logical.
    """
    type_, length = None, None
    if storage is not None:
        type_, length, converted, logical = storage.type, storage.length, storage.converted, storage.logical
    fields: tuple[tuple[int, int, bytes | None], ...] = (
        (1, I32, None if type_ is None else integer(type_)),
        (2, I32, None if length is None else integer(length)),
        (3, I32, integer(repetition)),
        (4, STRING, string(name.encode())),
        (5, I32, None if children is None else integer(children)),
        (6, I32, None if converted is None else integer(converted)),
        (10, STRUCT, logical),
    )
    encoded = b""
    before = 0
    for number, kind, value in fields:
        if value is not None:
            encoded += bytes((number - before << 4 | kind,)) + value
            before = number
    return encoded + STOP


def _nodes(column: Column) -> tuple[bytes, ...]:
    storage = _STORAGE[column.type]
    repetition = _Repetition.OPTIONAL if column.nullable else _Repetition.REQUIRED
    if column.type is not ColumnType.TEXTS:
        return (_node(column.name, repetition, storage),)
    return (
        _node(column.name, repetition, children=1, converted=1, logical=b"\x2c\x00\x00"),
        _node("key_value", _Repetition.REPEATED, children=2),
        _node("key", _Repetition.REQUIRED, storage),
        _node("value", _Repetition.OPTIONAL, storage),
    )


def _schema() -> bytes:
    root = _node("schema", _Repetition.REQUIRED, children=len(COLUMNS))
    nodes = [root, *(node for column in COLUMNS for node in _nodes(column))]
    return list_head(len(nodes), STRUCT) + b"".join(nodes)


def _chunk_head(leaf: Leaf, codec: Codec) -> bytes:
    """Returns the fields of a column chunk up to the codec, which are the same in every row group."""
    encodings = sorted({Encoding.RLE, leaf.storage.encoding})
    return b"".join(
        (
            b"\x26\x00",
            b"\x1c",
            b"\x15" + integer(leaf.storage.type),
            b"\x19" + list_head(len(encodings), I32),
            *map(integer, encodings),
            b"\x19" + list_head(len(leaf.path), STRING),
            *(string(name.encode()) for name in leaf.path),
            b"\x15" + integer(codec),
        )
    )


# FileMetaData's fields 1 and 2.
_HEAD = b"\x15\x04" + b"\x19" + _schema()
CHUNK_HEADS = {(i, codec): _chunk_head(leaf, codec) for i, leaf in enumerate(LEAVES) for codec in Codec}
# Rows are sorted by the columns 0 and 1: SortingColumn is 1 column_idx, 2 descending, 3 nulls_first.
_SORTING_COLUMNS = b"\x19" + list_head(2, STRUCT) + b"\x15\x00\x12\x12\x00" + b"\x15\x02\x12\x12\x00"
