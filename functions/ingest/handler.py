"""Ingest function: SQS event source mappings of the urgent and the bulk queue."""

from __future__ import annotations

import base64
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.errors import CorruptPack
from tidewheel.flows.ingest import ingest
from tidewheel.pack import PACK_ATTRIBUTE, Pack, decode_pack
from tidewheel.telemetry import metrics
from tidewheel.telemetry.function import Telemetry

telemetry = Telemetry("ingest")
logger, service = telemetry.logger, telemetry.service


def read(record: SQSRecord) -> Pack:
    """Decodes one record; CorruptPack or WrongQueue sends it, alone, towards its queue's dead-letter queue."""
    attribute = record.raw_event.get("messageAttributes", {}).get(PACK_ATTRIBUTE, {})
    try:
        # Lambda hands binary values over as base64 text.
        data = base64.b64decode(attribute["binaryValue"])
    except KeyError:
        raise CorruptPack(f"no Binary attribute {PACK_ATTRIBUTE!r}") from None
    except (TypeError, ValueError) as error:
        raise CorruptPack(str(error)) from None
    pack = decode_pack(data, service.clock.now_ms())
    service.settings.check_ingest_queue(record.event_source_arn, pack.topic)
    return pack


def ingest_topic(topic: str, packs: list[Pack]) -> None:
    """Ingests the packs of one topic and generation."""
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
    # By generation, too: a pack for a topic that is no more must not fail those for its successor.
    by_topic: dict[tuple[str, str], list[tuple[str, Pack]]] = {}
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    with processor(event["Records"], handler=read):
        for status, outcome, record in processor.process():
            if status == "success":
                by_topic.setdefault((outcome.topic, outcome.generation), []).append((record["messageId"], outcome))
    failures = list(processor.response()["batchItemFailures"])
    for failure, (_, error, _) in zip(failures, processor.exceptions, strict=True):
        assert error is not None
        telemetry.failed("pack refused", error, sqs_message_id=failure["itemIdentifier"])
    for (topic, _), packs in by_topic.items():
        ids = [record_id for record_id, _ in packs]
        with telemetry.step("ingest", topic=topic, correlation_id=ids[0], packs=len(ids)):
            try:
                ingest_topic(topic, [pack for _, pack in packs])
            except Exception as error:
                telemetry.failed("topic not ingested", error, sqs_message_ids=ids[:10])
                failures += [{"itemIdentifier": record_id} for record_id in ids]
    return {"batchItemFailures": failures}
