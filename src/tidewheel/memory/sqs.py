"""Implements an account's standard SQS queues in memory, on a single clock.

This module has no HTTP, no JSON and no boto3. `MemorySqsClient` adds boto3's interface.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from threading import Condition

from tidewheel.clock import Clock
from tidewheel.errors import SqsError
from tidewheel.memory.sqs_queue import ACCOUNT, REGION, MemoryQueue, name_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")


class MemorySqs:
    """The queues of an account and region. Safe for use by several threads.

    Args:
        clock: the queues' time.
        changed: locks the queues, and is notified when a message arrives; None: a condition of their own.
        account_id, region: in the queues' names.
        on_demand: whether a queue is created when its URL is first used.
        numbers: of messages, in the order of arrival, in the messages' ids.
        touched: called with a queue's name and a message's id for each change of a message.

    Attributes:
        lock: held by each operation, and notified when a message arrives.
        known: the queues by name.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        changed: Condition | None = None,
        account_id: str = ACCOUNT,
        region: str = REGION,
        on_demand: bool = False,
        numbers: Iterator[int] | None = None,
        touched: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self.clock, self.account_id, self.region = clock, account_id, region
        self.lock, self.numbers, self.touched = changed or Condition(), numbers or itertools.count(), touched
        self.known: dict[str, MemoryQueue] = {}
        self._on_demand = on_demand

    def create_queue(
        self, name: str, attributes: Mapping[str, str] | None = None, tags: Mapping[str, str] | None = None
    ) -> MemoryQueue:
        """Creates a queue, or returns the queue with this name and these attributes.

        Raises:
            SqsError: the name or an attribute is not usable, or the queue has other attributes.
        """
        if not _NAME.match(name):
            reason = "a standard queue's name is 1 to 80 letters, digits, '-' or '_'; FIFO queues are not emulated"
            raise SqsError("InvalidParameterValue", f"{name!r}: {reason}")
        with self.lock:
            known = self.known.get(name)
            if known is None:
                queue = MemoryQueue(self, name, tags or {})
                queue.set_attributes(attributes or {})
                self.known[name] = queue
                return queue
            have = known.attributes
            for attribute, value in (attributes or {}).items():
                if have.get(attribute, "") != value:
                    reason = (
                        f"A queue already exists with the same name and a different value for attribute {attribute}"
                    )
                    raise SqsError("QueueAlreadyExists", reason)
            return known

    def queue(self, url: str) -> MemoryQueue:
        """Returns the queue with a URL, name or ARN.

        Raises:
            SqsError: there is no such queue.
        """
        with self.lock:
            found = self.known.get(name_of(url))
        if found is None and self._on_demand:
            return self.create_queue(name_of(url))
        if found is None:
            raise SqsError("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
        return found

    def queues(self, prefix: str = "") -> list[MemoryQueue]:
        """Lists the queues whose names have a prefix, sorted by name."""
        with self.lock:
            return [queue for name, queue in sorted(self.known.items()) if name.startswith(prefix)]

    def delete_queue(self, url: str) -> None:
        """Deletes a queue with all messages. The name can be used again at once.

        Raises:
            SqsError: there is no such queue.
        """
        with self.lock:
            queue = self.queue(url)
            queue.purge()
            del self.known[queue.name]

    def dead_letter_sources(self, url: str) -> list[MemoryQueue]:
        """Lists the queues whose dead-letter queue is the given queue.

        Raises:
            SqsError: there is no such queue.
        """
        target = self.queue(url)
        return [queue for queue in self.queues() if queue.dead_letters is target]

    def move_dead_letters(self, url: str, destination_url: str | None = None) -> int:
        """Moves a dead-letter queue's receivable messages, as new messages. Returns their number.

        Args:
            url: the dead-letter queue.
            destination_url: the target; None: each message returns to its source queue. Messages sent directly to the
                dead-letter queue then stay.

        Raises:
            SqsError: there is no such queue, or no queue uses this dead-letter queue.
        """
        source = self.queue(url)
        if not self.dead_letter_sources(url):
            raise SqsError("InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
        if destination_url is not None:
            fixed = self.queue(destination_url)
            return source.move_all(lambda _: fixed)
        return source.move_all(lambda each: self.known.get(name_of(each.source_arn or "")))
