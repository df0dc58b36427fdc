"""Represents items and conditional writes as values.

A kind of item is described by its fields, so that one table of fields encodes and decodes the kind. A field with a
default is absent from the item while it has this value, so nothing is stored as null. An item without a field that has
no default cannot be read.

Expressions use attribute names directly, or as `#name` where DynamoDB reserves the word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from tidewheel.model.topic_state import LAYOUT
from tidewheel.storage.table_keys import PARTITION_KEY, SORT_KEY, Key

Item = dict[str, Any]
"""An item in the format of the low-level client: {"sealed": {"N": "17"}, ...}."""
Value = int | str | bytes | frozenset[int] | Mapping[str, int] | Mapping[str, str] | Sequence[str]

LAYOUT_READ = "layout <= :layout"
"""Condition that this release reads the topic's layout. `expression` gives the value of `:layout`."""
_NAME = re.compile(r"#(\w+)")
_NO_NAMES: Mapping[str, str] = {}


def attribute(value: Value) -> dict[str, Any]:
    """Returns a value with its DynamoDB type. A set must not be empty."""
    match value:
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case frozenset():
            return {"NS": [str(each) for each in sorted(value)]}
        case Mapping():
            return {"M": {name: attribute(each) for name, each in value.items()}}
        case _:
            return {"L": [attribute(each) for each in value]}


def item_of(key: Key, fields: Mapping[str, Value | None]) -> Item:
    """Returns an item with all fields except None."""
    item: Item = {PARTITION_KEY: {"S": key[0]}, SORT_KEY: {"S": key[1]}}
    for name, value in fields.items():
        if value is not None:
            item[name] = attribute(value)
    return item


REQUIRED: Any = object()
"""Stands for the default of a field that has none."""


class Field(NamedTuple):
    """A field of a value, and the field's attribute.

    Attributes:
        load: returns the field's value from the attribute, in the format of the low-level client.
        store: returns the stored value.
        default: the field's value if the attribute is absent.
    """

    name: str
    attribute: str
    load: Callable[[Any], Any]
    store: Callable[[Any], Value | None]
    default: Any = REQUIRED


def number(value: Any) -> int:
    """Returns the number in an attribute."""
    return int(value["N"])


def string(value: Any) -> str:
    """Returns the text in an attribute."""
    return str(value["S"])


def binary(value: Any) -> bytes:
    """Returns the bytes in an attribute."""
    return bytes(value["B"])


def plain(load: Callable[[Any], Value], *names: str, default: Any = REQUIRED) -> Iterator[Field]:
    """Yields fields stored unchanged, under their own names."""
    for name in names:
        yield Field(name, name, load, _same, default)


def converted(
    name: str,
    load: Callable[[Any], Any],
    store: Callable[[Any], Value | None] | None = None,
    *,
    attribute: str | None = None,
    default: Any = REQUIRED,
) -> Iterator[Field]:
    """Yields a field with a conversion or another name."""
    yield Field(name, attribute or name, load, store or _same, default)


def _same(value: Any) -> Any:
    return value


class Fields:
    """The fields of a kind of item."""

    def __init__(self, *fields: Iterator[Field]) -> None:
        self._fields = tuple(chain(*fields))

    def attributes(self, value: object) -> dict[str, Value | None]:
        """Returns a value's fields as attributes."""
        found: dict[str, Value | None] = {}
        for name, attribute, _, store, default in self._fields:
            content = getattr(value, name)
            found[attribute] = None if default is not REQUIRED and content == default else store(content)
        return found

    def values(self, item: Item) -> dict[str, Any]:
        """Returns the fields of an item's value by name.

        Raises:
            KeyError: a field is missing that has no default.
        """
        found = {}
        for name, attribute, load, _, default in self._fields:
            if attribute in item:
                found[name] = load(item[attribute])
            elif default is REQUIRED:
                raise KeyError(attribute)
            else:
                found[name] = default
        return found


def key_item(key: Key) -> Item:
    """Returns a key as requests contain keys."""
    return item_of(key, {})


