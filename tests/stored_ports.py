"""Names of the ports of stored state, for tests that wrap each of them."""

from __future__ import annotations

from tidewheel.storage.storage import Storage

STORED_PORTS = tuple(name for name, each in vars(Storage).items() if isinstance(each, property))
TABLE_PORTS = tuple(name for name in STORED_PORTS if name != "objects")
TABLE_CALLS = tuple(f"{name}." for name in TABLE_PORTS)
"""Beginnings of the names of all calls of the table's ports."""
