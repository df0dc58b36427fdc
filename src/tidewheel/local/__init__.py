"""Tidewheel on one machine, without an AWS account: `LocalTidewheel`.

Imported lazily, since the pytest plugin is loaded in every project that has this package installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewheel.local.stack import LocalTidewheel

__all__ = ["LocalTidewheel"]


def __getattr__(name: str) -> Any:
    if name == "LocalTidewheel":
        from tidewheel.local.stack import LocalTidewheel

        return LocalTidewheel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
