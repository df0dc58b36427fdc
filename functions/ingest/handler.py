"""Ingest function: SQS event source mappings of the urgent and the bulk queue."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidewheel.errors import CorruptPack
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import NamedPack, groups, ingest_group
from tidewheel.model.pack import PACK_ATTRIBUTE, Pack, decode_pack
from tidewheel.model.settings import MAX_DELIVERY_S
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

telemetry = Telemetry("ingest")
logger, service = telemetry.logger, telemetry.service

HALF_MS = MAX_DELIVERY_S * 1000 // 4
"""Ingest runs half as long as MAX_DELIVERY_S; what it has not read when half of that is over comes again."""
QUARTER_MS = HALF_MS // 2
"""So much is left for packs that were read but are not begun with less."""


def read(record: dict[str, Any]) -> Pack:
    """Decodes one record; CorruptPack or WrongQueue sends it, alone, towards its queue's dead-letter queue."""
    try:
        # Lambda hands binary values over as base64 text.
        data = base64.b64decode(record["messageAttributes"][PACK_ATTRIBUTE]["binaryValue"])
    except KeyError:
        raise CorruptPack(f"no Binary attribute {PACK_ATTRIBUTE!r}") from None
    except (TypeError, ValueError) as error:
        raise CorruptPack(str(error)) from None
    pack = decode_pack(data, service.clock.now_ms())
    service.settings.check_ingest_queue(record["eventSourceARN"], pack.topic)
    return pack


def readable(records: list[dict[str, Any]], context: LambdaContext, failed: list[str]) -> Iterator[NamedPack]:
    """Yields the packs of a batch as they are asked for; adds to `failed` what could not be read, or not in time."""
    for place, record in enumerate(records):
        if context.get_remaining_time_in_millis() < HALF_MS:
            failed += [each["messageId"] for each in records[place:]]
            logger.warning("packs left to the next call", extra={"packs": len(records) - place})
            return
        try:
            yield record["messageId"], read(record)
        except Exception as error:
            telemetry.failed("pack refused", error, sqs_message_id=record["messageId"])
            failed.append(record["messageId"])


def ingest_named(packs: list[NamedPack], context: LambdaContext) -> list[str]:
    """Ingests packs of one topic and generation; returns the ids of those that come again."""
    topic, first = packs[0][1].topic, packs[0][0]

    def in_time() -> bool:
        return bool(context.get_remaining_time_in_millis() >= QUARTER_MS)

    with telemetry.step(topic=topic, correlation_id=first, packs=len(packs)):
        found = ingest_group(packs, lambda some: ingest_topic(topic, some), in_time)
        for left in found:
            if left.error is None:
                logger.warning("packs left to the next call", extra={"packs": len(left.names)})
            else:
                telemetry.failed("topic not ingested", left.error, sqs_message_ids=left.names[:10])
    return [name for left in found for name in left.names]


def ingest_topic(topic: str, packs: list[Pack]) -> None:
    """Ingests the packs of one topic and generation, and tells what became of them."""
    done = ingest(service, topic, packs)
    stored = {"ledger": done.object_name, "bucket": done.bucket_id} if done.object_name is not None else {}
    logger.info("ingested", extra={**stored, "waiting": done.ledger_rows, "direct": done.direct_rows})
    telemetry.add(metrics.ACCEPTED, done.ledger_rows + done.direct_rows)
    telemetry.add(metrics.LEDGERS, done.object_name is not None)
    telemetry.add(metrics.CANCELLED, done.superseded + done.cancelled)
    telemetry.add(metrics.EXPIRED, done.expired)
    telemetry.add(metrics.PARKED, done.parked)


@telemetry.handler
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Ingests a batch; what could not be read or committed is reported and comes again."""
    failed: list[str] = []
    for packs in groups(readable(event["Records"], context, failed)):
        failed += ingest_named(packs, context)
        del packs
    return {"batchItemFailures": [{"itemIdentifier": record_id} for record_id in failed]}
