"""Runs NATS JetStream's message schedules, with a header `Nats-Schedule` and a subject for each message.

The server publishes it to `Nats-Schedule-Target` at its time, and deletes it. A consumer acknowledges each message, and
what was not acknowledged comes again after 5 s.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import shutil
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.peers.program import Program, free_port
from benchmarks.peers.server import DelayServer
from benchmarks.peers.stream import Delivery, Timed, number_of
from tidewheel.clock import SystemClock

VERSION = "v2.15.2"
PROGRAMS = Path(__file__).parents[2] / "build" / "peers" / f"nats-{VERSION}"
ACK_WAIT_S = 5
_STREAM, _DUE = "messages", "due.all"
_T = TypeVar("_T")


class NatsSchedules(DelayServer):
    """The server, the publisher and a pull consumer."""

    name = "NATS schedules"
    settings = f"{VERSION}; file storage, one replica, sync_interval: always; a consumed message is deleted"

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing programs."""
        if _program():
            return None
        return f"GOBIN={PROGRAMS.relative_to(Path.cwd())} go install github.com/nats-io/nats-server/v2@{VERSION}"

    def _start(self, *, durable: bool) -> Program:
        program = _program()
        assert program is not None
        self._port = free_port()
        sync = "always" if durable else "2m"
        store = json.dumps(str(self.folder / "data"))
        configuration = self.folder / "nats.conf"
        configuration.write_text(f"jetstream {{ store_dir: {store}, sync_interval: {sync} }}\n", encoding="utf-8")
        command = [program, "-c", str(configuration), "-a", "127.0.0.1", "-p", str(self._port)]
        return Program(command, log=self.folder / "log")

    def _connect(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._arrived: list[Delivery] = []
        self._run(self._open())

    async def _open(self) -> None:
        import nats

        self._client: Any = await nats.connect(
            f"nats://127.0.0.1:{self._port}", allow_reconnect=False, reconnect_time_wait=0.02, error_cb=_quiet
        )
        self._jetstream = self._client.jetstream(timeout=30)
        await self._ask(
            f"STREAM.CREATE.{_STREAM}",
            name=_STREAM,
            subjects=["waiting.*", _DUE],
            storage="file",
            num_replicas=1,
            retention="workqueue",
            allow_msg_schedules=True,
            allow_rollup_hdrs=True,
        )
        consumer = {
            "durable_name": "worker",
            "filter_subject": _DUE,
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * 1_000_000_000,
            "deliver_policy": "all",
            "max_ack_pending": 10_000,
        }
        await self._ask(f"CONSUMER.DURABLE.CREATE.{_STREAM}.worker", stream_name=_STREAM, config=consumer)
        self._consumer = await self._jetstream.pull_subscribe_bind("worker", _STREAM)

    async def _ask(self, what: str, **content: Any) -> dict[str, Any]:
        """Asks JetStream itself, since the client knows no schedules yet."""
        answer = await self._client.request(f"$JS.API.{what}", json.dumps(content).encode(), timeout=30)
        found: dict[str, Any] = json.loads(answer.data)
        if "error" in found:
            raise RuntimeError(f"{what}: {found['error']}")
        return found

    def _disconnect(self) -> None:
        with suppress(Exception):
            self._run(self._client.close())
        self._loop.close()

    def _run(self, what: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(what)

    def send(self, messages: Sequence[Timed]) -> None:
        """Publishes messages one by one, and then waits for all acknowledgements."""
        self._run(self._publish(messages))

    async def _publish(self, messages: Sequence[Timed]) -> None:
        acknowledgements = []
        for each in messages:
            at = dt.datetime.fromtimestamp(each.due_ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            headers = {"Nats-Schedule": f"@at {at}", "Nats-Schedule-Target": _DUE}
            acknowledgements.append(
                await self._jetstream.publish_async(f"waiting.{each.number}", each.body.encode(), headers=headers)
            )
        await asyncio.gather(*acknowledgements)

    def take(self, wait_s: float) -> list[Delivery]:
        """Pulls the due messages."""
        return self._run(self._pull(wait_s))

    async def _pull(self, wait_s: float) -> list[Delivery]:
        import nats.errors

        try:
            found = await self._consumer.fetch(100, timeout=wait_s)
        except (TimeoutError, nats.errors.TimeoutError):
            return []
        clock = SystemClock()
        deliveries = [Delivery(number=number_of(each.data.decode()), at_ms=clock.now_ms()) for each in found]
        for each in found:
            await each.ack()
        return deliveries

    def waiting(self) -> int:
        """Returns the messages of the stream."""
        return int(self._run(self._ask(f"STREAM.INFO.{_STREAM}"))["state"]["messages"])


async def _quiet(_: Exception) -> None:
    """Ignores broken connections, since the server was killed."""


def _program() -> str | None:
    built = PROGRAMS / "nats-server"
    return str(built) if built.is_file() else shutil.which("nats-server")
