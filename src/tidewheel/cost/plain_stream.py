"""Converts a steady stream of plain messages to a day's runs of flows.

program --SendMessage--> urgent queue --> ingest --+-- due soon ---> ledger, or direct
                                                   +-- due later --> SendMessage --> bulk queue --> ledger
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tidewheel.cost.assumptions import Assumptions
from tidewheel.cost.stream import CHUNK_BYTES, Runs, Stream
from tidewheel.cost.workload import DAY_S, Workload
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.settings import TopicSettings

FORWARD_S = 1020
"""Messages due later than this are forwarded (`tidewheel.flows.delivery.adopt`)."""
PLAIN_BYTES = 100
"""Bytes of a plain message beside its body: options, or their attributes, and the punctuation of an envelope."""


class PlainStream(Stream):
    """A workload's runs in a day, if its messages are plain."""

    def _urgent_share(self) -> float:
        """Returns the share of messages that are not forwarded. All messages of an envelope go the same way."""
        return 1 - (1 - self.workload.share_within(FORWARD_S)) ** self.workload.batch

    @property
    def _plain_bytes(self) -> float:
        return self.workload.size_bytes + PLAIN_BYTES

    @property
    def _plain(self) -> float:
        """Daily SQS messages of the programs."""
        most = SQS_MAX_BYTES // self._plain_bytes
        return self.workload.per_day / min(self.workload.batch, most)

    def _packs(self) -> tuple[float, float]:
        """Returns daily plain messages that are ingested at once, and forwarded packs, one a topic and call."""
        later = self._plain * (1 - self.urgent)
        return self._plain * self.urgent, min(later, later / self._packs_a_call(later) * self.workload.topics)

    def _packs_a_call(self, packs: float) -> float:  # noqa: ARG002
        """Returns the plain messages in a call of the urgent queue, which has no window."""
        return min(10.0, max(1.0, self._plain / DAY_S / self.assumptions.plain_receives_a_second))

    def _sends(self) -> Iterator[Runs]:
        each_bytes = self.workload.per_day / self._plain * self._plain_bytes
        chunks = math.ceil(each_bytes / CHUNK_BYTES)
        yield Runs(flow="plain", measures={"call": self._plain}, more={"sqs.request": self._plain * (chunks - 1)})
        later = self._plain * (1 - self.urgent)
        a_call = self._packs_a_call(later)
        calls = later / a_call
        a_pack_bytes = self.workload.per_day * (1 - self.urgent) * self.stored_bytes / max(1.0, self.bulk_packs)
        more = calls * (math.ceil(a_call * each_bytes / CHUNK_BYTES) - 1)
        more += self.bulk_packs * (math.ceil(a_pack_bytes / CHUNK_BYTES) - 1)
        yield Runs(
            flow="forward",
            calls=calls,
            messages=self.workload.per_day * (1 - self.urgent),
            measures={"call": calls, "ten_packs": calls, "topic": self.bulk_packs},
            more={"sqs.request": more},
        )

    def _urgent_ingest(self) -> Runs:
        """Returns the runs that ingest plain messages at once. Each reads the topic state twice."""
        runs = super()._urgent_ingest()
        return replace(runs, measures={**runs.measures, "topic": 2 * runs.measures["topic"]})


def stream_of(workload: Workload, assumptions: Assumptions, settings: TopicSettings) -> Stream:
    """Returns a workload's runs in a day."""
    return (PlainStream if workload.plain else Stream)(workload, assumptions, settings)
