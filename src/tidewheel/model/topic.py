"""Checks the names of topics and subscriptions."""

from __future__ import annotations

import re

from tidewheel.errors import InvalidValue

_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}\Z")


def check_name(kind: str, name: object) -> str:
    """Returns a valid name of a topic or subscription.

    The limit is 48 characters because a schedule's name (at most 64) holds the topic's name and a slot.

    Raises:
        InvalidValue: the name does not match `[A-Za-z0-9_-]{1,48}`.
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidValue(kind, name, "use 1 to 48 letters, digits, '-' or '_'")
    return name
