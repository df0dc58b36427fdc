"""Tidewheel on one machine, without an AWS account: `LocalTidewheel`, and in memory alone: `MemoryTidewheel`.

Imported lazily, since the pytest plugin is loaded in every project that has this package installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidewheel.errors import needs_extra

_HOME = {"LocalTidewheel": ("stack", "local"), "MemoryTidewheel": ("memory_stack", "lambda")}
"""Public name -> its module in this package, and the extra that brings all that it imports."""

__all__ = ["LocalTidewheel", "MemoryTidewheel"]

# Hidden from type checkers: they would take any name for an existing one.
if TYPE_CHECKING:
    from tidewheel.local.memory_stack import MemoryTidewheel
    from tidewheel.local.stack import LocalTidewheel
else:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, extra = _HOME[name]
        with needs_extra(f"{__name__}.{name}", extra):
            return getattr(import_module(f"{__name__}.{module}"), name)
