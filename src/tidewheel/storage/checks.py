"""Stores the due checks and the daily work of the sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidewheel.model.park import ParkKey
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import Table
from tidewheel.storage.writes import Change, Value

MOST_DUE = 1000
"""Deliveries and parks each of one owner that one sweep sees. The others stay due for later sweeps."""


class Due(NamedTuple):
    """The topics, deliveries and parks that the sweep must check."""

    topics: list[str]
    deliveries: list[DeliveryKey]
    parks: list[ParkKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyClaim:
    """A claim of the caller on a daily work.

    Attributes:
        after: where the last holder of the claim stopped; None: it came to the end.
    """

    after: str | None


_MOST_LEFT_OUT = 50
"""Owners that a query leaves out. A filter has at most 300 operators."""
_MOST_PAGES = 500
"""Pages of one shard: 3.5 million due items, in half a minute."""


class Checks:
    """The due checks of all topics, and the claims on daily work."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._not_before_ms: dict[str, int] = {}

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None, most: int = MOST_DUE) -> Due:
        """Returns topics, open deliveries and parks whose next check has come, earliest first.

        The read is eventually consistent. Names what the service itself stored: what a client put there is left out.

        Once an owner has `most` items, the table leaves out the others. So a shard with 120,000 due parks of one owner
        takes 20 pages, of which two have all their items. Ignores keys that the service does not write, without a
        failure: they are a sender's, who may put any number.

        Args:
            now_ms: the time.
            failed: gets the name and the error of each query that failed. None: the first error is raised.
            most: deliveries and parks each of one owner, the generation of a subscription.
        """
        due: list[tuple[int, table_keys.Key, object]] = []
        for shard in table_keys.check_shards():
            try:
                due.extend(self._due_of(shard, now_ms, most))
            except Exception as error:
                if failed is None:
                    raise
                failed[shard] = error
        found: dict[type, list[Any]] = {str: [], DeliveryKey: [], ParkKey: []}
        for _, _, each in sorted(due, key=lambda each: each[:2]):
            found[type(each)].append(each)
        return Due(*found.values())

    def _due_of(self, shard: str, now_ms: int, most: int) -> Iterator[tuple[int, table_keys.Key, object]]:
        seen: Counter[table_keys.Key] = Counter()
        pages = self._table.query_filtered(
            "check_shard = :shard AND next_check_ms <= :now",
            {"shard": shard, "now": now_ms},
            lambda: _but([owner for owner, count in seen.most_common(_MOST_LEFT_OUT) if count >= most]),
            index=table_keys.CHECK_INDEX,
            most_pages=_MOST_PAGES,
        )
        for item in (each for page, _ in pages for each in page):
            key = items.key_of(item)
            owner = table_keys.check_owner(key)
            seen[owner] += 1
            if seen[owner] > most or (named := table_keys.checked_key(shard, key)) is None:
                continue
            try:
                yield items.next_check_ms_of(item), key, named
            except ValueError:  # no whole number: whoever reads the item says so
                yield 0, key, named

    def claim_daily(self, name: str, now_ms: int, next_ms: int) -> DailyClaim | None:
        """Claims a daily work. Returns None if the work is not due.

        `SERVICE name: next_at_ms = next_ms IF absent or its next_at_ms <= now_ms`.

        Sends no request while this process remembers that the job is not due.
        """
        if now_ms < self._not_before_ms.get(name, now_ms):
            return None
        claim = Change(
            key=table_keys.daily_key(name),
            condition="attribute_not_exists(next_at_ms) OR next_at_ms <= :now",
            values={"now": now_ms},
            sets={"v": items.VERSION, "next_at_ms": next_ms},
        )
        done, item = self._table.change_and_get(claim, action="claim_daily", topic=name)
        if item is not None:
            self._not_before_ms[name] = int(item["next_at_ms"]["N"])
        if not done or item is None:
            return None
        return DailyClaim(after=item["after"]["S"] if "after" in item else None)

    def put_off_daily(self, name: str, next_ms: int, after: str | None) -> None:
        """Sets when and where a claimed daily work continues.

        `SERVICE name: next_at_ms = next_ms, after`.
        """
        change = Change(
            key=table_keys.daily_key(name),
            condition="attribute_exists(next_at_ms)",
            sets={"v": items.VERSION, "next_at_ms": next_ms, "#after": after},
        )
        self._table.change(change, action="put_off_daily", topic=name)
        self._not_before_ms[name] = next_ms

    def beat(self, now_ms: int) -> None:
        """Notes the time of a sweep. Times never go back.

        `SERVICE SWEEP: swept_ms = now_ms IF absent or less`.
        """
        change = Change(
            key=table_keys.HEARTBEAT,
            condition="attribute_not_exists(swept_ms) OR swept_ms < :now",
            values={"now": now_ms},
            sets={"v": items.VERSION, "swept_ms": now_ms},
        )
        self._table.change(change, action="beat", topic=table_keys.HEARTBEAT[1])

    def swept_at_ms(self) -> int | None:
        """Reads the time of the last sweep. None: no sweep has ended."""
        item = self._table.get(table_keys.HEARTBEAT)
        return None if item is None else int(item["swept_ms"]["N"])


def _but(owners: list[table_keys.Key]) -> tuple[str, dict[str, Value]]:
    """Returns a filter of all items except some owners', with the values."""
    conditions = [f"NOT (pk = :p{i} AND begins_with(sk, :s{i}))" for i in range(len(owners))]
    places = [(f"{name}{i}", each) for i, owner in enumerate(owners) for name, each in zip("ps", owner, strict=True)]
    return " AND ".join(conditions), dict(places)
