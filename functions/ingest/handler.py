"""Ingest function, called by the event source mappings of the urgent and the bulk queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tidewheel import deadline
from tidewheel.flows.delivery.adopt import adopt
from tidewheel.flows.delivery.ingest import Ingested, ingest
from tidewheel.flows.delivery.ingest_batch import NamedPack, PendingPacks, groups, ingest_group, is_pack, pack_of
from tidewheel.flows.delivery.refusing import bad_alone, refuse, refuse_hopeless, refuse_some
from tidewheel.model.pack import PLAIN, Arrival, Pack
from tidewheel.model.plain import BadPart, read_plain
from tidewheel.model.refused import QueuedMessage
from tidewheel.model.settings import MAX_DELIVERY_S
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry, function

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

HALF_MS = MAX_DELIVERY_S * 1000 // 4
"""Half of the time that ingest runs, which is half of MAX_DELIVERY_S. Packs that are not read by then come again."""
QUARTER_MS = HALF_MS // 2
"""Ingest begins a pack only if this time is left."""


class Batch:
    """The messages of one call."""

    def __init__(self, telemetry: Telemetry, records: Iterable[dict[str, Any]], context: LambdaContext) -> None:
        self._telemetry = telemetry
        self._messages = {each["messageId"]: QueuedMessage.of_record(each) for each in records}
        self._bad: dict[str, Sequence[BadPart]] = {}
        self._context = context

    def ingest(self) -> None:
        """Ingests all packs, each topic in a share of the time. Refuses packs that can never be ingested."""
        for packs, of in groups(self._readable()):
            with deadline.share(of):
                self._ingest_named(packs)
            del packs

    def _has(self, left_ms: int) -> bool:
        return bool(self._context.get_remaining_time_in_millis() >= left_ms)

    def _in_time(self) -> bool:
        """Whether a topic has time left, of the share and of the function."""
        return self._has(QUARTER_MS) and deadline.left_s() > 0

    def _readable(self) -> Iterator[NamedPack]:
        """Yields packs on demand, until half of the time is over."""
        for place, message in enumerate(self._messages.values()):
            if not self._has(HALF_MS):
                self._leave([*self._messages][place:])
                return
            try:
                pack = pack_of(message) if is_pack(message) else self._plain_pack(message)
                self._telemetry.settings.check_ingest_queue(message.queue_arn, pack.topic)
            except Exception as error:
                self._settle([message], error)
            else:
                yield message.id, pack

    def _plain_pack(self, message: QueuedMessage) -> Pack:
        """Reads a plain message."""
        plain = read_plain(message, self._telemetry.settings.topic_of_queue(message.queue_arn))
        self._bad[message.id] = plain.bad
        return plain.pack(Arrival(name=message.id, retried=message.receives > 1, taken_ms=message.sent_at_ms))

    def _ingest_named(self, packs: list[NamedPack]) -> None:
        """Ingests packs of a topic and generation."""
        topic, names = packs[0][1].topic, [name for name, _ in packs]
        with self._telemetry.step(topic=topic, correlation_id=names[0], packs=len(packs)):
            left: list[PendingPacks] = []
            if packs[0][1].generation == PLAIN:
                packs, left = self._adopted(topic, packs)
            ingest_some = partial(ingest_topic, self._telemetry, topic)
            left += ingest_group(packs, ingest_some, self._refuse_some, self._in_time)
            for each in left:
                self._wait(each)
            waiting = {name for each in left for name in each.names}
            for name in names:
                if self._bad.get(name) and name not in waiting:
                    self._refuse_bad(name)

    def _refuse_bad(self, name: str) -> None:
        """Refuses the bad messages of an envelope, once all others are done. If not, the envelope comes again."""
        bad = self._bad[name]
        try:
            refuse(self._telemetry.service, *bad_alone(self._messages[name], bad))
        except Exception as error:
            self._telemetry.failed("pack not refused", error, sqs_message_id=name)
            self._telemetry.leave([name], error)
        else:
            self._telemetry.failed("pack refused", bad[0].error, messages=len(bad), sqs_message_ids=[name])

    def _adopted(self, topic: str, packs: list[NamedPack]) -> tuple[list[NamedPack], list[PendingPacks]]:
        """Returns packs of the topic for the plain messages that are ingested here, and what comes again."""
        service, settings = self._telemetry.service, self._telemetry.settings
        bulk = settings.is_bulk(self._messages[packs[0][0]].queue_arn, topic)
        forward = None if bulk else partial(service.queues.forward, topic)
        try:
            done = adopt(service, topic, packs, settings.s3_bucket, forward)
        except Exception as error:
            return [], [PendingPacks(names=[name for name, _ in packs], error=error)]
        self._telemetry.logger.info("plain messages", extra={"forwarded": done.forwarded})
        return done.packs, done.left

    def _wait(self, left: PendingPacks) -> None:
        """Leaves packs to a later call, or refuses packs that can never be ingested."""
        if left.error is None:
            self._leave(left.names)
        else:
            self._settle([self._messages[name] for name in left.names], left.error)

    def _leave(self, names: list[str]) -> None:
        """Leaves packs to the next call, because there is no time for them."""
        self._telemetry.logger.warning("packs left to the next call", extra={"packs": len(names)})
        self._telemetry.leave(names)

    def _settle(self, messages: list[QueuedMessage], error: Exception) -> None:
        """Refuses messages whose error is permanent; the others come again."""
        done = refuse_hopeless(self._telemetry.service, messages, error, self._in_time)
        for name, unrefused in done.failures:
            self._telemetry.failed("pack not refused", unrefused, sqs_message_id=name)
        for what, some in (("pack refused", done.refused), ("topic not ingested", done.left)):
            if some:
                ids = [each.id for each in some[:10]]
                self._telemetry.failed(what, error, packs=len(some), sqs_message_ids=ids)
        self._telemetry.leave([each.id for each in done.left], error)

    def _refuse_some(self, name: str, pack: Pack, error: Exception) -> None:
        """Refuses some messages of a pack."""
        refuse_some(self._telemetry.service, self._messages[name], pack, error)
        self._telemetry.failed("pack refused", error, messages=len(pack), sqs_message_ids=[name])


def ingest_topic(telemetry: Telemetry, topic: str, packs: list[Pack]) -> Ingested:
    """Ingests the packs of a topic and generation. Logs and counts the results."""
    done = ingest(telemetry.service, topic, packs)
    stored = {"ledger": done.object_name, "bucket": done.bucket_id} if done.object_name is not None else {}
    telemetry.logger.info("ingested", extra={**stored, "waiting": done.ledger_rows, "direct": done.direct_rows})
    telemetry.add(metrics.ACCEPTED, done.ledger_rows + done.direct_rows)
    telemetry.add(metrics.LEDGERS, done.object_name is not None)
    telemetry.add(metrics.CANCELLED, done.superseded + done.cancelled)
    telemetry.add(metrics.EXPIRED, done.expired)
    telemetry.add(metrics.PARKED, done.parked)
    if done.unread:
        telemetry.logger.error("set aside: subscriptions cannot be read", extra={"subscriptions": done.unread})
        telemetry.add(metrics.DAMAGED, done.unread)
    return done


@function("ingest")
def handler(telemetry: Telemetry, event: dict[str, Any], context: LambdaContext) -> None:
    """Ingests a batch. Packs that could not be read or committed are reported and come again."""
    Batch(telemetry, event["Records"], context).ingest()
