"""Reads and checks a column of attributes.

Few rows differ in their attributes as a rule, so each distinct text is read once.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.errors import InvalidValue
from tidewheel.model.message import HEADER_ATTRIBUTE, MAX_ATTRIBUTES
from tidewheel.model.untrusted import exact_json_of, json_text
from tidewheel.model.validation import ATTRIBUTE_NAME, check_characters

_TEXTS = pa.map_(pa.string(), pa.string())
_TOO_MANY = f"are over {MAX_ATTRIBUTES}: SQS takes ten and one is Tidewheel's"
_NOT_AN_OBJECT = "is not a JSON object"


class _RepeatedName(ValueError):
    """An object has a name twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """A column of attributes.

    Attributes:
        maps: in the ledger's type; null where there are none.
        size: bytes that SQS counts, of each row.
        problems: kinds, each with its rows.
        show: returns what to show of a row with a problem.
    """

    maps: pa.Array
    size: npt.NDArray[np.int64]
    problems: dict[str, npt.NDArray[np.bool_]]
    show: Callable[[int], str]


def read_attributes(column: pa.Array) -> Attributes:
    """Reads the texts of JSON objects."""
    encoded = column.dictionary_encode()
    read = [*map(_read, encoded.dictionary.to_pylist()), ((), None, "")]
    place = encoded.indices.fill_null(len(read) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
    maps = pa.array([pairs or None for pairs, _, _ in read], _TEXTS)
    kinds = np.array([kind or "" for _, kind, _ in read], object)[place]
    return Attributes(
        maps=maps.take(pa.array(place)),
        size=np.array([_size(pairs) for pairs, _, _ in read], np.int64)[place],
        problems={kind: kinds == kind for kind in {kind for _, kind, _ in read} if kind is not None},
        show=lambda row: read[place[row]][2],
    )


def object_text(pairs: Iterable[tuple[str, Any]]) -> str:
    """Returns pairs as the text of an object. Repeated names are kept, and NaN, which no reader of JSON takes."""
    return "{" + ",".join(f"{_json(str(name))}:{_json(value)}" for name, value in pairs) + "}"


def _read(text: str | bytes) -> tuple[Sequence[tuple[str, str]], str | None, str]:
    """Returns the pairs, the problem, and what to show of it."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        given = exact_json_of(text, object_pairs_hook=_once, parse_constant=float) if text.strip() else None
    except _RepeatedName:
        return (), "has a name twice", str(text)
    except ValueError:
        return (), _NOT_AN_OBJECT, text if isinstance(text, str) else repr(text)
    if given is None:
        return (), None, ""
    if not isinstance(given, dict):
        return (), _NOT_AN_OBJECT, text
    pairs = []
    for name, each in given.items():
        try:
            pairs += [] if each is None else [(name, each if isinstance(each, str) else json_text(each))]
        except ValueError:
            return (), "has a number that JSON has not; write it as text, of", name
    if len(pairs) > MAX_ATTRIBUTES:
        return ((), _TOO_MANY, ", ".join(name for name, _ in pairs))
    if any(not ATTRIBUTE_NAME.match(name) or name == HEADER_ATTRIBUTE for name, _ in pairs):
        return (), "has a name that SQS refuses", object_text(pairs)
    if any(not value or not _is_taken(value) for _, value in pairs):
        return (), "has a value that is empty or that SQS refuses", object_text(pairs)
    return pairs, None, ""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedName
    return dict(pairs)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text)


def _text(value: object) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _is_taken(value: str) -> bool:
    try:
        check_characters("attribute", value)
    except (InvalidValue, UnicodeEncodeError):
        return False
    return True


def _size(pairs: Iterable[tuple[str, str]]) -> int:
    """Returns the bytes that SQS counts: name, value and the type `String`."""
    return sum(len(name) + len(value.encode()) + len("String") for name, value in pairs)
