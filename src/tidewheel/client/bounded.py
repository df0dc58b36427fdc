"""Bounds the time of the SDK's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidewheel import deadline

CALL_S = 30
"""How long a call waits for AWS: so long after it began, and after AWS's last useful answer."""

Class = TypeVar("Class", bound=type)


def bounded_but(*names: str) -> Callable[[Class], Class]:
    """Bounds all public methods of a class but the named ones, which also wait for something else than AWS."""

    def bound(kind: Class) -> Class:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_") and name not in names:
                setattr(kind, name, deadline.patience(CALL_S)(method))
        return kind

    return bound
