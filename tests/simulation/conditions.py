"""Removes a clause of a stored write's condition, or a part of an update, by its attribute's name.

    unchecked   a clause of a condition holds always
    unallowed   an alternative within a clause, which compares the attribute, holds never
    unwritten   an update leaves the attribute as it is

`A AND (B OR C)` has the clauses `A` and `B OR C`, and the second has two alternatives. A write that must not exist yet
has a clause on `pk`. Writes are changed as they are made, while the function without its guard runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.simulation.removal import Place, Removal
from tidewheel.storage.table_keys import PARTITION_KEY, SORT_KEY
from tidewheel.storage.writes import Change, Check, Delete, Put, Write

_ALWAYS = f"(attribute_exists({PARTITION_KEY}) OR attribute_not_exists({PARTITION_KEY}))"
_NEVER = f"(attribute_exists({PARTITION_KEY}) AND attribute_not_exists({PARTITION_KEY}))"
_ATTRIBUTE = re.compile(r"(?<![\w:.#])#?([A-Za-z_]\w*)\b(?!\()")
_WORDS = frozenset({"AND", "OR", "NOT", "BETWEEN"})


def unchecked(attribute: str, item: str = "") -> Removal:
    """Makes the clause on an attribute hold always.

    Args:
        attribute: mentioned by the clause.
        item: the kind of the item, if the function has clauses on the same attribute of others.
    """
    return partial(_changing, _uncheck, attribute, item)


def unallowed(attribute: str, item: str = "") -> Removal:
    """Makes a condition's alternative on an attribute always false. See `unchecked` for the arguments."""
    return partial(_changing, _disallow, attribute, item)


def unwritten(attribute: str, item: str = "") -> Removal:
    """Leaves an attribute out of an update. See `unchecked` for the arguments."""
    return partial(_changing, _unwrite, attribute, item)


def checked(write: Write) -> set[str]:
    """Returns the attributes on which a write has conditions."""
    return set().union(*map(_mentioned, _clauses(_condition(write))))


def kind_of(write: Write) -> str:
    """Returns the kind of a write's item, from the sort key or, beside the topic's items, from the partition.

    Such as `BUCKET`, `STATE` or `TOMB`.
    """
    key = (write.item[PARTITION_KEY]["S"], write.item[SORT_KEY]["S"]) if isinstance(write, Put) else write.key
    partition = str(key[0]).split("#")
    return partition[2] if len(partition) > 2 else str(key[1]).partition("#")[0]


@contextmanager
def told_writes(tell: Callable[[Any], object]) -> Iterator[None]:
    """Calls `tell` with each write of the block, before any other code sees the write."""
    with ExitStack() as stack:
        for kind in (Put, Change, Check, Delete):
            stack.enter_context(patch.object(kind, "__init__", _then(kind.__init__, tell)))
        yield


def _then(make: Callable[..., None], tell: Callable[[Any], object]) -> Callable[..., None]:
    def made(self: Any, **given: Any) -> None:
        make(self, **given)
        tell(self)

    return made


def _changing(edit: Callable[[str, Any], int], attribute: str, item: str, place: Place) -> None:
    """Changes each write of a function. `edit` returns the number of removed clauses or parts.

    Raises:
        ValueError: at the end of the time without the guard, if no write was changed, writes of several kinds of items,
            or two clauses of one write.
    """
    active: ContextVar[bool] = ContextVar("active", default=False)
    found: dict[tuple[str, str], int] = {}

    def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        token = active.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            active.reset(token)

    def change(write: Any) -> None:
        if active.get() and item.rstrip("#") in ("", kind_of(write)) and (count := edit(attribute, write)):
            where = type(write).__name__, kind_of(write)
            found[where] = max(count, found.get(where, 0))

    @contextmanager
    def without() -> Iterator[None]:
        with told_writes(change):
            yield
        if [*found.values()] != [1]:
            raise ValueError(f"{place.name} has these matches of {attribute!r}: {found or 'none'}")

    place.wrappers.append(called)
    place.around.append(without)


# ---- one write
def _uncheck(attribute: str, write: Any) -> int:
    clauses = _clauses(_condition(write))
    found = [each for each in clauses if attribute in _mentioned(each)]
    if found:
        _set_condition(write, [each for each in clauses if each not in found])
    return len(found)


def _disallow(attribute: str, write: Any) -> int:
    clauses, count = _clauses(_condition(write)), 0
    for i, clause in enumerate(clauses):
        ways = _split(_bare(clause), "OR")
        left = [each for each in ways if attribute not in _mentioned(each) or "attribute_" in each]
        if len(ways) > 1 and len(left) < len(ways):
            count += len(ways) - len(left)
            clauses[i] = f"({' OR '.join(left)})" if left else _NEVER
    if count:
        _set_condition(write, clauses)
    return count


def _unwrite(attribute: str, write: Any) -> int:
    if not isinstance(write, Change):
        return 0
    count = 0
    for part in ("sets", "adds"):
        parts = getattr(write, part)
        left = {path: value for path, value in parts.items() if path.lstrip("#").partition(".")[0] != attribute}
        count += len(parts) - len(left)
        object.__setattr__(write, part, left)
    return count


def _condition(write: Write) -> str | None:
    if isinstance(write, Put) and write.if_absent:
        return f"attribute_not_exists({PARTITION_KEY})"
    return write.condition


def _set_condition(write: Any, clauses: list[str]) -> None:
    text = " AND ".join(clauses) or _ALWAYS
    values = {name: value for name, value in write.values.items() if re.search(rf":{name}\b", text)}
    changed = {"condition": text, "values": values, "if_absent": False}
    for field in fields(write):
        if field.name in changed:
            object.__setattr__(write, field.name, changed[field.name])


# ---- the text of a condition
def _clauses(text: str | None) -> list[str]:
    """Splits a condition into clauses joined by AND."""
    if text is None:
        return []
    return _split(text, "AND") if len(_split(text, "OR")) == 1 else [f"({text})"]


def _split(text: str, word: str) -> list[str]:
    """Splits a condition at a word outside parentheses."""
    parts, depth = [""], 0
    for token in re.findall(r"\s+|[()]|[^\s()]+", text):
        depth += (token == "(") - (token == ")")
        if token == word and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [each.strip() for each in parts]


def _bare(clause: str) -> str:
    return clause[1:-1] if clause.startswith("(") else clause


def _mentioned(clause: str) -> set[str]:
    return {name for name in _ATTRIBUTE.findall(clause) if name not in _WORDS}
