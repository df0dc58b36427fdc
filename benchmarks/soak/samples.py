"""Real messages, and the real times between them, as what is sent and how long ahead."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from random import Random
from typing import Any

from tidewheel import Message
from tidewheel.local.replay import packaged_samples, read_samples


@dataclass(slots=True)
class Samples:
    """The repository's sample messages, over and over; the same for a seed.

    Attributes:
        longest: what longer waits are taken as, so that a run reaches its steady state.
        delays_s: seconds between a real message and the next one of its topic, those of the same second left out:
            half are below an hour, a tenth above a day.
    """

    random: Random
    longest: dt.timedelta = dt.timedelta(days=7)
    delays_s: list[int] = field(init=False)
    _bodies: Iterator[Any] = field(init=False)

    def __post_init__(self) -> None:
        samples = read_samples(packaged_samples())
        bodies = [sample.payload for sample in samples]
        self.random.shuffle(bodies)  # otherwise the long ones come together
        self._bodies = cycle(bodies)
        self.delays_s = []
        for topic in sorted({sample.topic for sample in samples}):
            made_s = sorted(sample.payload["committed_at"] for sample in samples if sample.topic == topic)
            gaps = (later - earlier for earlier, later in pairwise(made_s))
            self.delays_s += [min(gap, int(self.longest.total_seconds())) for gap in gaps if gap]

    def after_real_delays(self, count: int) -> list[Message]:
        """Returns messages whose delays are drawn from the real ones."""
        return [self.message(self.real_delay()) for _ in range(count)]

    def real_delay(self) -> dt.timedelta:
        """Returns one of the real delays, and milliseconds by chance: the real ones are whole seconds."""
        return dt.timedelta(seconds=self.random.choice(self.delays_s), milliseconds=self.random.randrange(1000))

    def between(self, count: int, least: dt.timedelta, most: dt.timedelta) -> list[Message]:
        """Returns messages with delays evenly between two."""
        spread_ms = (most - least) // dt.timedelta(milliseconds=1)
        delays = (least + dt.timedelta(milliseconds=self.random.randrange(spread_ms)) for _ in range(count))
        return [self.message(delay) for delay in delays]

    def message(self, delay: dt.timedelta, **attributes: str) -> Message:
        """Returns the next message, due after a delay."""
        return Message(body=next(self._bodies), delay=delay, attributes=attributes)
