"""Runs RabbitMQ with time-to-live and dead-letter exchanges, in two ways.

A queue's messages expire at its head only. So a message behind one that waits longer comes too late: `OneQueue`, a
queue whose messages each have an expiration, shows by how much.

The usual way round is a queue for each delay. `DelayLevels` has a queue for 1 s, 2 s, 4 s and so on to 2^20 s, in which
all messages wait equally long. A message passes those whose delays add up to its own: the routing key holds the bits,
and each queue's dead-letter exchange is the next level's. NServiceBus delays messages on RabbitMQ in this way.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.peers.program import Program, free_port
from benchmarks.peers.server import DelayServer
from benchmarks.peers.stream import Delivery, Timed, number_of
from tidewheel.clock import SystemClock

LEVELS = 21
"""The longest delay is 2^21 - 1 s, 24 days."""
_DEBIAN = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_DUE = "due"
_PERSISTENT = 2


class _RabbitMq(DelayServer):
    settings = "durable classic queues, lazy where messages wait; persistent messages, confirms, acknowledgements"

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing programs."""
        return None if _program() and shutil.which("epmd") else "apt-get install rabbitmq-server"

    def _start(self, *, durable: bool) -> Program:  # noqa: ARG002
        program = _program()
        assert program is not None
        self._port = free_port()
        plugins, configuration = self.folder / "enabled_plugins", self.folder / "rabbitmq.conf"
        plugins.write_text("[].\n", encoding="ascii")
        # Its alarm stops publishers while little disk is free.
        configuration.write_text("disk_free_limit.absolute = 50MB\n", encoding="ascii")
        names = str(free_port())
        environment = {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": names,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "tidewheel@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        }
        # Erlang would start its name server as a daemon that outlives it.
        self._names = Program(["epmd", "-port", names], log=self.folder / "epmd", environment=environment)
        try:
            return Program([program], log=self.folder / "log", environment=environment)
        except BaseException:
            self._names.kill()
            raise

    def _connect(self) -> None:
        import amqp

        self._connection: Any = amqp.Connection(f"127.0.0.1:{self._port}", connect_timeout=5)
        self._connection.connect()
        self._channel: Any = self._connection.channel()
        self._open: set[int] = set()
        self._published = 0
        self._arrived: list[Delivery] = []
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._confirmed)
        self._channel.queue_declare(_DUE, durable=True, auto_delete=False)
        self._declare()
        self._channel.basic_qos(0, 1000, False)
        self._channel.basic_consume(_DUE, callback=self._take)

    def _declare(self) -> None:
        """Makes the queues in which messages wait."""
        raise NotImplementedError

    def _publish(self, message: Timed, delay_ms: int) -> None:
        """Publishes a message."""
        raise NotImplementedError

    def _queues(self) -> list[str]:
        """Returns the queues in which messages wait."""
        raise NotImplementedError

    def _disconnect(self) -> None:
        with suppress(OSError, AttributeError):
            self._connection.collect()

    def kill(self) -> None:
        """Kills the server, and ends its name server."""
        super().kill()
        self._names.kill()

    def stop(self) -> None:
        """Ends both."""
        super().stop()
        self._names.kill()

    def __exit__(self, *caught: object) -> None:
        if hasattr(self, "_names"):
            self._names.kill()
        super().__exit__(*caught)

    def send(self, messages: Sequence[Timed]) -> None:
        """Publishes messages one after the other, and then waits for all confirms."""
        for each in messages:
            self._published += 1
            self._open.add(self._published)
            self._publish(each, each.due_ms - SystemClock().now_ms())
        while self._open:
            self._connection.drain_events(timeout=60)

    def _confirmed(self, delivery_tag: int, multiple: bool) -> None:
        self._open -= {each for each in self._open if each <= delivery_tag} if multiple else {delivery_tag}

    def take(self, wait_s: float) -> list[Delivery]:
        """Handles the messages that the server has pushed."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                self._connection.drain_events(timeout=max(0.001, deadline - time.monotonic()))
            except TimeoutError:
                break
        arrived, self._arrived = self._arrived, []
        return arrived

    def _take(self, message: Any) -> None:
        body = message.body.decode() if isinstance(message.body, bytes) else message.body
        self._arrived.append(Delivery(number=number_of(body), at_ms=SystemClock().now_ms()))
        message.channel.basic_ack(message.delivery_tag)

    def waiting(self) -> int:
        """Asks each queue."""
        return sum(self._channel.queue_declare(name, passive=True).message_count for name in (*self._queues(), _DUE))

    def _message(self, message: Timed, **properties: Any) -> Any:
        import amqp

        return amqp.Message(message.body, delivery_mode=_PERSISTENT, **properties)


class DelayLevels(_RabbitMq):
    """A queue for each power of two."""

    name = "RabbitMQ, delay levels"

    def _declare(self) -> None:
        channel = self._channel
        for level in range(LEVELS):
            channel.exchange_declare(_level(level), "topic", durable=True, auto_delete=False)
        channel.exchange_declare(_DUE, "fanout", durable=True, auto_delete=False)
        channel.queue_bind(_DUE, _DUE)
        for level in range(LEVELS):
            after = _level(level - 1) if level else _DUE
            waits = {"x-message-ttl": 1000 << level, "x-dead-letter-exchange": after, "x-queue-mode": "lazy"}
            channel.queue_declare(_level(level), durable=True, auto_delete=False, arguments=waits)
            before = "*." * (LEVELS - 1 - level)
            channel.queue_bind(_level(level), _level(level), f"{before}1.#")
            channel.exchange_bind(after, _level(level), f"{before}0.#")

    def _publish(self, message: Timed, delay_ms: int) -> None:
        seconds = max(0, ceil(delay_ms / 1000))
        bits = ".".join(f"{seconds:0{LEVELS}b}")
        self._channel.basic_publish(self._message(message), exchange=_level(LEVELS - 1), routing_key=f"{bits}.due")

    def _queues(self) -> list[str]:
        return [_level(level) for level in range(LEVELS)]


class OneQueue(_RabbitMq):
    """One queue, and an expiration for each message."""

    name = "RabbitMQ, one queue"

    def _declare(self) -> None:
        after = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": _DUE, "x-queue-mode": "lazy"}
        self._channel.queue_declare("waiting", durable=True, auto_delete=False, arguments=after)

    def _publish(self, message: Timed, delay_ms: int) -> None:
        waits = self._message(message, expiration=str(max(0, delay_ms)))
        self._channel.basic_publish(waits, exchange="", routing_key="waiting")

    def _queues(self) -> list[str]:
        return ["waiting"]


def _level(level: int) -> str:
    return f"delay-{level:02d}"


def _program() -> str | None:
    """Returns the server itself. Debian's command on the PATH changes the user first."""
    return str(_DEBIAN) if os.access(_DEBIAN, os.X_OK) else shutil.which("rabbitmq-server")
