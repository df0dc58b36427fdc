"""Measures the CPU time of our code in functions on Lambda. The wait for AWS is an assumption.

    python -m benchmarks function_time

The real handlers run on the local stack, one thread, and their thread's CPU time is taken, without what it spends in
the emulator. What a real request costs the client beyond that (signing, HTTP, parsing) is measured against an endpoint
that does nothing, and added for each request. Each function is run with few and with many messages, which gives its
time a call and its time a message. Starting a function is timed as its imports in a process of their own.

The figures go into `tidewheel/cost/figures.toml` by hand, with the date and the machine.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import MISSING, fields
from typing import Any

from botocore.config import Config

from benchmarks.endpoint import client, endpoint
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator import wire
from tidewheel.local.handlers import Handler
from tidewheel.local.replay import packaged_samples, read_samples
from tidewheel.model.message import Message
from tidewheel.model.plain import PREFIX
from tidewheel.model.settings import ServiceSettings

TOPIC = "orders"
REPEATS = 5
DAY_S = 86_400


def stop_daily_work(stack: LocalTidewheel) -> None:
    """Stops the daily work of a local stack's sweep, unless a caller invokes the sweep."""
    triggers: Any = stack._running()._triggers
    triggers._work._daily_ms = lambda *_: None


class OwnTime:
    """CPU time and requests of each function's calls, without the emulator's share.

    The sweep does its daily work only when it is called.
    """

    def __init__(self, stack: LocalTidewheel) -> None:
        self._stack = stack
        self._emulator_ns = 0
        self.calls: dict[str, list[tuple[float, int]]] = {}
        self._invoke, self._answer = Handler.invoke, wire.Wire._answer

    def __enter__(self) -> OwnTime:
        stop_daily_work(self._stack)

        def answer(wire_: Any, *args: Any) -> Any:
            before = time.thread_time_ns()
            try:
                return self._answer(wire_, *args)
            finally:
                self._emulator_ns += time.thread_time_ns() - before

        def invoke(handler: Handler, event: Any) -> Any:
            own_ns, asked = self._emulator_ns, sum(self._stack.requests.values())
            before = time.thread_time_ns()
            result = self._invoke(handler, event)
            spent_ns = time.thread_time_ns() - before - (self._emulator_ns - own_ns)
            requests = sum(self._stack.requests.values()) - asked
            self.calls.setdefault(handler.spec.folder, []).append((spent_ns / 1e6, requests))
            return result

        Handler.invoke, wire.Wire._answer = invoke, answer  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Handler.invoke, wire.Wire._answer = self._invoke, self._answer  # type: ignore[method-assign]

    def client_ns(self) -> int:
        """Returns the thread's CPU time so far, without the emulator's share."""
        return time.thread_time_ns() - self._emulator_ns

    def take(self, function: str) -> list[tuple[float, int]]:
        """Returns (milliseconds, requests) of the calls of a function since the last time."""
        return self.calls.pop(function, [])


def transport_ms() -> float:
    """Returns the CPU milliseconds that a real batch of ten sends takes more than an emulated batch."""
    entries = [{"Id": str(i), "MessageBody": "x" * 500} for i in range(10)]
    answer = json.dumps(
        {"Successful": [{"Id": str(i), "MessageId": str(i), "MD5OfMessageBody": ""} for i in range(10)]}
    )

    def timed(sqs: Any) -> float:
        times = []
        for _ in range(300):
            before = time.thread_time_ns()
            sqs.send_message_batch(QueueUrl="http://localhost/1/q", Entries=entries)
            times.append((time.thread_time_ns() - before) / 1e6)
        return statistics.median(times[50:])

    with endpoint({"SendMessageBatch": answer.encode()}) as url:
        real = timed(client("sqs", url, Config(retries={"mode": "standard"})))
    hooked = client("sqs", "http://localhost")
    hooked.meta.events.register("before-call", lambda **_: (_Answered(), json.loads(answer)))
    return real - timed(hooked)


class _Answered:
    status_code = 200
    headers: dict[str, str] = {}


def start_ms(function: str) -> float:
    """Returns the CPU milliseconds of importing a function's handler, without Python's own start."""

    def spent(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], env=_VARIABLES, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000

    handler = f"import functions.{function}.handler"
    return min(spent(handler) for _ in range(REPEATS)) - min(spent("") for _ in range(REPEATS))


_NAMES = [field.name for field in fields(ServiceSettings) if field.default is MISSING and field.name != "topic_queues"]
_VARIABLES = {
    **os.environ,
    **{f"TIDEWHEEL_{name.upper()}": "https://sqs.us-east-1.amazonaws.com/1/x" for name in _NAMES},
    "TIDEWHEEL_STACK": "tidewheel",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "POWERTOOLS_TRACE_DISABLED": "true",
    "POWERTOOLS_METRICS_DISABLED": "true",
}


