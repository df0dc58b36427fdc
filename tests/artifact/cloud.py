"""A simulated deployment with services, functions from their archives, and time that jumps to the next event."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.artifact.control_plane import ControlPlane
from tests.artifact.deployment import Endpoints, create_resources
from tests.artifact.event_source import EventSource
from tests.artifact.execution import LAUNCH, Place
from tests.artifact.functions import Functions
from tests.artifact.moved_clock import MovedClock
from tests.artifact.queue_watch import QueueWatch
from tests.artifact.schedules import Schedules
from tests.artifact.sdk import SdkProcess
from tests.artifact.template import Template

START_MS = 1_806_096_600_000
"""2027-03-26T21:30:00Z, far from the machine's time. Two days later, clocks in Europe go forward."""
_WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The deployed parts, each in a separate folder.

    Attributes:
        python: The functions' interpreter.
        runtime: Lambda's runtime interface client.
        sdk: The wheel with its dependencies.
        template: The synthesized template.
        archive: The functions' unpacked archive.
    """

    python: Path
    runtime: Path
    sdk: Path
    template: dict[str, Any]
    archive: Path


class Cloud:
    """A deployed stack in moved time. Use as a context manager.

    Args:
        parts: What is deployed.
        folder: An empty folder for logs and the clock.
        endpoints: Where DynamoDB, S3 and SQS are; by default moto's server, in a process of its own.
        clock: The clock of these endpoints' processes; by default one is made.

    Attributes:
        sdk: The client.
        start_ms: When it was deployed, in its own time.
    """

    def __init__(
        self, parts: Parts, folder: Path, endpoints: Endpoints | None = None, clock: MovedClock | None = None
    ) -> None:
        self._parts, self._folder = parts, folder
        self.clock = clock or MovedClock(folder / "clock", START_MS)
        self.start_ms = self.clock.now_ms()
        self._given = endpoints
        self._open = ExitStack()
        self._sources: list[EventSource] = []

    def __enter__(self) -> Self:
        try:
            self._deploy()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def settle(self) -> None:
        """Does all due work, until nothing is due."""
        while self._work():
            pass

    def advance_to(self, at_ms: int) -> None:
        """Advances to a time, from event to event, and does the work of each."""
        while True:
            self.settle()
            following = self.next_ms()
            if following is None or following > at_ms:
                break
            self.clock.jump_to(following)
        self.clock.jump_to(at_ms)
        self.settle()

    def next_ms(self) -> int | None:
        """The time of the next event, or None without any."""
        times = [self.schedules.next_ms(), self.functions.next_ms(), *(each.next_ms() for each in self._sources)]
        return min((each for each in times if each is not None), default=None)

    def _work(self) -> bool:
        """Does the work due now, in parallel. Returns whether there was any."""
        for schedule in self.schedules.take_due():
            self.functions.call_later(schedule.target_arn.rpartition(":")[2], schedule.event)
        running = [self._pool.submit(self.functions.run, call) for call in self.functions.take_due()]
        for source in self._sources:
            running += [self._pool.submit(source.run, batch) for batch in source.poll()]
        for each in running:
            each.result()
        return bool(running)

    def _deploy(self) -> None:
        parts = self._parts
        self.endpoints = self._given or self._moto()
        self._sqs = self.endpoints.client("sqs")
        template = Template(parts.template)
        self.watch = QueueWatch(self.endpoints.sqs, self.clock)
        self._open.callback(self.watch.close)
        self.schedules = Schedules(self.clock)
        self.functions = Functions(self.clock, self._give_up)
        self.control = ControlPlane(self.functions, self.schedules, self.clock)
        self._open.callback(self.control.close)
        create_resources(template, self.endpoints, self.control, self.schedules)
        place = Place(python=parts.python, runtime=parts.runtime, archive=parts.archive, logs=self._folder)
        self.functions.deploy(template.functions(), place, self._urls())
        self._open.callback(self.functions.close)
        self._sources = [
            EventSource(spec, self._sqs, self.functions, self.watch, self.clock) for spec in template.mappings()
        ]
        self._pool = self._open.enter_context(ThreadPoolExecutor(_WORKERS))
        log = self._folder / "sdk.log"
        self.sdk = SdkProcess(parts.python, parts.sdk, self.clock, self._urls(), template.stack_name, log)
        self._open.callback(self.sdk.close)

    def _urls(self) -> dict[str, str]:
        """Returns where functions and clients find each service."""
        own = dict.fromkeys(("LAMBDA", "SCHEDULER", "SSM", "GLUE"), self.control.url)
        return {**own, "SQS": self.watch.url, "DYNAMODB": self.endpoints.dynamodb, "S3": self.endpoints.s3}

    def _give_up(self, queue_arn: str, event: Any) -> None:
        url = self._sqs.get_queue_url(QueueName=queue_arn.rpartition(":")[2])["QueueUrl"]
        self._sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))

    def _moto(self) -> Endpoints:
        """Starts moto's server in a separate process, in simulated time."""
        server = subprocess.Popen(
            [sys.executable, "-B", str(LAUNCH), str(self.clock.file), "", "", "moto_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "moto.log").open("wb"),
            text=True,
        )
        self._open.callback(server.wait)
        self._open.callback(server.kill)
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"moto did not start: {(self._folder / 'moto.log').read_text()}")
        return Endpoints(dynamodb=url, s3=url, sqs=url)
