"""Tidewheel on one machine, without an AWS account: `LocalTidewheel`, and in memory alone: `MemoryTidewheel`.

Imported lazily, since the pytest plugin is loaded in every project that has this package installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.local.memory_stack import MemoryTidewheel
    from tidewheel.local.stack import LocalTidewheel

__all__ = ["LocalTidewheel", "MemoryTidewheel"]


def __getattr__(name: str) -> Any:
    if name == "LocalTidewheel":
        from tidewheel.local.stack import LocalTidewheel

        return LocalTidewheel
    if name == "MemoryTidewheel":
        from tidewheel.local.memory_stack import MemoryTidewheel

        return MemoryTidewheel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
