"""A table in memory whose index shows some writes late, as DynamoDB's may."""

from __future__ import annotations

from collections.abc import Callable

from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.memory.service import TABLE

_Key = tuple[str, str]


class LateIndex(MemoryDynamoDBClient):
    """The client of such a table.

    Args:
        lags: returns whether the index shows the present write of an item only after `catch_up`.
    """

    def __init__(self, lags: Callable[[], bool]) -> None:
        super().__init__(TABLE)
        self._lags = lags
        self._behind: dict[_Key, None] = {}

    def catch_up(self) -> None:
        """Shows all writes in the index."""
        with self._lock:
            for key in self._behind:
                super()._show(key)
            self._behind.clear()

    def _show(self, key: _Key) -> None:
        if self._lags():
            self._behind[key] = None
        else:
            self._behind.pop(key, None)
            super()._show(key)
