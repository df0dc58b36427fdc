"""Stores due checks and daily claims in DynamoDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Value
from tidewheel.flows.ports.checks import MOST_DUE, DailyClaim, Due
from tidewheel.model.park import ParkKey
from tidewheel.model.set_aside import SetAsideKey
from tidewheel.model.subscription_state import DeliveryKey

_MOST_LEFT_OUT = 50
"""Owners that a query leaves out. A filter has at most 300 operators."""
_MOST_PAGES = 500
"""Pages of one shard: 3.5 million due items, in half a minute."""


class DynamoChecks:
    """Implements the port `Checks`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._not_before_ms: dict[str, int] = {}

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None, most: int = MOST_DUE) -> Due:
        """Finds due checks with a query for each of the index's 16 shards.

        Once an owner has `most` items, the table leaves out the others. So a shard with 120,000 due parks of one owner
        takes 20 pages, of which two have all their items. Ignores keys that the service does not write, without a
        failure: they are a sender's, who may put any number.
        """
        due: list[tuple[int, layout.Key, object]] = []
        for shard in layout.check_shards():
            try:
                due.extend(self._due_of(shard, now_ms, most))
            except Exception as error:
                if failed is None:
                    raise
                failed[shard] = error
        found: dict[type, list[Any]] = {str: [], DeliveryKey: [], ParkKey: [], SetAsideKey: []}
        for _, _, each in sorted(due, key=lambda each: each[:2]):
            found[type(each)].append(each)
        return Due(*found.values())

    def _due_of(self, shard: str, now_ms: int, most: int) -> Iterator[tuple[int, layout.Key, object]]:
        seen: Counter[layout.Key] = Counter()
        pages = self._table.query_filtered(
            "check_shard = :shard AND next_check_ms <= :now",
            {"shard": shard, "now": now_ms},
            lambda: _but([owner for owner, count in seen.most_common(_MOST_LEFT_OUT) if count >= most]),
            index=layout.CHECK_INDEX,
            most_pages=_MOST_PAGES,
        )
        for item in (each for page, _ in pages for each in page):
            key = items.key_of(item)
            owner = layout.check_owner(key)
            seen[owner] += 1
            if seen[owner] > most or (named := layout.checked_key(shard, key)) is None:
                continue
            try:
                yield items.next_check_ms_of(item), key, named
            except ValueError:  # no whole number: whoever reads the item says so
                yield 0, key, named

    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        """Claims a daily job with an UpdateItem.

        Sends no request while this process remembers that the job is not due.
        """
        if now_ms < self._not_before_ms.get(name, now_ms):
            return None
        claim = Change(
            key=layout.daily_key(name),
            condition="attribute_not_exists(next_at_ms) OR next_at_ms <= :now",
            values={"now": now_ms},
            sets={"v": items.VERSION, "next_at_ms": next_ms},
        )
        done, item = self._table.update(claim, action="claim_daily", topic=name, returns=True)
        if item is not None:
            self._not_before_ms[name] = int(item["next_at_ms"]["N"])
        if not done or item is None:
            return None
        return DailyClaim(after=item["after"]["S"] if "after" in item else None)

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        """Postpones a daily job with a single UpdateItem."""
        change = Change(
            key=layout.daily_key(name),
            condition="attribute_exists(next_at_ms)",
            sets={"v": items.VERSION, "next_at_ms": next_ms, "#after": after},
        )
        self._table.update(change, action="put_off_daily", topic=name)
        self._not_before_ms[name] = next_ms


def _but(owners: list[layout.Key]) -> tuple[str, dict[str, Value]]:
    """Returns a filter of all items but those of some owners, with its values."""
    conditions = [f"NOT (pk = :p{i} AND begins_with(sk, :s{i}))" for i in range(len(owners))]
    places = [(f"{name}{i}", each) for i, owner in enumerate(owners) for name, each in zip("ps", owner, strict=True)]
    return " AND ".join(conditions), dict(places)
