"""Ends the leases of functions that died with an earlier process.

On AWS, a lease of a dead worker ends by time, and the sweep finds its work after that. Here all workers are known to be
dead when a stack starts again from its state.
"""

from __future__ import annotations

from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.storage.layout import CHECK_PARTITION_KEY, CHECK_SORT_KEY

_OF_PARTS, _OF_PARK = "leases", "leased_ms"


def end_leases(stored: MemoryDynamoDBClient, table: str, now_ms: int) -> None:
    """Ends all leases of deliveries' parts and of parks, and makes the sweep check them at once."""
    for item in stored.items():
        parts = item.get(_OF_PARTS, {}).get("M")
        if not parts and _OF_PARK not in item:
            continue
        free = {name: value for name, value in item.items() if name != _OF_PARK}
        if parts:
            free[_OF_PARTS] = {"M": {}}
        if CHECK_PARTITION_KEY in free:
            free[CHECK_SORT_KEY] = {"N": str(now_ms)}
        stored.put_item(TableName=table, Item=free)
