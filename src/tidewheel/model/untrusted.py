"""What others wrote: compressed bytes, JSON, numbers and texts, read so that nothing but a ValueError comes of it.

Bytes are decompressed up to a bound only, so that a bomb takes no memory.
"""

from __future__ import annotations

import json
import zlib
from typing import Any


def decompressed(data: bytes, most_bytes: int) -> bytes:
    """Returns what a whole zlib stream holds.

    Args:
        data: the stream, and nothing behind it.
        most_bytes: of what it holds; no more than one byte over it is ever made.

    Raises:
        ValueError: it is no such stream, or holds more.
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
    """Returns the value of a JSON text that anybody may have written.

    Raises:
        ValueError: it is none, is nested too deeply, or has a number that is none (NaN, Infinity).
    """
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_object_of(text: str | bytes) -> dict[str, Any]:
    """Returns the value of a JSON object that anybody may have written.

    Raises:
        ValueError: it is none; see `json_of`.
    """
    return mapping(json_of(text))


def mapping(value: object) -> dict[str, Any]:
    """Returns what JSON has as an object.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def whole(value: object, least: int = 0) -> int:
    """Returns a whole number of at least `least` and below 2**63.

    Raises:
        ValueError: it is something else: true and 1.0 are.
    """
    if type(value) is not int or not least <= value < 1 << 63:
        raise ValueError("not a whole number, or out of range")
    return value


def text(value: object) -> str:
    """Returns a text.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def refuse_constant(name: str) -> float:
    """Raises ValueError for NaN and Infinity, which Python reads and JSON does not have; for `json.loads`."""
    raise ValueError(f"{name} is not JSON")
