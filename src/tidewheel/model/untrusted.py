"""Reads untrusted bytes, JSON, numbers and texts, and shows untrusted text. Raises only ValueError.

Decompression stops at a bound, so that a decompression bomb takes no memory.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, TypeGuard
from uuid import uuid4

from tidewheel.errors import InvalidValue

DECEIVING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control and bidirectional characters, and most without width. Tab, newline and joiners of emoji remain."""
_MOST_LEVELS = 500
"""Of an exact JSON value. Python's reader and writer take about 900, fewer the deeper their caller is."""
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([][{}])', re.DOTALL)
"""A string, also one without an end: a search that began anew behind each quote would take quadratic time."""
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1, "": 0}
_SHORT = 400
"""Digits. Python refuses to read whole numbers of over 4,300."""
_MARK = f"\uffff{uuid4().hex}"
"""Begins the text of a number while JSON is written. No other text has it."""
_MARKED = re.compile(f'"{_MARK}([^"]*)"')


@dataclass(frozen=True, slots=True)
class Number:
    """A number of JSON whose digits Python would change, such as 1.50."""

    text: str


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


def json_of(text: str | bytes, **readers: Any) -> Any:
    """Returns the value of an untrusted JSON text.

    Args:
        text: the text, or its bytes.
        readers: more arguments of `json.loads`.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, or has NaN, Infinity or too long a whole number.
    """
    try:
        return json.loads(text, **{"parse_constant": _refuse_constant, **readers})
    except RecursionError:
        raise ValueError("nested too deeply") from None


def exact_json_of(text: str, **readers: Any) -> Any:
    """Returns the value of an untrusted JSON text, which `json_text` writes with the same numbers.

    Raises:
        ValueError: as of `json_of`. Whole numbers may have any length.
    """
    deep = text.count("[") + text.count("{") > _MOST_LEVELS
    if deep and max(accumulate(_STEPS[each] for each in _BRACKETS.findall(text))) > _MOST_LEVELS:
        raise ValueError("nested too deeply")
    return json_of(text, parse_int=partial(_exact, int), parse_float=partial(_exact, float), **readers)


def _exact(kind: type[int | float], text: str) -> int | float | Number:
    number = kind(text) if len(text) < _SHORT else None
    return Number(text) if number is None or repr(number) != text else number


def json_text(value: object) -> str:
    """Returns a value as compact JSON.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot hold the value.
    """
    text = _encode(value)
    return _MARKED.sub(r"\1", text) if _MARK in text else text


def _marked(value: object) -> str:
    if isinstance(value, Number):
        return f"{_MARK}{value.text}"
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_marked).encode


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


def whole(value: object, least: int = 0, bits: int = 63) -> int:
    """Returns a whole number of at least `least` and below 2**bits.

    Raises:
        ValueError: the value is not a whole number in this range. Booleans and floats, such as true and 1.0, are
            refused.
    """
    if type(value) is not int or not least <= value < 1 << bits:
        raise ValueError("not a whole number, or out of range")
    return value


def is_whole(value: object) -> TypeGuard[int]:
    """Returns whether a value is a whole number. A bool is not a number here."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_whole(field: str, value: object, least: int, most: int | None = None, *, more: str = "") -> None:
    """Raises InvalidValue if a caller's value is not a whole number in a range. `more` ends the advice."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidValue(field, value, f"give a whole number {limits}{more}")


def text(value: object) -> str:
    """Returns an untrusted value as text.

    Raises:
        ValueError: the value is not text.
    """
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _refuse_constant(name: str) -> float:
    """Raises ValueError for NaN and Infinity. For `json.loads`.

    Python reads these numbers, but JSON does not have them.
    """
    raise ValueError(f"{name} is not JSON")


def visible(text: str) -> str:
    """Returns a text with each character that would deceive the eye as its code. JSON remains the same JSON."""
    return DECEIVING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
