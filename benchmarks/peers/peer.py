"""The ways of delaying messages that are compared."""

from __future__ import annotations

from enum import StrEnum


class Peer(StrEnum):
    """A way of delaying messages, as set in its module's docstring."""

    TIDEWHEEL = "Tidewheel"
    REDIS = "Redis sorted set, polled"
    DYNEIN = "DynamoDB, polled as Dynein does"
    AHEAD = "DynamoDB, a function each minute"
    SCHEDULES = "A schedule a message"
