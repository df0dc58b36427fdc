"""Polls a DynamoDB table with an item a message, like Airbnb's Dynein.

Read from Dynein's source (https://github.com/airbnb/dynein: `DynamoDBScheduleManager`, `PartitionWorker`,
`ManagedInboundJobQueueConsumer`):

- A message due within 15 minutes goes to its queue at once, with SQS's delay. Any other goes through an inbound queue
  into the table, under its shard and its time.
- A worker asks each shard every second for what is due and SCHEDULED, and takes each item by a conditional write
  (SCHEDULED to ACQUIRED), sends it, and deletes the item (if ACQUIRED). No index; reads are eventually consistent.
- What stays ACQUIRED for a minute is set back. Nothing dies here, so that is one more query a minute and shard.

Cheaper than Dynein in one point: SQS takes and gives ten messages a request here, one there.

`AHEAD` is not Dynein but what one would make of the same table today, without a service: the client puts its items
itself, a function that is called each minute looks two minutes ahead, and SQS's delay does the rest. It sends and then
deletes, and claims nothing: no two looks are at work at once. One that dies between the two sends again a minute later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from benchmarks.peers.account import HOUR_MS, Account, Run, send_in_tens
from benchmarks.peers.stream import Delivery, Timed, number_of, outcome
from tidewheel.storage.table_keys import PARTITION_KEY, SORT_KEY

SQS_MAX_DELAY_S = 900
LONG_POLL_S = 20
"""How long a poll of the empty inbound queue takes at most."""
RECOVER_S = 60
ITEM_OVERHEAD_BYTES = 100
"""What DynamoDB bills for the storage of each item beside its bytes.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html"""
_TABLE = "schedules"
_TARGET = "target"
_INBOUND = "inbound"
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """How the table is polled.

    Attributes:
        shards: partition keys among which messages are divided; each is asked.
        interval_s: between two looks at a shard.
        lookahead_s: how far ahead a look reaches; 0: only what is due.
        serverless: whether a schedule calls a function for each look, and the client writes to the table; else a
            service looks, and takes what comes from an inbound queue.
        claims: whether an item is claimed by a write of its own before it is sent, so that workers do not send what
            another is sending; else it is sent and deleted, and sent twice if the worker dies in between.
    """

    shards: int = 1
    interval_s: int = 1
    lookahead_s: int = 0
    serverless: bool = False
    claims: bool = True


DYNEIN = Polling()
"""Dynein's interval. One shard is the cheapest: each costs its polls."""
AHEAD = Polling(interval_s=60, lookahead_s=120, serverless=True, claims=False)


