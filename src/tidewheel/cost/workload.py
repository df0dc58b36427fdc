"""Describes a bill's workload by number, delay, size and subscriptions of its messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import MAX_MESSAGE_BYTES
from tidewheel.model.pack import MAX_MESSAGES

DAY_S = 86_400


class Spread(StrEnum):
    """The distribution of delays around their mean."""

    EVEN = "even"
    """Evenly distributed from zero to twice the mean."""
    EXPONENTIAL = "exponential"
    """Many short delays, a few long delays."""
    SAME = "same"
    """All delays are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A steady stream of messages.

    Attributes:
        per_day: messages sent a day, over all topics; 0 for an idle service.
        delay_mean_s: the mean of the delays, in seconds.
        spread: the distribution of delays around the mean.
        size_bytes: size of a message's body.
        subscriptions: of each topic; each gets every message.
        topics: number of topics, with equal shares of the messages.
        batch: messages that a client sends together; 1 if the client sends each separately.
        plain: whether the messages are plain: each SQS message alone, or an envelope of a whole batch.
        keyed: the share of messages with a key, which consumers claim.

    Raises:
        InvalidValue: a value is out of its range.
    """

    per_day: float
    delay_mean_s: float = 7 * DAY_S
    spread: Spread = Spread.EVEN
    size_bytes: int = 500
    subscriptions: int = 1
    topics: int = 1
    batch: int = 100
    plain: bool = False
    keyed: float = 0

    def __post_init__(self) -> None:
        for name, least, most, what in (
            ("per_day", 0, 1e12, "messages a day, 0 for an idle service"),
            ("delay_mean_s", 1, MAX_DELAY_MS / 1000, "seconds, from 1 to ten years"),
            ("size_bytes", 1, MAX_MESSAGE_BYTES, "bytes; a larger body is an object in S3, which is not counted here"),
            ("subscriptions", 1, 1000, "subscriptions of each topic"),
            ("topics", 1, 10_000_000, "topics"),
            ("batch", 1, MAX_MESSAGES, "messages that a client sends at once"),
            ("keyed", 0, 1, "as the share of messages with a key"),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise InvalidValue(name, value, f"give {least:,} to {most:,.0f} {what}")

    @property
    def waiting(self) -> float:
        """Average number of waiting messages."""
        return self.per_day * self.delay_mean_s / DAY_S

    @property
    def longest_s(self) -> float:
        """The delay within which nearly all messages are due, which is the lifetime of a ledger."""
        return {Spread.EVEN: 2.0, Spread.EXPONENTIAL: 3.0, Spread.SAME: 1.0}[self.spread] * self.delay_mean_s

    def share_within(self, seconds: float) -> float:
        """Returns the share of messages whose delay is at most this long."""
        if self.spread is Spread.EVEN:
            return min(1.0, seconds / (2 * self.delay_mean_s))
        if self.spread is Spread.EXPONENTIAL:
            return 1 - math.exp(-seconds / self.delay_mean_s)
        return 1.0 if self.delay_mean_s <= seconds else 0.0
