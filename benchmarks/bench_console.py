"""Measures the console's pages while many messages wait, beside the same calls of the client without a page.

    python -m benchmarks console

A local stack in virtual time has a topic with two subscriptions, of which one is paused, and a topic beside. Real
messages, due at random within 60 days, come by an import, and the first KEYS of them get entries of keys, which an
import does not write. Pages are asked over HTTP from the console's own server, in turns with the floor: the calls of
the page, made one after the other.

- *CPU* is that of the process: the server, the client, the emulated AWS and the program that asks. `aws_ms` is the
  share of the emulated AWS, which includes botocore's parsing of answers.
- *Wall* is the time until the last byte.
- *Requests* are those to AWS, *bytes* those of HTML.
"""

from __future__ import annotations

import gc
import http.client
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.bench_import import make_input
from benchmarks.bench_ledger import START_MS
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import utc
from tidewheel.console import ConsoleServer, RequestMeter
from tidewheel.local import LocalTidewheel
from tidewheel.local.emulator import wire
from tidewheel.local.job_runs import run_job
from tidewheel.model.key import KeyEntry
from tidewheel.storage.items import encode_key

TOPIC, BESIDE = "orders", "retries"
SIZES = (1_000, 1_000_000, 10_000_000)
KEYS = 100_000
ROUNDS = 7
PROCESSES = 2
ROWS = 51
"""A page of the console's list, and one to know whether there is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and the calls that it needs."""

    address: str
    floor: Callable[[Tidewheel], object]


def pages(id: str, later: datetime) -> dict[str, Page]:
    """Returns each screen by its name, and each way to search.

    Args:
        id: of a message that waits.
        later: a time at which many are still to come.
    """
    topic = f"/topics/{TOPIC}"
    return {
        "overview": Page(address="/", floor=lambda tw: [tw.topics(), tw.stats(TOPIC), tw.stats(BESIDE)]),
        "topic": Page(
            address=topic, floor=lambda tw: [tw.stats(TOPIC), tw.subscriptions(TOPIC), tw.ledgers(TOPIC, 20)]
        ),
        "messages": Page(address=f"{topic}/messages", floor=lambda tw: tw.peek(TOPIC, ROWS)),
        "messages from": Page(
            address=f"{topic}/messages?from={later:%Y-%m-%dT%H:%M:%SZ}",
            floor=lambda tw: tw.peek(TOPIC, ROWS, after=later),
        ),
        "messages by id": Page(address=f"{topic}/messages?by=id&q={id}", floor=lambda tw: tw.get(TOPIC, id)),
        "messages by key": Page(
            address=f"{topic}/messages?by=key&q=key-00000500",
            floor=lambda tw: next(tw.find(TOPIC, key_prefix="key-00000500")),
        ),
        "messages by prefix": Page(
            address=f"{topic}/messages?by=prefix&q=key-",
            floor=lambda tw: list(islice(tw.find(TOPIC, key_prefix="key-"), ROWS)),
        ),
        "message": Page(address=f"{topic}/messages/{id}", floor=lambda tw: tw.get(TOPIC, id)),
        "recurring": Page(address=f"{topic}/recurring", floor=lambda tw: tw.recurring(TOPIC)),
        "dead": Page(address=f"{topic}/dead", floor=lambda tw: tw.stats(TOPIC)),
        "trouble": Page(address="/trouble", floor=lambda tw: tw.health()),
        "cost": Page(address="/cost", floor=lambda _: None),
    }


def fill(stack: LocalTidewheel, waiting: int, folder: Path) -> None:
    """Makes the topics, and lets messages wait."""
    client = stack.client()
    for topic in (TOPIC, BESIDE):
        client.create_topic(topic)
        for name in ("mail", "audit"):
            client.create_subscription(topic, name)
    client.send_recurring(TOPIC, "report", "x", every="1d")
    client.pause(TOPIC, "audit")
    make_input(folder / "in", waiting, "parquet")
    arguments = {"topic": TOPIC, "input": str(folder / "in")}
    report = run_job(
        "import_messages",
        arguments,
        stack_name=stack.stack_name,
        clock=stack.clock,
        endpoint_url=stack.endpoint_url,
        cores=PROCESSES,
    )
    assert report.imported == waiting, report
    _fill_keys(stack, min(KEYS, waiting))
    stack.advance(minutes=30)
    assert not stack.failures, stack.failures[0]


