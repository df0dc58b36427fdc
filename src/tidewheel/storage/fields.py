"""Describes the attributes of a kind of item, so that one table of fields encodes and decodes the kind.

A field with a default is absent from the item while it has this value, so nothing is stored as null. An item without
a field that has no default cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from tidewheel.storage.writes import Item, Value

REQUIRED: Any = object()
"""Stands for the default of a field that has none."""


class Field(NamedTuple):
    """A field of a value, and the attribute that stores the field.

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
    """Yields fields that are stored as they are, under their own names."""
    for name in names:
        yield Field(name, name, load, _same, default)


def field(
    name: str,
    load: Callable[[Any], Any],
    store: Callable[[Any], Value | None] | None = None,
    *,
    attribute: str | None = None,
    default: Any = REQUIRED,
) -> Iterator[Field]:
    """Yields a field that is converted, or is stored under another name."""
    yield Field(name, attribute or name, load, store or _same, default)


def _same(value: Any) -> Any:
    return value


class Fields:
    """The fields of a kind of item."""

    def __init__(self, *fields: Iterator[Field]) -> None:
        self._fields = tuple(chain(*fields))

    def attributes(self, value: object) -> dict[str, Value | None]:
        """Returns the attributes that store the fields of a value."""
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
