"""A worker's CPU for a message, beside boto3's bare requests.

    python -m benchmarks worker

An endpoint that costs next to nothing always has ten messages without a key. Bare: boto3's own client receives ten and
deletes ten, in a loop. The worker: a function that counts, with its default settings but `at_once`. CPU time of this
process, medians of interleaved rounds.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

from benchmarks.endpoint import client, endpoint
from benchmarks.rounds import cpu_ms, interleaved
from tidewheel import ReceivedMessage, Tidewheel, Worker
from tidewheel.client.connection import SDK
from tidewheel.local import MemoryTidewheel
from tidewheel.model.message import IdSource, id_text
from tidewheel.model.received import header_text

NOW_MS = 1_790_000_000_000
KINDS = {"one": 1, "threads": 10, "coroutines": 10}


class _Worked:
    """A worker that works until it was given a number of messages."""

    def __init__(self, kind: str, url: str, count: int) -> None:
        stack = MemoryTidewheel()
        known = stack.client()
        known.create_topic("t", claims="none")
        known.create_subscription("t", "s")
        subscription = replace(known.core.cache.subscription("t", "s"), queue_url=f"{url}/0/q")
        sqs = client("sqs", url, SDK.config(50, url))
        SDK.watch(sqs)
        self._tw = Tidewheel("t", settings=known.core.connection.settings, storage=stack.service, sqs=sqs)
        self._tw.core.cache.subscription = lambda *_: subscription  # type: ignore[method-assign]
        self._kind, self._count = kind, count

    def __call__(self) -> None:
        done, over = 0, threading.Event()

        def work(_: ReceivedMessage) -> None:
            nonlocal done
            done += 1
            if done >= self._count:
                over.set()

        async def work_async(message: ReceivedMessage) -> None:
            work(message)

        worker = Worker(self._tw)
        worker.handles("t/s", at_once=KINDS[self._kind])(work_async if self._kind == "coroutines" else work)
        worker.run(stop=over)


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures each kind of worker."""
    count, runs = (2_000, 3) if quick else (20_000, 5)
    answers: dict[str, Any] = {
        "ReceiveMessage": {"Messages": [_message(i) for i in range(10)]},
        "DeleteMessageBatch": {"Successful": [], "Failed": []},
        "GetQueueAttributes": {"Attributes": {"VisibilityTimeout": "60"}},
    }
    with endpoint({name: json.dumps(each).encode() for name, each in answers.items()}) as url:
        sqs = client("sqs", url)

        def bare() -> None:
            for _ in range(count // 10):
                received = sqs.receive_message(
                    QueueUrl=f"{url}/0/q",
                    MaxNumberOfMessages=10,
                    WaitTimeSeconds=20,
                    MessageAttributeNames=["All"],
                    MessageSystemAttributeNames=["ApproximateReceiveCount"],
                )["Messages"]
                entries = [{"Id": str(i), "ReceiptHandle": each["ReceiptHandle"]} for i, each in enumerate(received)]
                sqs.delete_message_batch(QueueUrl=f"{url}/0/q", Entries=entries)

        rounds = interleaved(runs, cpu_ms, {"bare": bare} | {kind: _Worked(kind, url, count) for kind in KINDS})
    bare_us = rounds.median_ms("bare") / count * 1000
    return {
        "bare_us_a_message": bare_us,
        **{f"{kind}_us_a_message": rounds.median_ms(kind) / count * 1000 for kind in KINDS},
        **{f"{kind}_to_bare": rounds.median_ms(kind) / rounds.median_ms("bare") for kind in KINDS},
    }


def _message(number: int) -> dict[str, Any]:
    header = header_text(id_text(IdSource().next(NOW_MS)), 1, NOW_MS - 1000)
    return {
        "MessageId": f"message-{number}",
        "ReceiptHandle": "AQEB" + "x" * 200,
        "Body": '{"order": 17, "text": "your table is booked for nine o\'clock"}',
        "Attributes": {"ApproximateReceiveCount": "1"},
        "MessageAttributes": {"tidewheel": {"DataType": "String", "StringValue": header}},
    }
