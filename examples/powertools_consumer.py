"""A Lambda function with Powertools: batches, and retries with backoff."""

# region powertools
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel import Backoff, ReceivedMessage, Worker

worker = Worker()


@worker.handles("orders/billing", retry=Backoff(base="30s", factor=3, maximum="6h"))
def charge(message: ReceivedMessage) -> None:
    """Does the work of one message."""
    if message.json()["id"] % 2 and message.attempt == 0:
        raise ConnectionError("the bank is closed")
    print(f"order {message.json()['id']} is paid")


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Handles a batch. The event source mapping has ReportBatchItemFailures."""
    processor = BatchProcessor(event_type=EventType.SQS)
    records = worker.record_handler
    return process_partial_response(event=event, record_handler=records, processor=processor, context=context)


# endregion
