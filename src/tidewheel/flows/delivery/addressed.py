"""Selects the ledger rows for a subscription.

A message that a consumer sends again is only for the consumer's own subscription, because the others have received it
before. The filter is not applied again.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.flows.delivery.filtering import taken
from tidewheel.ledger.rows import sort_rows
from tidewheel.model.message import HEADER_ATTRIBUTE

_MARK = '"only":'


def has_addressed(rows: pa.Table) -> bool:
    """Whether any row is for a single subscription.

    Checks whole columns, since mostly there is no such row.
    """
    attributes = rows.column("attributes")
    if attributes.null_count == rows.num_rows:
        return False
    for chunk in attributes.chunks:
        extras = chunk.items.filter(pc.equal(chunk.keys, HEADER_ATTRIBUTE))
        if pc.any(pc.match_substring(extras, _MARK)).as_py():
            return True
    return False


def rows_for(rows: pa.Table, subscription: str, filter_policy: str | None) -> pa.Table:
    """Returns the rows for a subscription, sorted as given.

    These are the rows that match its filter, and the rows addressed to it alone.

    Args:
        rows: in a ledger's columns, sorted as a ledger's.
        filter_policy: JSON, as a subscription and a delivery hold it.
    """
    if not has_addressed(rows):
        return taken(rows, filter_policy)
    names = [_addressee(pairs) for pairs in rows.column("attributes").to_pylist()]
    its_own = rows.filter(pa.array([name == subscription for name in names]))
    everybodys = taken(rows.filter(pa.array([name is None for name in names])), filter_policy)
    return sort_rows(pa.concat_tables([its_own, everybodys]).combine_chunks())


def _addressee(pairs: list[tuple[str, str]] | None) -> str | None:
    extras = dict(pairs or ()).get(HEADER_ATTRIBUTE)
    only: str | None = None if extras is None else json.loads(extras).get("only")
    return only
