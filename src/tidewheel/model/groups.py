"""Groups items by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def grouped(items: Iterable[T], size_bytes: Callable[[T], int], most_bytes: int) -> Iterator[list[T]]:
    """Yields groups of successive items, each of at most `most_bytes`, or of a single item."""
    group: list[T] = []
    total = 0
    for item in items:
        size = size_bytes(item)
        if group and total + size > most_bytes:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