class Run:
    """A stack, and calls of its functions with a number of messages."""

    def __init__(self, **settings: int) -> None:
        self.stack = LocalTidewheel(**settings)
        self.stack.open()
        self.client = self.stack.client()
        self.client.create_topic(TOPIC)
        self.client.create_subscription(TOPIC, "mail")
        self.bodies = [json.dumps(sample.payload) for sample in read_samples(packaged_samples())]
        self.stack.advance(days=1)
        self.day = 1

    def close(self) -> None:
        """Ends the stack."""
        assert not self.stack.failures, self.stack.failures[0]
        self.stack.close()

    def send(self, count: int, spread_s: int = 100) -> None:
        """Sends messages due two days later, and runs ingest."""
        at = self.stack.now().timestamp() // DAY_S * DAY_S + 2 * DAY_S
        self.client.send_many(
            TOPIC,
            [Message(body=self.bodies[i % len(self.bodies)], deliver_at=at + i % spread_s) for i in range(count)],
        )
        self.stack.advance(minutes=5)

    def send_plain(self, count: int) -> None:
        """Sends plain messages one by one, due a week later, and runs ingest, which forwards them."""
        connection = self.client.core.connection
        url, wishes = connection.settings.ingest_queues(TOPIC)[0], {"topic": TOPIC, "delay": "7d"}
        given: Any = {PREFIX + name: {"DataType": "String", "StringValue": wish} for name, wish in wishes.items()}
        for i in range(count):
            body = self.bodies[i % len(self.bodies)]
            connection.sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=given)
        self.stack.advance(seconds=1)

    def deliver(self) -> None:
        """Delivers the messages, and receives all."""
        self.stack.advance(days=3)
        self.stack.receive(TOPIC, "mail")


def line(
    few: tuple[int, tuple[float, int]], many: tuple[int, tuple[float, int]], request_ms: float
) -> dict[str, float]:
    """Returns milliseconds a call and a message, from calls with few and with many messages."""

    def whole(run: tuple[int, tuple[float, int]]) -> float:
        return run[1][0] + run[1][1] * request_ms

    a_message = (whole(many) - whole(few)) / (many[0] - few[0])
    return {"call_ms": round(whole(few) - few[0] * a_message, 2), "message_ms": round(a_message, 5)}


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Measures each function, with few messages and with many."""
    repeats = 1 if quick else REPEATS
    request_ms = transport_ms()
    found: dict[str, dict[str, float]] = {}
    measured: dict[str, dict[int, tuple[float, int]]] = {}
    run = Run()
    with OwnTime(run.stack) as own:
        for count in (10, 1500):
            ingested, dispatched = [], []
            for _ in range(repeats):
                own.calls.clear()
                run.send(count)
                ingested += own.take("ingest")
                run.deliver()
                # The first is the slot's, others only collect.
                dispatched.append(max(own.take("dispatch"), key=lambda call: call[1]))
            measured.setdefault("ingest", {})[count] = min(ingested)
            measured.setdefault("dispatch", {})[count] = min(dispatched)
        for count in (1, 10):
            forwarded = []
            for _ in range(repeats):
                own.calls.clear()
                run.send_plain(count)
                forwarded += own.take("ingest")
            measured.setdefault("forward", {})[count] = min(forwarded)
            run.stack.advance(minutes=6)
        parts = []
        for _ in range(3):
            own.calls.clear()
            run.send(6000)
            run.deliver()
            parts += own.take("deliver")
        measured["deliver"] = {1000: statistics.median_low(parts)}  # type: ignore[type-var]
        run.stack.advance(days=1)
        idle = []
        for _ in range(repeats):
            own.calls.clear()
            [sweep] = [each for each in run.stack._handlers if each.spec.folder == "sweep"]
            sweep.invoke({})
            idle += own.take("sweep")
        found["sweep"] = {"call_ms": round(min(idle)[0] + min(idle)[1] * request_ms, 2), "message_ms": 0}
    run.close()
    for function in ("ingest", "forward", "dispatch"):
        few, many = sorted(measured[function].items())
        found[function] = line(few, many, request_ms)
    [(rows, (part_ms, requests))] = measured["deliver"].items()
    whole_ms = part_ms + requests * request_ms
    found["deliver"] = {
        "call_ms": round(max(0.0, whole_ms - rows * found["dispatch"]["message_ms"]), 2),
        "message_ms": found["dispatch"]["message_ms"],
    }
    found["compact"] = merging(request_ms)
    for name, figures in found.items():
        figures["start_ms"] = round(start_ms("ingest" if name == "forward" else name))
    return {"request_ms": round(request_ms, 3), "functions": found}


def merging(request_ms: float) -> dict[str, float]:
    """Returns the time of a merge, a call and a row."""
    times: dict[int, tuple[float, int]] = {}
    for rows in (50, 1000):
        run = Run(max_buckets=16)
        with OwnTime(run.stack) as own:
            merged = 0
            while not own.calls.get("compact"):
                run.send(rows, spread_s=DAY_S)
                merged += rows
        times[merged] = own.take("compact")[0]
        run.close()
    few, many = sorted(times.items())
    return line(few, many, request_ms)
