"""The messages that every peer gets, and whether they arrived.

Bodies and the shape of the times are those of the real messages that come with the package (commits of two projects,
60 days). The 60 days are pressed into a shorter span, because a poller that looks every second would ask five million
times in 60 days; what is asked in each hour is counted apart from what is asked for each message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tidewheel.errors import InvalidValue
from tidewheel.local.replay import packaged_samples, read_samples

# Copies of the real messages are moved by this share of the span, so that no two fall together.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One message of the stream.

    Attributes:
        number: from 0 on; the body begins with it.
        due_ms: when it is due, Unix time.
        body: what is sent: the number, a space, and a real body as JSON.
    """

    number: int
    due_ms: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message at its arrival.

    Attributes:
        number: the message's.
        at_ms: when a consumer could have it first.
    """

    number: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a stream arrived.

    Attributes:
        sent, delivered: messages sent; messages that arrived, each once.
        lost, early, duplicates: messages that did not arrive, arrived before their time, arrived again.
        lateness_ms: of each delivery, sorted.
    """

    sent: int
    delivered: int
    lost: int
    early: int
    duplicates: int
    lateness_ms: tuple[int, ...]

    @property
    def sound(self) -> bool:
        """Whether every message arrived once and not early."""
        return self.delivered == self.sent and not (self.lost or self.early or self.duplicates)

    def percentile_ms(self, percent: float) -> int:
        """Returns the lateness that this share of the deliveries did not exceed, in ms.

        Raises:
            InvalidValue: nothing was delivered.
        """
        if not self.lateness_ms:
            raise InvalidValue("percent", percent, "nothing was delivered: there is no lateness to ask for")
        return self.lateness_ms[min(len(self.lateness_ms) - 1, int(len(self.lateness_ms) * percent / 100))]


@cache
def _real() -> tuple[tuple[float, str], ...]:
    """Returns the place of each real message in the 60 days (0 to 1), and the body."""
    samples = read_samples(packaged_samples())
    whole = max(sample.offset for sample in samples)
    return tuple(
        (sample.offset / whole, json.dumps(sample.payload, ensure_ascii=False, separators=(",", ":")))
        for sample in samples
    )


def unordered(count: int, *, first_ms: int, span_ms: int, first_number: int = 0) -> Iterator[Timed]:
    """Yields messages one by one, in no order of time, for more messages than memory should hold.

    Args:
        count: how many. Fewer than the real ones are drawn evenly from them; more are copies at other times.
        first_ms: no message is due before.
        span_ms: no message is due later than this after `first_ms`.
        first_number: of the first message.
    """
    real = _real()
    step = max(1.0, len(real) / max(1, count))
    for number in range(count):
        copy, at = divmod(int(number * step), len(real))
        share, body = real[at]
        share = (share + copy * _GOLDEN) % 1.0
        name = first_number + number
        yield Timed(number=name, due_ms=first_ms + round(share * span_ms), body=f"{name} {body}")


def stream(count: int, *, first_ms: int, span_ms: int) -> list[Timed]:
    """Returns the messages of `unordered` in the order in which they are due."""
    return sorted(unordered(count, first_ms=first_ms, span_ms=span_ms), key=lambda message: message.due_ms)


def mean_body_bytes() -> float:
    """Returns the mean size of a real body, in bytes of UTF-8."""
    real = _real()
    return sum(len(body.encode()) for _, body in real) / len(real)


def number_of(body: str) -> int:
    """Returns the number of the message with this body."""
    return int(body.partition(" ")[0])


def outcome(sent: Sequence[Timed], deliveries: Iterable[Delivery]) -> Outcome:
    """Compares the sent messages with the arrivals.

    Raises:
        KeyError: something arrived that was never sent.
    """
    due_ms = {message.number: message.due_ms for message in sent}
    seen: Counter[int] = Counter()
    lateness_ms = []
    for delivery in deliveries:
        seen[delivery.number] += 1
        lateness_ms.append(delivery.at_ms - due_ms[delivery.number])
    return Outcome(
        sent=len(sent),
        delivered=len(seen),
        lost=len(sent) - len(seen),
        early=sum(late < 0 for late in lateness_ms),
        duplicates=sum(seen.values()) - len(seen),
        lateness_ms=tuple(sorted(lateness_ms)),
    )
