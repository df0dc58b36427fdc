"""Turns columns of Arrow's types into what is sent, and single values into JSON that is read as the same."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import msgspec
import pyarrow as pa

from tidewheel.jobs.importing.attributes import object_text
from tidewheel.jobs.importing.texts import decoded, is_bytes, is_text
from tidewheel.jobs.importing.times import read_times
from tidewheel.model.message import Encoding


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Returns the type of a column's `plain` form. Extension types that have none stay as they are."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    if not isinstance(type_, pa.BaseExtensionType):
        return type_
    known = {"arrow.uuid": pa.string(), "arrow.bool8": pa.bool_(), "arrow.json": type_.storage_type}
    return known.get(type_.extension_name, type_)


def plain(column: pa.Array) -> pa.Array:
    """Returns JSON and UUIDs as text, and flags as flags, without a dictionary."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return decoded(column)
    if column.type.extension_name == "arrow.uuid":
        return pa.array([None if each is None else str(each) for each in column.to_pylist()], pa.string())
    return column.storage.cast(plain_type(column.type))


def encoding_of(type_: pa.DataType) -> Encoding:
    """Returns how bodies of a type are sent."""
    if is_text(type_):
        return Encoding.TEXT
    return Encoding.BYTES if is_bytes(type_) or pa.types.is_null(type_) else Encoding.JSON


def payloads(column: pa.Array) -> pa.BinaryArray:
    """Returns bodies as bytes, nested values as JSON.

    Raises:
        Exception: JSON or Python cannot hold a value.
    """
    if encoding_of(column.type) is not Encoding.JSON:
        return column.cast(pa.binary())
    encode = msgspec.json.Encoder(enc_hook=str).encode
    values = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else encode(_written(value)) for value in values], pa.binary())


def _written(value: Any) -> Any:
    """Returns a value with the times inside as text, in UTC if they have a zone.

    Raises:
        ValueError: a number inside is NaN or infinite, which msgspec writes as null.
    """
    if isinstance(value, dict):
        return {_written(name): _written(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_written, value))
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("JSON has no NaN and no Infinity")
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        return f"{(value.astimezone(UTC) if zone else value).replace(tzinfo=None).isoformat()}{zone}"
    return value


def attribute_texts(column: pa.Array) -> pa.Array:
    """Returns maps and structs as texts of JSON objects, and texts as they are.

    Raises:
        Exception: Python cannot hold a value.
    """
    if is_text(column.type) or is_bytes(column.type):
        return column.cast(pa.binary())
    pairs = dict.items if pa.types.is_struct(column.type) else iter
    return pa.array([None if each is None else object_text(pairs(each)) for each in column.to_pylist()], pa.string())


def shown(column: pa.Array, row: int) -> object:
    """Returns a value for people, as text if Python cannot hold it."""
    one = column.slice(row, 1)
    with suppress(Exception):
        return one[0].as_py()
    return " ".join(one.to_string().split())[:1000]


def json_of(column: pa.Array, row: int, form: Callable[[pa.Array], str]) -> str:
    """Returns a value in a form of JSON. A value without such a form is shown as text that no reader takes."""
    one = plain(column.slice(row, 1))
    with suppress(Exception):
        return form(one) if one.is_valid()[0].as_py() else "null"
    return json.dumps(f"\udfff{shown(one, 0)}")


def body_json(one: pa.Array) -> str:
    """Returns a body as JSON: JSON as it is, bytes as base64."""
    payload, encoding = payloads(one)[0].as_py(), encoding_of(one.type)
    if encoding is Encoding.JSON:
        return str(payload, "utf-8")
    text = base64.b64encode(payload) if encoding is Encoding.BYTES else payload
    return json.dumps(text.decode(), ensure_ascii=False)


def attributes_json(one: pa.Array) -> str:
    """Returns attributes as a JSON object, or as the text that the column has."""
    return key_json(one) if is_text(one.type) else str(attribute_texts(one)[0].as_py())


def key_json(one: pa.Array) -> str:
    """Returns a key as JSON text."""
    return json.dumps(one.cast(pa.string())[0].as_py(), ensure_ascii=False)


def time_json(one: pa.Array) -> str:
    """Returns a time as JSON: numbers as they are, decimals as text, and the rest in ISO 8601, without loss.

    Raises:
        ValueError: the time is so far away that Arrow would write another year.
    """
    if pa.types.is_integer(one.type) or pa.types.is_floating(one.type):
        return json.dumps(one[0].as_py(), allow_nan=False)
    if pa.types.is_temporal(one.type) and not read_times(one, "UTC").known[0]:
        raise ValueError("out of range")
    if pa.types.is_timestamp(one.type) and one.type.tz is not None:
        one = one.cast(pa.timestamp(one.type.unit, "UTC"))
    return key_json(one)