def _fill_keys(stack: LocalTidewheel, count: int) -> None:
    """Writes entries of keys where the emulator keeps them, as ingest would: one request a key would take long."""
    client = stack.client()
    found = list(islice(client.find(TOPIC, everything=True), 1_000))
    settings = client.core.connection.settings
    table = stack._emulator.table(settings.table)
    assert table is not None
    version = {"sent_ms": stack.clock.now_ms(), "seq": 0, "ttl_s": stack.clock.now_ms() // 1000 + 90 * 86_400}
    for number in range(count):
        entry = KeyEntry(key=f"key-{number:08}", id=found[number % len(found)].id, **version)
        table.put_item(TableName=settings.table, Item=encode_key(TOPIC, entry))


class Times:
    """CPU and wall times, with the share of the emulated AWS in the CPU time."""

    def __init__(self) -> None:
        self._aws_ns, self._lock = 0, threading.Lock()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches the emulated AWS."""
        real = wire.Wire._answer

        def answer(wire_: Any, *args: Any) -> Any:
            before = time.thread_time_ns()
            try:
                return real(wire_, *args)
            finally:
                with self._lock:
                    self._aws_ns += time.thread_time_ns() - before

        wire.Wire._answer = answer  # type: ignore[method-assign]
        try:
            yield
        finally:
            wire.Wire._answer = real  # type: ignore[method-assign]

    def of(self, action: Callable[[], object]) -> dict[str, float]:
        """Runs an action, and returns its milliseconds."""
        aws, cpu, wall = self._aws_ns, time.process_time_ns(), time.perf_counter_ns()
        action()
        spent = {
            "cpu_ms": time.process_time_ns() - cpu,
            "aws_ms": self._aws_ns - aws,
            "wall_ms": time.perf_counter_ns() - wall,
        }
        return {name: ns / 1e6 for name, ns in spent.items()}


class Browser:
    """Asks the console for pages."""

    def __init__(self, server: ConsoleServer) -> None:
        self._port = server.port
        self._headers = {"Cookie": f"tidewheel-{server.port}={server.url.partition('token=')[2]}"}

    def get(self, address: str) -> bytes:
        """Returns a page, which must be whole."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        try:
            connection.request("GET", address, headers=self._headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert answer.status == 200 and b"could not be read" not in text, (address, text)
        return text


def measured(waiting: int, rounds: int = ROUNDS) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Returns what is in a stack with so many messages, and the figures of each page."""
    began = time.monotonic()
    times = Times()
    start = utc(START_MS - 3 * 3_600_000)
    with tempfile.TemporaryDirectory() as folder, LocalTidewheel(start=start) as stack, times.watched():
        fill(stack, waiting, Path(folder))
        filled_s = time.monotonic() - began
        meter = RequestMeter(stack.session)
        client = stack.client()
        server = ConsoleServer(stack.client(), requests=meter)
        server.start()
        try:
            [first] = client.peek(TOPIC, 1, after=stack.now() + timedelta(days=30))
            named = pages(first.id, first.deliver_at.replace(microsecond=0))
            browser = Browser(server)
            gc.collect()
            gc.freeze()  # else pages pay for looking through what the emulated AWS keeps
            found = {name: of(page, browser, client, meter, times, rounds) for name, page in named.items()}
        finally:
            gc.unfreeze()
            server.stop()
        stats = client.stats(TOPIC)
        assert stats.waiting >= waiting * 0.99, stats.waiting
        return {"waiting": stats.waiting, "ledgers": stats.buckets, "fill_s": filled_s}, found


def of(
    page: Page, browser: Browser, client: Tidewheel, meter: Mapping[str, int], times: Times, rounds: int
) -> dict[str, float]:
    """Asks for a page in turns with its floor. The first turn does not count."""
    ours, floors, requests = [], [], 0
    for _ in range(rounds + 1):
        floors.append(times.of(lambda: page.floor(client)))
        before = sum(meter.values())
        ours.append(times.of(lambda: browser.get(page.address)))
        requests = sum(meter.values()) - before
    html = browser.get(page.address)

    def median(of_: list[dict[str, float]], name: str) -> float:
        return statistics.median(each[name] for each in of_[1:])

    return {
        "cpu_ms": median(ours, "cpu_ms"),
        "floor_cpu_ms": median(floors, "cpu_ms"),
        "aws_ms": median(ours, "aws_ms"),
        "wall_ms": median(ours, "wall_ms"),
        "floor_wall_ms": median(floors, "wall_ms"),
        "requests": requests,
        "bytes": len(html),
    }


def benchmark(*, quick: bool) -> dict[str, Any]:
    """Measures the pages with each number of messages."""
    sizes = SIZES[:1] if quick else SIZES
    stacks, found = [], {}
    for size in sizes:
        stack, found[f"pages_{size:,}"] = measured(size, 1 if quick else ROUNDS)
        stacks.append(stack)
    most = max(page["cpu_ms"] for each in found.values() for page in each.values())
    return {"most_cpu_ms": most, "stacks": stacks, **found}
