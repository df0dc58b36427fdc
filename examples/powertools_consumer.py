"""A Lambda function with Powertools: batches, retries with backoff, and each message handled once."""

# region powertools
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel import Backoff, Consumer, ReceivedMessage, RetryLater, Tidewheel

consumer = Consumer(Tidewheel(), "orders", "billing")
# A message that is sent again has another id, and the first one's as original_id.
once = IdempotencyConfig(event_key_jmespath="original_id || id")
handled = DynamoDBPersistenceLayer("handled-orders")


@idempotent_function(data_keyword_argument="message", persistence_store=handled, config=once)
def charge(message: ReceivedMessage) -> None:
    """Does the work; raising RetryLater forgets that it was begun."""
    if message.json()["id"] % 2 and message.attempt == 0:
        raise RetryLater(backoff=Backoff(base="30s", factor=3, maximum="6h"))
    print(f"order {message.json()['id']} is paid")


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Handles a batch; the event source mapping has ReportBatchItemFailures."""
    once.register_lambda_context(context)
    records = consumer.record_handler(lambda message: charge(message=message))
    processor = BatchProcessor(event_type=EventType.SQS)
    return process_partial_response(event=event, record_handler=records, processor=processor, context=context)


# endregion
