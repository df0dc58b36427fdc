"""Hostile values, which are arbitrary or made from good values with a fault."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tidewheel.model.checksum import sealed

NAMES = [
    "../orders",
    "orders/../invoices",
    "orders\x00",
    "orders#TOMB",
    "orders#KEY#00",
    "T#orders",
    "оrders",  # noqa: RUF001 - a Cyrillic o
    "orders\u200b",
    "orders ",
    "orders\n",
    "ORDERS",
    "o" * 49,
    "o" * 5_000,
    "",
    ".",
    "ledgers/invoices/2026-01-01/1-a-b.parquet",
]
"""Names that mean another topic to whoever believes them, or none."""

NUMBERS = [0, -1, 1, 2**31, 2**32, 2**48, 2**53, 2**63 - 1, 2**63, 2**64, 10**40, 253_402_300_800_000]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.integers(),
    st.floats(),
    st.sampled_from(NAMES),
    st.text(max_size=20),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)
"""Whatever JSON can say, and what only Python's JSON does: NaN, Infinity."""

DEEP = ["[" * 100_000, '{"a":' * 100_000, "[" * 50_000 + "]" * 50_000, "1" * 5_000, "NaN", '"\\ud800"']
"""JSON texts that break readers rather than rules."""


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Returns each container of a tree with each of its keys."""
    pairs: Any = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = []
    for key, value in pairs:
        found.append((tree, key))
        found += _places(value)
    return found


@st.composite
def changed(draw: st.DrawFn, trees: Sequence[Any], values: st.SearchStrategy[Any] = VALUES) -> Any:
    """Good trees of JSON in which up to three things were dropped, retyped, doubled, or made huge."""
    tree = copy.deepcopy(draw(st.sampled_from(trees)))
    for _ in range(draw(st.integers(1, 3))):
        places = _places(tree)
        if not places:
            break
        container, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["drop", "value", "value", "double", "more", "name"])):
            case "drop":
                del container[key]
            case "value":
                container[key] = draw(values)
            case "double" if isinstance(container, list):
                container.insert(key, copy.deepcopy(container[key]))
            case "more" if isinstance(container[key], str):
                container[key] *= draw(st.sampled_from([2, 50, 3_000]))
            case "more" if isinstance(container[key], int):
                container[key] += draw(st.sampled_from(NUMBERS))
            case "name" if isinstance(container[key], str):
                container[key] = draw(st.sampled_from(NAMES))
    return tree


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """Good bytes with bits flipped, cut short, repeated, or with other bytes in their midst."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        if not data:
            break
        # Heads and ends say how the rest is to be read: they are hit more often.
        at = draw(st.one_of(st.integers(0, len(data) - 1), st.integers(0, min(40, len(data) - 1))))
        at = draw(st.sampled_from([at, len(data) - 1 - at]))
        match draw(st.sampled_from(["bit", "byte", "cut", "front", "insert", "numbers"])):
            case "bit":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "byte":
                data[at] = draw(st.integers(0, 255))
            case "cut":
                del data[at:]
            case "front":
                del data[:at]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "numbers":
                data[at : at + 4] = draw(st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80"]))
    return bytes(data)


def any_bytes(originals: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Damaged bytes, and arbitrary bytes."""
    return st.one_of(damaged(originals), damaged(originals), st.binary(max_size=200))


def texts(documents: Sequence[Any]) -> st.SearchStrategy[str]:
    """JSON texts of changed documents and of arbitrary values, and texts that are hardly JSON."""
    return st.one_of(
        changed(documents).map(json.dumps), VALUES.map(json.dumps), st.text(max_size=40), st.sampled_from(DEEP)
    )


def stream(raw: bytes) -> bytes:
    """A sealed zlib stream."""
    return sealed(zlib.compress(raw))


def streams(
    documents: Sequence[Any], originals: Sequence[bytes], wrap: Callable[[bytes], bytes] = stream
) -> st.SearchStrategy[bytes]:
    """Compressed JSON of changed documents, and damaged streams."""
    return st.one_of(
        texts(documents).map(lambda text: wrap(text.encode("utf-8", "surrogatepass"))), any_bytes(originals)
    )
