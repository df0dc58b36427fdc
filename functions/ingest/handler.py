"""Ingest function: SQS event source mappings of the urgent and the bulk queue."""

from __future__ import annotations

import base64
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel.aws.service import Service
from tidewheel.errors import CorruptPack, WrongQueue
from tidewheel.flows.ingest import ingest
from tidewheel.pack import PACK_ATTRIBUTE, Pack, decode_pack

logger = Logger(service="ingest")
metrics = Metrics(namespace="Tidewheel", service="ingest")
tracer = Tracer(service="ingest")
service = Service.cold_start()


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


@metrics.log_metrics
@tracer.capture_lambda_handler(capture_response=False, capture_error=False)
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Ingests a batch; what could not be read or committed is reported and comes again."""
    # By generation, too: a pack for a topic that is no more must not fail those for its successor.
    by_topic: dict[tuple[str, str], list[tuple[str, Pack]]] = {}
    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    with processor(event["Records"], handler=read):
        for status, outcome, record in processor.process():
            if status == "success":
                by_topic.setdefault((outcome.topic, outcome.generation), []).append((record["messageId"], outcome))
            else:
                logger.warning("pack refused", sqs_message_id=record["messageId"], reason=str(outcome))
    failures = list(processor.response()["batchItemFailures"])
    misdirected = sum(kind is WrongQueue for kind, _, _ in processor.exceptions)
    metrics.add_metric("UnreadablePacks", MetricUnit.Count, len(failures) - misdirected)
    metrics.add_metric("MisdirectedPacks", MetricUnit.Count, misdirected)
    for (topic, _), packs in by_topic.items():
        try:
            done = ingest(service, topic, [pack for _, pack in packs])
        except Exception:
            logger.exception("topic not ingested", topic=topic)
            failures += [{"itemIdentifier": record_id} for record_id, _ in packs]
            continue
        logger.info("ingested", topic=topic, ledger=done.object_name, direct=done.direct_rows)
        metrics.add_metric("LedgerMessages", MetricUnit.Count, done.ledger_rows)
        metrics.add_metric("DirectMessages", MetricUnit.Count, done.direct_rows)
        metrics.add_metric("SupersededMessages", MetricUnit.Count, done.superseded)
        metrics.add_metric("ExpiredMessages", MetricUnit.Count, done.expired)
    return {"batchItemFailures": failures}
