"""Reads untrusted bytes, JSON, numbers and texts. Raises only ValueError.

Decompression stops at a bound, so that a decompression bomb takes no memory.
"""

from __future__ import annotations

import json
import zlib
from typing import Any


def decompressed(data: bytes, most_bytes: int) -> bytes:
    """Returns the content of a complete zlib stream.

    Args:
        data: the stream, with no bytes behind it.
        most_bytes: largest content. At most one byte more is decompressed.

    Raises:
        ValueError: the data is not a complete zlib stream, or the content is too large.
    """
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(raw) > most_bytes:
        raise ValueError(f"over {most_bytes} bytes decompressed")
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("cut short, or followed by something else")
    return raw


def json_of(text: str | bytes) -> Any:
    """Returns the value of an untrusted JSON text.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or has NaN or Infinity.
    """
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_object_of(text: str | bytes) -> dict[str, Any]:
    """Returns the value of an untrusted JSON object.

    Raises:
        ValueError: the text is not a JSON object; see `json_of`.
    """
    return mapping(json_of(text))


def mapping(value: object) -> dict[str, Any]:
    """Returns an untrusted value as a JSON object.

    Raises:
        ValueError: the value is not an object.
    """
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def whole(value: object, least: int = 0) -> int:
    """Returns a whole number of at least `least` and below 2**63.

    Raises:
        ValueError: the value is not a whole number in this range. Booleans and floats, such as true and 1.0, are
            refused.
    """
    if type(value) is not int or not least <= value < 1 << 63:
        raise ValueError("not a whole number, or out of range")
    return value


def text(value: object) -> str:
    """Returns an untrusted value as text.

    Raises:
        ValueError: the value is not text.
    """
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def refuse_constant(name: str) -> float:
    """Raises ValueError for NaN and Infinity. For `json.loads`.

    Python reads these numbers, but JSON does not have them.
    """
    raise ValueError(f"{name} is not JSON")