def expression(text: str, values: Mapping[str, Value], names_of: Mapping[str, str] = _NO_NAMES) -> Item:
    """Returns the request's attribute names and values for expressions."""
    found: Item = {}
    if LAYOUT_READ in text:
        values = {**values, "layout": LAYOUT}
    if names := _NAME.findall(text):
        found["ExpressionAttributeNames"] = {f"#{name}": names_of.get(name, name) for name in names}
    if values:
        found["ExpressionAttributeValues"] = {f":{name}": attribute(each) for name, each in values.items()}
    return found


def as_seen(seen: Mapping[str, Value | None], *clauses: str, **values: Value) -> dict[str, Any]:
    """Returns the condition that attributes are as seen, as the `condition` and `values` of a write.

    Args:
        seen: attributes and their values. None: the attribute is absent.
        clauses: further clauses of the condition.
        values: values of the clauses' `:names`.
    """
    there = {name: value for name, value in seen.items() if value is not None}
    same = [f"{name} = :{name.lstrip('#')}" for name in there]
    absent = [f"attribute_not_exists({name})" for name in seen if name not in there]
    found = {name.lstrip("#"): value for name, value in there.items()}
    return {"condition": " AND ".join([*same, *absent, *clauses]), "values": found | values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Writes a whole item.

    Attributes:
        if_absent: write only if the item does not exist.
        condition: another condition on the existing item.
        values: values of the condition's `:names`.
    """

    item: Item
    if_absent: bool = False
    condition: str | None = None
    values: Mapping[str, Value] = field(default_factory=dict)

    def request(self, table: str) -> Item:
        """Returns the parameters of PutItem, or of a transaction's Put."""
        request: Item = {"TableName": table, "Item": self.item}
        condition = f"attribute_not_exists({PARTITION_KEY})" if self.if_absent else self.condition
        if condition is not None:
            request["ConditionExpression"] = condition
            request |= expression(condition, self.values)
        return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changes an item on a condition.

    Attributes:
        sets: paths and their new values; None removes the path.
        adds: values added to numbers and sets.
        condition: an expression.
        values: values of the condition's `:names`.
        names: attributes of `#names` that are no words.
    """

    key: Key
    condition: str
    sets: Mapping[str, Value | None] = field(default_factory=dict)
    adds: Mapping[str, Value] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def request(self, table: str) -> Item:
        """Returns the parameters of UpdateItem, or of a transaction's Update."""
        values = dict(self.values)
        sets, removes, adds = [], [], []
        for i, (path, value) in enumerate(self.sets.items()):
            if value is None:
                removes.append(path)
            else:
                values[f"set{i}"] = value
                sets.append(f"{path} = :set{i}")
        for i, (path, value) in enumerate(self.adds.items()):
            values[f"add{i}"] = value
            adds.append(f"{path} :add{i}")
        clauses = [
            f"{word} {', '.join(clause)}"
            for word, clause in (("SET", sets), ("REMOVE", removes), ("ADD", adds))
            if clause
        ]
        update = " ".join(clauses)
        return {
            "TableName": table,
            "Key": key_item(self.key),
            "UpdateExpression": update,
            "ConditionExpression": self.condition,
            **expression(f"{update} {self.condition}", values, self.names),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conditional:
    """A write of a transaction with a condition only.

    Attributes:
        condition: an expression; by default that the item exists. None: a deletion whether it exists or not.
        values: values of the condition's `:names`.
    """

    key: Key
    condition: str | None = f"attribute_exists({PARTITION_KEY})"
    values: Mapping[str, Value] = field(default_factory=dict)

    def request(self, table: str) -> Item:
        """Returns the parameters of a transaction's ConditionCheck or Delete."""
        request: Item = {"TableName": table, "Key": key_item(self.key)}
        if self.condition is None:
            return request
        return request | {"ConditionExpression": self.condition, **expression(self.condition, self.values)}


class Check(_Conditional):
    """Checks a condition on an item without a change in the transaction."""


class Delete(_Conditional):
    """Deletes an existing item on a condition. The transaction fails if the item is absent."""


Write = Put | Change | Check | Delete
