"""Polls a PostgreSQL table with an index by time, and deletes due rows with `FOR UPDATE SKIP LOCKED`.

This is the query at the heart of River, Oban, Graphile Worker and procrastinate, without what they add to each job.
One transaction takes up to 100 messages, hands them on and commits; a poller that dies in between loses nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.program import Program, free_port, unprivileged
from benchmarks.peers.server import DelayServer
from benchmarks.peers.stream import Delivery, Timed
from tidewheel.clock import SystemClock

BATCH = 100
_TABLE = "CREATE TABLE IF NOT EXISTS messages (id bigint PRIMARY KEY, due_ms bigint NOT NULL, body text NOT NULL)"
_INDEX = "CREATE INDEX IF NOT EXISTS messages_due ON messages (due_ms)"
_SEND = "INSERT INTO messages SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[])"
_CLAIM = """
DELETE FROM messages WHERE id IN (
    SELECT id FROM messages WHERE due_ms <= %s ORDER BY due_ms LIMIT %s FOR UPDATE SKIP LOCKED
) RETURNING id
"""


class Postgres(DelayServer):
    """The server, the client and the poller."""

    name = "PostgreSQL, polled"
    settings = "fsync and synchronous_commit on; the rest as Debian has it; without pg_wal, which takes up to 1 GB"
    not_data = ("pg_wal",)

    @classmethod
    def missing(cls) -> str | None:
        """Returns the missing programs."""
        return None if _programs() else "apt-get install postgresql"

    def _start(self, *, durable: bool) -> Program:
        programs, data = _programs(), self.folder / "data"
        assert programs is not None
        user = unprivileged(self.folder, "postgres")
        if not (data / "PG_VERSION").exists():
            self._port = free_port()
            data.chmod(0o700)
            subprocess.run(
                [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"],
                check=True,
                stdout=subprocess.DEVNULL,
                user=user,
                cwd=self.folder,
            )
        options = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        options += ["-c", f"synchronous_commit={'on' if durable else 'off'}"]
        # A server that was killed leaves the number of its process, which another process may have by now.
        (data / "postmaster.pid").unlink(missing_ok=True)
        return Program(
            [str(programs / "postgres"), "-D", str(data), "-p", str(self._port), *options],
            log=self.folder / "log",
            user=user,
        )

    def _connect(self) -> None:
        import psycopg

        address = f"host=127.0.0.1 port={self._port} user=postgres dbname=postgres connect_timeout=5"
        self._connection: Any = psycopg.connect(address, autocommit=True)
        self._connection.execute(_TABLE)
        self._connection.execute(_INDEX)

    def _disconnect(self) -> None:
        self._connection.close()

    def send(self, messages: Sequence[Timed]) -> None:
        """Inserts messages by one statement."""
        columns = zip(*((each.number, each.due_ms, each.body) for each in messages), strict=True)
        self._connection.execute(_SEND, [list(column) for column in columns])

    def take(self, wait_s: float) -> list[Delivery]:  # noqa: ARG002
        """Takes the due messages, without a wait."""
        deliveries: list[Delivery] = []
        clock = SystemClock()
        while True:
            with self._connection.transaction():
                found = self._connection.execute(_CLAIM, [clock.now_ms(), BATCH]).fetchall()
                handed_ms = clock.now_ms()
            deliveries += [Delivery(number=number, at_ms=handed_ms) for (number,) in found]
            if len(found) < BATCH:
                return deliveries

    def waiting(self) -> int:
        """Counts the rows."""
        return int(self._connection.execute("SELECT count(*) FROM messages").fetchone()[0])

    def disk_bytes(self) -> int:
        """Writes all pages to their files first."""
        self._connection.execute("CHECKPOINT")
        return super().disk_bytes()


def _programs() -> Path | None:
    """Returns the folder of PostgreSQL's programs, which Debian keeps off the PATH."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if os.access(each / "initdb", os.X_OK)), None)
