"""Counts the result of a delivery. Its own module, so that dispatch loads pyarrow only to send."""

from __future__ import annotations

from operator import add
from typing import NamedTuple

from tidewheel.model.subscription_state import Tally


class Delivered(NamedTuple):
    """The result of a task.

    Attributes:
        messages: sent.
        segments: read.
        failures: errors of some of the work, which is parked, or left to the work queue or the sweep.
        parked: messages that the queue did not take, and that were parked.
        expired: messages that were dropped because their time had passed, counted for each subscription.
        unread: objects that are lost or refused. The sweep has their rows tried again.
        refused: messages that SQS refused permanently.
        purged: messages that were dropped because they were purged.
    """

    messages: int = 0
    segments: int = 0
    failures: tuple[Exception, ...] = ()
    parked: int = 0
    expired: int = 0
    unread: tuple[str, ...] = ()
    refused: int = 0
    purged: int = 0

    @property
    def tally(self) -> Tally:
        """The same, as a delivery counts it."""
        return Tally(self.messages, self.parked, self.refused, self.expired, self.purged)

    def plus(self, more: Delivered) -> Delivered:
        """Returns the result of both."""
        return Delivered(*map(add, self, more))
