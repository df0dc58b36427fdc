"""Stores due checks and daily claims in DynamoDB."""

from __future__ import annotations

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change
from tidewheel.errors import CorruptMetadata
from tidewheel.flows.ports.checks import DailyClaim, Due


class DynamoChecks:
    """Implements the port `Checks`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._not_before_ms: dict[str, int] = {}

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None) -> Due:
        """Finds due checks with a query for each of the index's 16 shards."""
        due: list[tuple[int, layout.Key]] = []
        for shard in layout.check_shards():
            try:
                for item in self._table.query(
                    "check_shard = :shard AND next_check_ms <= :now",
                    {"shard": shard, "now": now_ms},
                    index=layout.CHECK_INDEX,
                ):
                    try:
                        next_check_ms = items.next_check_ms_of(item)
                    except ValueError:  # no whole number: whoever reads the item says so
                        next_check_ms = 0
                    due.append((next_check_ms, items.key_of(item)))
            except Exception as error:
                if failed is None:
                    raise
                failed[shard] = error
        found = Due([], [], [], [])
        for _, key in sorted(due):
            try:
                if key[1] == layout.STATE:
                    found.topics.append(layout.topic_of(key[0]))
                elif key[1].startswith(layout.PARKS):
                    found.parks.append(layout.parse_park_key(key))
                elif key[1].startswith(layout.SET_ASIDE):
                    found.set_aside.append(layout.parse_set_aside_key(key))
                else:
                    found.deliveries.append(layout.parse_delivery_key(key))
            except ValueError as error:
                if failed is None:
                    raise CorruptMetadata(f"item {key} is not readable ({error!r})") from error
                failed["#".join(key)] = error
        return found

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