class DynamoDbPoller:
    """The client, the consumer of the inbound queue, and the worker."""

    def __init__(self, account: Account, polling: Polling) -> None:
        self._account = account
        self._polling = polling
        self._table: Any = account.session.client("dynamodb")
        self._sqs: Any = account.session.client("sqs")
        self.target_url = account.make_queue(_TARGET)
        self._inbound_url = account.make_queue(_INBOUND)
        self._table.create_table(
            TableName=_TABLE,
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in (PARTITION_KEY, SORT_KEY)],
            KeySchema=[
                {"AttributeName": PARTITION_KEY, "KeyType": "HASH"},
                {"AttributeName": SORT_KEY, "KeyType": "RANGE"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        account.count_from_now()

    def send(self, messages: Sequence[Timed]) -> None:
        """Sends as the client does. Near messages go to the target, others to the inbound queue or into the table."""
        now_ms = self._account.clock.now_ms()
        near, far = [], []
        for message in messages:
            delay_s = max(0, ceil((message.due_ms - now_ms) / 1000))
            if delay_s <= SQS_MAX_DELAY_S:
                near.append((message.body, delay_s))
            elif self._polling.serverless:
                self._table.put_item(TableName=_TABLE, Item=self._item(message.due_ms, message.body))
            else:
                far.append((f"{message.due_ms} {message.body}", 0))
        send_in_tens(self._sqs, self.target_url, near)
        send_in_tens(self._sqs, self._inbound_url, far)

    def take_in(self) -> int:
        """Moves messages from the inbound queue into the table, an item each. Returns the count."""
        taken = 0
        while True:
            answer = self._sqs.receive_message(QueueUrl=self._inbound_url, MaxNumberOfMessages=10)
            messages = answer.get("Messages", [])
            if not messages:
                return taken
            for message in messages:
                due_ms, _, body = message["Body"].partition(" ")
                self._table.put_item(TableName=_TABLE, Item=self._item(int(due_ms), body))
            entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
            self._sqs.delete_message_batch(QueueUrl=self._inbound_url, Entries=entries)
            taken += len(messages)

    def poll(self) -> None:
        """Looks at each shard once, and again while a page is full."""
        if self._polling.serverless:
            self._account.requests.invoked(by_schedule=True)
        for shard in range(self._polling.shards):
            while self._dispatch(shard) == _PAGE:
                pass

    def recover(self) -> None:
        """Queries each shard for items that have been ACQUIRED for too long."""
        before_ms = self._account.clock.now_ms() - RECOVER_S * 1000
        for shard in range(self._polling.shards):
            assert not self._query(shard, before_ms, "ACQUIRED"), "nothing dies here"

    def run_until(self, until_ms: int) -> list[Delivery]:
        """Polls until then. Returns the arrivals."""
        clock, second = self._account.clock, 0
        deliveries = []
        while clock.now_ms() < until_ms:
            clock.advance_ms(1000)
            second += 1
            if second % self._polling.interval_s == 0:
                self.poll()
                deliveries += self._account.take(self.target_url)
            if second % LONG_POLL_S == 0 and not self._polling.serverless:
                self.take_in()
            if second % RECOVER_S == 0 and self._polling.claims:
                self.recover()
        return deliveries + self._account.take(self.target_url)

    def stored_bytes(self, messages: Sequence[Timed]) -> int:
        """Returns the bytes of these messages' items in the table."""
        sizes = []
        for message in messages:
            item = self._item(message.due_ms, message.body)
            key = {name: item[name] for name in (PARTITION_KEY, SORT_KEY)}
            sizes.append(self._account.emulator.item_bytes(_TABLE, key))
        return sum(sizes) + sum(size > 0 for size in sizes) * ITEM_OVERHEAD_BYTES

    def _item(self, due_ms: int, body: str) -> dict[str, Any]:
        number = number_of(body)
        return {
            PARTITION_KEY: {"S": str(number % self._polling.shards)},
            SORT_KEY: {"S": f"{due_ms:013d}#{number:026d}"},
            "job_status": {"S": "SCHEDULED"},
            "job_spec": {"S": body},
        }

    def _query(self, shard: int, before_ms: int, status: str) -> list[dict[str, Any]]:
        answer = self._table.query(
            TableName=_TABLE,
            KeyConditionExpression=f"{PARTITION_KEY} = :shard AND {SORT_KEY} < :before",
            FilterExpression="job_status = :status",
            ExpressionAttributeValues={
                ":shard": {"S": str(shard)},
                ":before": {"S": f"{before_ms:013d}"},
                ":status": {"S": status},
            },
            Limit=_PAGE,
        )
        found: list[dict[str, Any]] = answer["Items"]
        return found

    def _dispatch(self, shard: int) -> int:
        now_ms = self._account.clock.now_ms()
        items = self._query(shard, now_ms + self._polling.lookahead_s * 1000, "SCHEDULED")
        bodies = []
        for item in items:
            if self._polling.claims:
                self._change(self._table.update_item, item, "SCHEDULED", UpdateExpression="SET job_status = :next")
            due_ms = int(item[SORT_KEY]["S"].partition("#")[0])
            bodies.append((item["job_spec"]["S"], max(0, ceil((due_ms - now_ms) / 1000))))
        send_in_tens(self._sqs, self.target_url, bodies)
        for item in items:
            self._change(self._table.delete_item, item, "ACQUIRED" if self._polling.claims else "SCHEDULED")
        return len(items)

    def _change(self, change: Any, item: dict[str, Any], status: str, **update: str) -> None:
        values = {":status": {"S": status}} | ({":next": {"S": "ACQUIRED"}} if update else {})
        change(
            TableName=_TABLE,
            Key={name: item[name] for name in (PARTITION_KEY, SORT_KEY)},
            ConditionExpression="job_status = :status",
            ExpressionAttributeValues=values,
            **update,
        )


def run(messages: Sequence[Timed], *, until_ms: int, polling: Polling) -> Run:
    """Sends a stream, polls until then, and counts.

    Polls begin shortly before the first message is due: those before it find nothing, which an idle run counts, and
    the emulator walks all that waits at each. So requests of a run with messages are for the difference of two only.

    Args:
        messages: the stream, in order; none of it measures an idle poller.
        until_ms: where the run ends; it begins at `account.START_MS`.
        polling: how the table is polled.
    """
    with Account() as account:
        start_ms = account.clock.now_ms()
        poller = DynamoDbPoller(account, polling)
        poller.send(messages)
        if not polling.serverless:
            poller.take_in()
        stored_bytes = poller.stored_bytes(messages)
        if messages:
            ahead_ms = (polling.lookahead_s + polling.interval_s) * 1000
            account.clock.set_ms(max(start_ms, messages[0].due_ms - ahead_ms))
        deliveries = poller.run_until(until_ms)
        requests, units = account.asked()
        return Run(
            outcome=outcome(messages, deliveries),
            requests=requests,
            units=units,
            hours=(until_ms - start_ms) / HOUR_MS,
            stored_bytes=stored_bytes,
        )
