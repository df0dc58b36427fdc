"""Ingest function, called by the event source mappings of the urgent and the bulk queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tidewheel import deadline
from tidewheel.flows.delivery.adopt import adopt
from tidewheel.flows.delivery.ingest import Ingested, ingest
from tidewheel.flows.delivery.ingest_batch import NamedPack, groups, ingest_group, is_pack, pack_of
from tidewheel.flows.delivery.refusing import PendingPacks, Unfinished
from tidewheel.model.pack import PLAIN, Arrival, Pack
from tidewheel.model.plain import read_plain
from tidewheel.model.received import QueuedMessage
from tidewheel.model.settings import MAX_DELIVERY_S
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

_TIMEOUT_MS = MAX_DELIVERY_S * 1000 // 2
"""How long ingest runs."""
HALF_MS = _TIMEOUT_MS // 2
"""If less time is left, ingest reads no more packs."""
QUARTER_MS = HALF_MS // 2
"""Ingest begins a group of packs, or a refusal, only if this time is left."""


class Batch:
    """The messages of one call."""

    def __init__(self, telemetry: Telemetry, records: Iterable[dict[str, Any]], context: LambdaContext) -> None:
        self._telemetry = telemetry
        self._settings = telemetry.settings
        self._messages = {each["messageId"]: QueuedMessage.of_record(each) for each in records}
        self._unfinished = Unfinished(
            ports=telemetry.service, report=telemetry, messages=self._messages, has_time=self._in_time
        )
        self._context = context

    def ingest(self) -> None:
        """Ingests all packs, each topic in a share of the time. Refuses packs that can never be ingested."""
        for packs, groups_left in groups(self._readable()):
            topic = packs[0][1].topic
            with (
                deadline.share(groups_left),
                self._telemetry.step(topic=topic, correlation_id=packs[0][0], packs=len(packs)),
            ):
                done = self._ingest_group(topic, packs)
            if groups_left > 1 and any(pack.arrival is not None and pack.arrival.retried for _, pack in packs):
                # A pack of the next groups may be why the last call died.
                self._unfinished.delete(topic, done, urgent=not self._is_bulk(topic))
            del packs  # frees its memory before the next group is read

    def _has(self, left_ms: int) -> bool:
        return bool(self._context.get_remaining_time_in_millis() >= left_ms)

    def _is_bulk(self, topic: str) -> bool:
        """Returns whether the call's queue is the bulk queue. A call has messages of one queue."""
        return self._settings.is_bulk(next(iter(self._messages.values())).queue_arn, topic)

    def _in_time(self) -> bool:
        """Whether a topic has time left, of the share and of the function."""
        return self._has(QUARTER_MS) and deadline.left_s() > 0

    def _readable(self) -> Iterator[NamedPack]:
        """Yields packs on demand, until half of the time is over."""
        for place, message in enumerate(self._messages.values()):
            if not self._has(HALF_MS):
                self._unfinished.leave([*self._messages][place:])
                return
            try:
                pack = pack_of(message) if is_pack(message) else self._plain_pack(message)
                self._settings.check_ingest_queue(message.queue_arn, pack.topic)
            except Exception as error:
                self._unfinished.settle([message.id], error)
            else:
                yield message.id, pack

    def _plain_pack(self, message: QueuedMessage) -> Pack:
        """Reads a plain message."""
        plain = read_plain(message, self._settings.topic_of_queue(message.queue_arn))
        if plain.bad:
            self._unfinished.bad[message.id] = plain.bad
        return plain.pack(Arrival(name=message.id, retried=message.receives > 1, taken_ms=message.sent_at_ms))

    def _ingest_group(self, topic: str, packs: list[NamedPack]) -> list[str]:
        """Ingests packs of a topic and generation. Returns the names of the packs that are done."""
        names = [name for name, _ in packs]
        pending: list[PendingPacks] = []
        if packs[0][1].generation == PLAIN:
            packs, pending = self._adopted(topic, packs)
        pending += ingest_group(packs, partial(self._ingest_packs, topic), self._in_time)
        return self._unfinished.settle_all(names, pending) if pending or self._unfinished.bad else names

    def _adopted(self, topic: str, packs: list[NamedPack]) -> tuple[list[NamedPack], list[PendingPacks]]:
        """Returns packs of the topic for the plain messages that are ingested here, and messages that come again."""
        service = self._telemetry.service
        forward = None if self._is_bulk(topic) else partial(service.queues.forward, topic)
        try:
            done = adopt(service, topic, packs, self._settings.s3_bucket, forward)
        except Exception as error:  # what other topics of the batch have done must not come again
            return [], [PendingPacks(names=[name for name, _ in packs], error=error)]
        self._telemetry.logger.info("plain messages", extra={"forwarded": done.forwarded})
        return done.packs, done.pending

    def _ingest_packs(self, topic: str, packs: list[Pack]) -> Ingested:
        """Ingests packs. Logs and counts the results."""
        telemetry = self._telemetry
        done = ingest(telemetry.service, topic, packs)
        stored = {"ledger": done.object_name, "bucket": done.bucket_id} if done.object_name is not None else {}
        telemetry.logger.info("ingested", extra={**stored, "waiting": done.ledger_rows, "direct": done.direct_rows})
        telemetry.add(metrics.ACCEPTED, done.ledger_rows + done.direct_rows)
        telemetry.add(metrics.LEDGERS, done.object_name is not None)
        telemetry.add(metrics.CANCELLED, done.superseded + done.cancelled)
        telemetry.add(metrics.EXPIRED, done.expired)
        telemetry.add(metrics.PARKED, done.parked)
        return done


@function("ingest")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Ingests a batch. Refuses packs whose error is permanent. Reports other failed packs, which come again."""
    Batch(telemetry, event["Records"], context).ingest()
