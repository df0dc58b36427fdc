"""Checks texts by column."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.work import Mask

_REFUSED = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x{fffe}\x{ffff}]"

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
        texts = (b"" if each is None else each for each in data.to_pylist())
        bad = np.fromiter((each.decode(errors="ignore").encode() != each for each in texts), bool, len(data))
        return pc.if_else(pa.array(bad), pa.scalar(b"", pa.binary()), data).cast(pa.string()), bad


def lengths_of(column: pa.Array) -> Int64s:
    """Returns the bytes of each value, 0 for none."""
    found: Int64s = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def refused(column: pa.BinaryArray) -> Mask:
    """Returns the rows whose text has bytes that are not UTF-8, or characters that SQS refuses."""
    text, bad = valid_text(column)
    return bad | true_of(pc.match_substring_regex(text, _REFUSED))


def from_base64(column: pa.BinaryArray, packed: Mask) -> tuple[pa.BinaryArray, Mask]:
    """Decodes some rows of a column. Returns it, and which of them are not base64."""
    values, bad = column.to_pylist(), none_of(len(column))
    for row in np.flatnonzero(packed):
        try:
            values[row] = b64decode(values[row] or b"", validate=True)
        except ValueError:
            bad[row] = True
    return pa.array(values, pa.binary()), bad
