"""The client class `Tidewheel`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidewheel import clock as _clock
from tidewheel.client import receiving
from tidewheel.client.administration import Administration
from tidewheel.client.connection import Connection
from tidewheel.client.looking import Looking
from tidewheel.client.sending import Sending
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.settings import ServiceSettings
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_sqs import SQSClient

    from tidewheel.clock import Clock
    from tidewheel.flows.ports import Objects, Topics


class Tidewheel(Administration, Looking, Sending):
    """A deployed Tidewheel service. One client serves any number of threads.

    Example:
        >>> tw = Tidewheel()
        >>> tw.send("orders", {"id": 17}, delay="3d")
    """

    def __init__(
        self,
        stack_name: str = "tidewheel",
        *,
        session: boto3.Session | None = None,
        settings: ServiceSettings | None = None,
        clock: Clock | None = None,
        endpoint_url: str | None = None,
        topics: Topics | None = None,
        objects: Objects | None = None,
        sqs: SQSClient | None = None,
    ) -> None:
        """Creates a client. The first method call is the first call of AWS.

        Args:
            stack_name: the stack whose SSM parameter holds the settings.
            session: boto3's session for region and credentials; default: boto3's own.
            settings: the service's settings, instead of the SSM parameter's.
            clock: the source of time; default: `tidewheel.clock.current()`.
            endpoint_url: the URL of AWS, for the local runtime.
            topics: the store of metadata, for tests (`tidewheel.memory`); default: the stack's DynamoDB table.
            objects: the store of objects, for tests; default: the stack's S3 bucket.
            sqs: the SQS client, for tests; default: the session's.
        """
        connection = Connection(
            check_name("stack_name", stack_name),
            session=session,
            settings=settings,
            endpoint_url=endpoint_url,
            topics=topics,
            objects=objects,
            sqs=sqs,
        )
        super().__init__(connection, clock or _clock.current())

    def receive(
        self, topic: str, subscription: str, *, max_messages: int = 10, wait_s: int = 0
    ) -> list[ReceivedMessage]:
        """Receives messages from a subscription's queue. `delete` acknowledges messages.

        Large bodies are read from S3.

        Args:
            topic: the topic.
            subscription: the subscription.
            max_messages: the most messages to return; above ten, SQS is called several times.
            wait_s: how long to wait for the first message, 0 to 20 seconds.

        Raises:
            InvalidValue: a value is not usable.
            UnknownTopic, UnknownSubscription: it does not exist.
        """
        receiving.check_receive(max_messages, wait_s)
        queue_url = self._subscription(topic, subscription).queue_url
        taken = receiving.receive(self._connection.sqs, queue_url, max_messages, wait_s)
        return receiving.with_bodies(self._connection, taken)

    def delete(self, topic: str, subscription: str, messages: Iterable[ReceivedMessage]) -> None:
        """Acknowledges received messages, so they do not come again.

        Raises:
            UnknownTopic, UnknownSubscription: it does not exist.
            DeleteFailed: some messages could not be acknowledged; all others are.
        """
        queue_url = self._subscription(topic, subscription).queue_url
        receiving.delete(self._connection.sqs, queue_url, messages)
