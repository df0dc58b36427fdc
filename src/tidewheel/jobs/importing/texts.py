"""Checks texts by column."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.work import Mask

_REFUSED = np.zeros(256, bool)
_REFUSED[:32] = True
_REFUSED[[9, 10, 13]] = False
_NONCHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


def none_of(rows: int) -> Mask:
    """Returns a mask without any row."""
    return np.zeros(rows, bool)


def true_of(found: pa.BooleanArray) -> Mask:
    """Returns the rows that are true."""
    mask: Mask = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return mask


def is_any(type_: pa.DataType, *kinds: str) -> bool:
    """Returns whether a type is of one of these kinds, named as in `pyarrow.types`."""
    return any(getattr(pa.types, f"is_{kind}")(type_) for kind in kinds)


def is_text(type_: pa.DataType) -> bool:
    """Returns whether values are text."""
    return is_any(type_, "string", "large_string", "string_view")


def is_bytes(type_: pa.DataType) -> bool:
    """Returns whether values are bytes."""
    return is_any(type_, "binary", "large_binary", "fixed_size_binary", "binary_view")


def decoded(column: pa.Array) -> pa.Array:
    """Returns a column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def valid_text(column: pa.Array) -> tuple[pa.StringArray, Mask]:
    """Returns bytes as text, with empty texts for bytes that are not UTF-8, and the mask of these."""
    data = column.cast(pa.binary())  # Arrow checks what becomes text, and not what a file calls text
    try:
        return data.cast(pa.string()), none_of(len(data))
    except pa.ArrowInvalid:
        bad = np.fromiter((not _is_utf_8(each) for each in data.to_pylist()), bool, len(data))
        return pc.if_else(pa.array(bad), pa.scalar(b"", pa.binary()), data).cast(pa.string()), bad


def bytes_of(column: pa.BinaryArray) -> tuple[Bytes, Int64s]:
    """Returns the bytes of all values together, and where each begins and the last ends."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    whole = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return whole[ends[0] : ends[-1]], ends - ends[0]


def lengths_of(column: pa.Array) -> Int64s:
    """Returns the bytes of each value, 0 for none."""
    found: Int64s = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def refused(column: pa.BinaryArray) -> Mask:
    """Returns the rows whose text has bytes that are not UTF-8, or characters that SQS refuses."""
    found = none_of(len(column))
    data, ends = bytes_of(column)
    if not len(data):
        return found
    if data.min() < 32:
        places = np.flatnonzero(_REFUSED[data])
        found[ends.searchsorted(places, "right") - 1] = True
    if data.max() >= 128:
        _, bad = valid_text(column)
        found |= bad
        together = data.tobytes()
        if any(each in together for each in _NONCHARACTERS):
            values = [value or b"" for value in column.to_pylist()]
            found |= np.fromiter((any(each in value for each in _NONCHARACTERS) for value in values), bool, len(values))
    return found


def from_base64(column: pa.BinaryArray, packed: Mask) -> tuple[pa.BinaryArray, Mask]:
    """Decodes some rows of a column. Returns it, and which of them are not base64."""
    values, bad = column.to_pylist(), none_of(len(column))
    for row in np.flatnonzero(packed):
        try:
            values[row] = b64decode(values[row] or b"", validate=True)
        except ValueError:
            bad[row] = True
    return pa.array(values, pa.binary()), bad


def _is_utf_8(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False
