"""A Lambda function that does the work of each message once: Powertools remembers the ids of handled messages."""

# region idempotent
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext

from tidewheel import ReceivedMessage, Worker

DAY_S = 24 * 60 * 60

worker = Worker()
handled = DynamoDBPersistenceLayer("handled-orders")
# A retry has a new id. Its original_id is the id of the first message.
once = IdempotencyConfig(event_key_jmespath="original_id || id", expires_after_seconds=28 * DAY_S)


class BankIsBusy(Exception):
    """The bank asks for patience."""


def pay(order: int, request_id: str) -> None:
    """Stands for your bank, which pays once for each request id."""
    print(f"order {order} is paid, request {request_id}")


@idempotent_function(data_keyword_argument="message", persistence_store=handled, config=once, key_prefix="charge")
def charge(message: ReceivedMessage) -> None:
    """Does the work of one message. If it raises, Powertools forgets the message, and the next attempt runs."""
    pay(message.json()["id"], message.original_id or message.id)


@worker.handles("orders/billing")
def bill(message: ReceivedMessage) -> None:
    """Tries again later if the bank is busy."""
    charge(message=message)


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Handles a batch. The event source mapping has ReportBatchItemFailures."""
    once.register_lambda_context(context)
    processor = BatchProcessor(event_type=EventType.SQS)
    records = worker.record_handler
    return process_partial_response(event=event, record_handler=records, processor=processor, context=context)


# endregion
