"""Selects the ledger rows that match a subscription's filter."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from tidewheel.errors import InvalidValue
from tidewheel.model.filter_policy import FilterPolicy
from tidewheel.model.message import HEADER_ATTRIBUTE


def taken(rows: pa.Table, filter_policy: str | None) -> pa.Table:
    """Returns the rows that match a filter. Returns all rows without a filter.

    Args:
        rows: in a ledger's columns.
        filter_policy: JSON, as a subscription and a delivery hold it.
    """
    if filter_policy is None or not rows.num_rows:
        return rows
    matches = _parsed(filter_policy).matches
    attributes = rows.column("attributes")
    if attributes.null_count == rows.num_rows:
        return rows if matches(None) else rows.slice(0, 0)
    return rows.filter(pa.array([matches(_sent(pairs)) for pairs in attributes.to_pylist()]))


def unreadable(filter_policy: str | None) -> InvalidValue | None:
    """Returns why a filter cannot be read, or None."""
    try:
        if filter_policy is not None:
            _parsed(filter_policy)
    except InvalidValue as error:
        return error
    return None


@lru_cache(maxsize=256)
def _parsed(filter_policy: str) -> FilterPolicy:
    return FilterPolicy.parse(filter_policy)


def _sent(pairs: list[tuple[str, str]] | None) -> dict[str, str] | None:
    """Returns the sender's attributes, without the header's extras kept beside them."""
    return {name: value for name, value in pairs if name != HEADER_ATTRIBUTE} if pairs else None
