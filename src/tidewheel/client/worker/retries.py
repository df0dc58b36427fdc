"""Sends a message again later to one subscription.

    id A, attempt 0  --retry_later-->  id B, attempt 1, of A  --retry_later-->  id C, attempt 2, of A  --> dead letters

A retry has its own id, since an id contains the due time. A retry has no key: with a key, it would be dropped as a
duplicate of the first message, or replace a newer message. Its header still tells the consumer the key and the version
of the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from tidewheel.client import tracing
from tidewheel.errors import InvalidValue, RetryLater
from tidewheel.model.levels import Backoff
from tidewheel.model.message import IdSource
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.validation import Options, OutgoingMessage, due_at_ms

Delay = float | timedelta | str

_FIRST_LEVEL = 3
"""The level of RocketMQ's first retry by default: 10s, then 30s, 1m, 2m, ..."""


def retry_due_ms(now_ms: int, attempt: int, levels: Sequence[int] | None, later: RetryLater) -> int:
    """Returns when a retry is due.

    Args:
        attempt: 1 for the first retry.
        levels: seconds of the topic's delay levels; None: RocketMQ's.
        later: has at most one of level, backoff and delay. Without them, level 3 is for the first retry, level 4 for
            the second, as in RocketMQ.

    Raises:
        InvalidValue: more than one is given, or a value is not usable.
    """
    level, backoff, delay = later.level, later.backoff, later.delay
    options = {"level": level, "backoff": backoff, "delay": delay}
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) > 1:
        raise InvalidValue(", ".join(given), tuple(given.values()), "give one of these")
    if backoff is not None:
        if not isinstance(backoff, Backoff):
            raise InvalidValue("backoff", backoff, "give a Backoff, such as Backoff(base='10s', maximum='1h')")
        return now_ms + backoff.delay_ms(attempt)
    if delay is not None:
        return due_at_ms(now_ms, delay=delay)
    return due_at_ms(now_ms, delay_level=attempt + _FIRST_LEVEL - 1 if level is None else level, levels=levels)


def sent_again(
    message: ReceivedMessage, ids: IdSource, due_ms: int, subscription: str, attempt: int, *, expires_at_ms: int | None
) -> OutgoingMessage:
    """Returns a message's retry for one subscription, with the same body and attributes.

    Args:
        message: the received message, with its own body.
        attempt: how often its work was tried.
    """
    options = Options(
        attempt=attempt,
        original_id=message.original_id or message.id,
        only=subscription,
        first_version=None if message.key is None else (message.key, *message.version),
        expires_at_ms=expires_at_ms,
        group=message.group,
    )
    again = OutgoingMessage(
        id=ids.next(due_ms),
        text=message.body,
        encoding=message.encoding,
        attributes=message.attributes,
        options=options,
    )
    return tracing.carrying(again, message.trace_context)
