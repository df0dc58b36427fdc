"""Names topics that are near in spelling, in the errors of a client."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from tidewheel.errors import UnknownTopic

Class = TypeVar("Class", bound=type)


def names_near_topics(kind: Class) -> Class:
    """Lets each UnknownTopic of a client's public methods name the topics that are near in spelling."""
    for name, method in list(vars(kind).items()):
        if callable(method) and not name.startswith("_"):
            setattr(kind, name, _naming(method))
    return kind


def _naming(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except UnknownTopic as error:
            raise UnknownTopic(error.topic, self.core.cache.near(error.topic)) from None

    return call
