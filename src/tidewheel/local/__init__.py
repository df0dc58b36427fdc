"""Runs Tidewheel on one machine, without an AWS account.

`LocalTidewheel` runs on an emulated AWS, `MemoryTidewheel` in memory alone. Both are imported lazily, since pytest
loads the plugin in every project with this package installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidewheel.errors import needs_extra

_HOME = {"LocalTidewheel": ("emulated_stack", "local"), "MemoryTidewheel": ("memory_stack", "lambda")}
"""Public name -> its module in this package, and the extra with the module's dependencies."""

__all__ = ["LocalTidewheel", "MemoryTidewheel"]

# Hidden from type checkers, which would accept any name.
if TYPE_CHECKING:
    from tidewheel.local.emulated_stack import LocalTidewheel
    from tidewheel.local.memory_stack import MemoryTidewheel
else:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, extra = _HOME[name]
        with needs_extra(f"{__name__}.{name}", extra):
            return getattr(import_module(f"{__name__}.{module}"), name)
