"""Ingest function: SQS event source mappings of the urgent and the bulk queue."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.errors import CorruptPack
from tidewheel.flows.ingest import ingest
from tidewheel.flows.ingest_batch import NamedPack, groups, may_be_one_pack
from tidewheel.pack import PACK_ATTRIBUTE, Pack, decode_pack
from tidewheel.settings import MAX_DELIVERY_S
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry

telemetry = Telemetry("ingest")
logger, service = telemetry.logger, telemetry.service

HALF_MS = MAX_DELIVERY_S * 1000 // 4
"""Ingest runs half as long as MAX_DELIVERY_S; what it has not read when half of that is over comes again."""


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


def ingest_group(packs: list[NamedPack]) -> list[str]:
    """Ingests packs of one topic and generation; returns the ids of those that come again."""
    ids, topic = [record_id for record_id, _ in packs], packs[0][1].topic
    with telemetry.step("ingest", topic=topic, correlation_id=ids[0], packs=len(ids)):
        try:
            ingest_topic(topic, [pack for _, pack in packs])
        except Exception as error:
            if may_be_one_pack(packs, error):
                return [record_id for each in packs for record_id in ingest_group([each])]
            telemetry.failed("topic not ingested", error, sqs_message_ids=ids[:10])
            return ids
    return []


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
        failed += ingest_group(packs)
    return {"batchItemFailures": [{"itemIdentifier": record_id} for record_id in failed]}
