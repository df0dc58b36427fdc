"""Stores due checks and daily claims in DynamoDB."""

from __future__ import annotations

from typing import Any

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change
from tidewheel.flows.ports.checks import DailyClaim, Due
from tidewheel.model.park import ParkKey
from tidewheel.model.set_aside import SetAsideKey
from tidewheel.model.subscription_state import DeliveryKey


class DynamoChecks:
    """Implements the port `Checks`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._not_before_ms: dict[str, int] = {}

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None) -> Due:
        """Finds due checks with a query for each of the index's 16 shards.

        Ignores keys that the service does not write, without a failure: they are a sender's, who may put any number.
        """
        due: list[tuple[int, layout.Key, object]] = []
        for shard in layout.check_shards():
            try:
                for item in self._table.query(
                    "check_shard = :shard AND next_check_ms <= :now",
                    {"shard": shard, "now": now_ms},
                    index=layout.CHECK_INDEX,
                ):
                    key = items.key_of(item)
                    if (named := layout.checked_key(shard, key)) is None:
                        continue
                    try:
                        next_check_ms = items.next_check_ms_of(item)
                    except ValueError:  # no whole number: whoever reads the item says so
                        next_check_ms = 0
                    due.append((next_check_ms, key, named))
            except Exception as error:
                if failed is None:
                    raise
                failed[shard] = error
        found: dict[type, list[Any]] = {str: [], DeliveryKey: [], ParkKey: [], SetAsideKey: []}
        for _, _, each in sorted(due, key=lambda each: each[:2]):
            found[type(each)].append(each)
        return Due(*found.values())

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
