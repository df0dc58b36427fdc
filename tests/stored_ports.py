"""Names of the kinds of stored state, for tests that wrap each kind."""

from __future__ import annotations

from tidewheel.clock import ManualClock
from tidewheel.memory import MemoryService
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table

STORED_PORTS = tuple(vars(Storage(Table(None, ""), MemoryService.at(ManualClock(0)).objects)))  # type: ignore[arg-type]
TABLE_PORTS = tuple(name for name in STORED_PORTS if name != "objects")
TABLE_CALLS = tuple(f"{name}." for name in TABLE_PORTS)
"""Beginnings of the names of all calls that use the table."""
