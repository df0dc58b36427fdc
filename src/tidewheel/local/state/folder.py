"""Keeps rows in a folder.

| file | |
|---|---|
| state.db, state.db-wal | sqlite: a row for each thing that is kept |
| tidewheel-state | the marker: the stack's name, the process, and the number of commits |

Each commit is one transaction, with the number of commits in it. The marker has this number too, written after the
commit and before the answer. So a log that lost its end, or a database that was emptied or replaced, is behind its
marker. A number ahead of the marker is normal: the process was killed between the two writes.

A commit is in the kernel's hands when it returns, so a killed process loses nothing. sqlite syncs the disk only at
checkpoints. When the machine stops (the boot id differs), the last commits may be lost, but never a part of one.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

from tidewheel.errors import StateInUse, StateUnusable

FORMAT = 1
MARKER, DATABASE = "tidewheel-state", "state.db"

_APPLICATION_ID = 0x54574C53
_PART_BYTES = 256 * 1024 * 1024
"""Larger values are in several rows. sqlite's limit is 1 GB."""
_MARKER = re.compile(
    rb"tidewheel state, format (?P<format>\d{4})\n"
    rb"process (?P<process>\d{10}) boot (?P<boot>[\w -]{36}) commits (?P<commits>\d{20}) stack (?P<stack>[\w-]+)\n"
)
_TOLD_FORMAT = re.compile(rb"tidewheel state, format (\d{4})\n")
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE kept (kind TEXT, key TEXT, part INTEGER, value BLOB, crc INTEGER, PRIMARY KEY (kind, key, part));
CREATE TABLE progress (commits INTEGER, starts INTEGER);
INSERT INTO progress VALUES (0, 0);
PRAGMA journal_mode = WAL;
"""
_WRITE = """
INSERT INTO kept VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value, crc = excluded.crc
"""
_NOT_WRITABLE = "What is kept is whole: make room, or let this user write to the folder, and start again"
_KEPT_AS_IT_IS = "Nothing was changed: bring the files back from a copy, or give another folder to start anew"

Row = tuple[str, str, bytes]
"""A kind, a key as a list in JSON, and a value."""


class StateFolder:
    """A folder of rows, used by one process at a time.

    Attributes:
        starts: how often the folder was begun, this time included.
        lost: commits that were lost when the machine stopped.
    """

    def __init__(self, folder: Path, stack: str) -> None:
        self._folder = folder
        self._stack = stack
        self._marker = folder / MARKER
        self._database = folder / DATABASE
        self._lock: int | None = None
        self._commits = 0
        self._commits_at = 0
        self._mark_file: int | None = None
        self._db: sqlite3.Connection | None = None
        self.starts = 0
        self.lost = 0

    def open(self) -> None:
        """Locks the folder, makes what is not there, and checks all of it.

        Raises:
            StateInUse: another process uses the folder.
            StateUnusable: the folder cannot be used. No file was changed.
        """
        with self._told():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._folder, os.O_RDONLY)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found = _MARKER.match(self._marker.read_bytes()) if self._marker.exists() else None
                raise StateInUse(str(self._folder), int(found["process"]) if found else None) from None
            if not self._marker.exists():
                if not self._database.exists():
                    self._create()
                self._check(None)
                self._write_marker(0)
            self._check(self._marker.read_bytes())

    def rows(self, kinds: Sequence[str]) -> Iterator[Row]:
        """Yields the rows of some kinds, oldest first.

        Raises:
            StateUnusable: a row is damaged.
        """
        wanted = ",".join("?" * len(kinds))
        with self._told(), self._reading() as db:
            # Not by the index, whose copies of keys have no checksums.
            found = db.execute(
                f"SELECT kind, key, value FROM kept NOT INDEXED WHERE kind IN ({wanted}) ORDER BY rowid", kinds
            )
            for (kind, key), parts in groupby(found, itemgetter(0, 1)):
                yield kind, key, b"".join(part[2] for part in parts)

    def begin(self) -> None:
        """Lets commits begin.

        Raises:
            StateUnusable: the folder cannot be written.
        """
        with self._told():
            db = self._db = sqlite3.connect(self._database, isolation_level=None, check_same_thread=False)
            # One process uses the file, so sqlite needs no shared memory.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("UPDATE progress SET starts = starts + 1")
            self._commits, self.starts = db.execute("SELECT commits, starts FROM progress").fetchone()
            self._write_marker(os.getpid())
            self._mark_file = os.open(self._marker, os.O_RDWR)

    def commit(self, changes: Iterable[tuple[str, str, bytes | None]], gone: Iterable[tuple[str, str]] = ()) -> None:
        """Writes rows and deletes rows, all or nothing.

        Args:
            changes: kinds, keys and values. A value of None deletes a row.
            gone: kinds, and keys. All rows of the kind are deleted whose keys begin with these parts.

        Raises:
            Exception: nothing was written. No later commit may be tried.
        """
        assert self._db is not None and self._mark_file is not None  # begun
        db, self._commits = self._db, self._commits + 1
        written: list[tuple[str, str, int, bytes, int]] = []
        left: list[tuple[str, str, int]] = []
        for kind, key, value in changes:
            pieces = [] if value is None else [value[at : at + _PART_BYTES] for at in range(0, len(value), _PART_BYTES)]
            written += [(kind, key, part, piece, _crc(kind, key, part, piece)) for part, piece in enumerate(pieces)]
            left.append((kind, key, 1 if len(pieces) == 1 else 0))  # so that all parts follow each other
        db.execute("BEGIN")
        db.executemany("DELETE FROM kept WHERE kind = ? AND key = ? AND part >= ?", left)
        db.executemany(_WRITE, written)
        # A key is a list in JSON: without the bracket at its end, it begins the keys of what belongs to it.
        within = [(kind, f"{key[:-1]}, ", f"{key[:-1]}, #") for kind, key in gone]
        db.executemany("DELETE FROM kept WHERE kind = ? AND key BETWEEN ? AND ?", within)
        db.execute("UPDATE progress SET commits = ?", (self._commits,))
        db.execute("COMMIT")
        os.pwrite(self._mark_file, b"%020d" % self._commits, self._commits_at)

    def close(self) -> None:
        """Writes everything into the database, and lets another process use the folder. Harmless when called twice."""
        if self._db is not None:
            with self._told():
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._db.close()
                self._write_marker(0)
            self._db = None
        for each in (self._mark_file, self._lock):
            if each is not None:
                os.close(each)
        self._mark_file = self._lock = None

    # ---- checks
    def _check(self, marker: bytes | None) -> None:
        """Checks marker and database. Without a marker, only a database without commits is right."""
        at_least, boot = 0, ""
        if marker is not None:
            told = _TOLD_FORMAT.match(marker)
            if told is not None and int(told[1]) > FORMAT:
                raise self._newer(MARKER)
            mark = _MARKER.fullmatch(marker)
            if mark is None:
                raise self._unusable(MARKER, "is damaged")
            if mark["stack"].decode() != self._stack:
                advice = "Give this stack's name, or another folder"
                raise self._unusable(MARKER, f"is of the stack {mark['stack'].decode()!r}, not {self._stack!r}", advice)
            at_least, boot = int(mark["commits"]), mark["boot"].decode()
        if not self._database.exists() or not self._database.stat().st_size:
            raise self._unusable(DATABASE, "is missing" if not self._database.exists() else "is empty")
        with self._reading() as db:
            [[application], [version]] = (
                db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if application != _APPLICATION_ID:
                raise self._unusable(DATABASE, "is not Tidewheel's")
            if version > FORMAT:
                raise self._newer(DATABASE)
            self._check_rows(db)
            [commits] = db.execute("SELECT commits FROM progress").fetchone()
        if marker is None and commits:
            raise self._unusable(MARKER, f"is missing, but {DATABASE} has {commits} commits")
        self._commits, self.lost = commits, max(0, at_least - commits)
        if self.lost and boot == _boot():
            what = f"lacks the last {self.lost} of {at_least} commits. A file is damaged, missing or of an older copy"
            raise self._unusable(f"{DATABASE} with {DATABASE}-wal", what)

    def _check_rows(self, db: sqlite3.Connection) -> None:
        [found] = db.execute("PRAGMA integrity_check(1)").fetchone()  # the index too
        if found != "ok":
            raise self._unusable(DATABASE, f"is damaged ({found})")
        read = 0
        for kind, key, part, value, crc in db.execute("SELECT * FROM kept NOT INDEXED"):
            read += 1
            if _crc(kind, key, part, value) != crc:
                raise self._unusable(DATABASE, f"is damaged: the {kind} {key} has another checksum")
        [indexed] = db.execute("SELECT count(*) FROM kept").fetchone()
        if read != indexed:
            raise self._unusable(DATABASE, f"is damaged: it has {read} rows, and {indexed} in its index")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Opens the database so that no file changes, whatever is found."""
        log = Path(f"{self._database}-wal")
        had_log = log.exists()
        try:
            address = f"file:{quote(str(self._database.absolute()))}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as db:
                yield db
        finally:
            Path(f"{self._database}-shm").unlink(missing_ok=True)
            if not had_log:
                log.unlink(missing_ok=True)

    # ---- making
    def _create(self) -> None:
        new = self._database.with_suffix(".new")
        new.unlink(missing_ok=True)
        with closing(sqlite3.connect(new)) as db:
            db.executescript(_SCHEMA)
        new.rename(self._database)

    def _write_marker(self, process: int) -> None:
        head = b"tidewheel state, format %04d\nprocess %010d boot %-36b commits " % (FORMAT, process, _boot().encode())
        self._commits_at = len(head)
        new = self._marker.with_suffix(".new")
        with new.open("wb") as file:
            file.write(head + b"%020d stack %b\n" % (self._commits, self._stack.encode()))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._marker)

    # ---- errors
    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raises the errors of files and sqlite as errors that name the folder."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            file = DATABASE if isinstance(error, sqlite3.Error) else None
            advice = _KEPT_AS_IT_IS if damaged else _NOT_WRITABLE
            raise self._unusable(file, f"cannot be used: {error}", advice) from error

    def _unusable(self, file: str | None, what: str, advice: str = _KEPT_AS_IT_IS) -> StateUnusable:
        return StateUnusable(str(self._folder), file, what, advice)

    def _newer(self, file: str) -> StateUnusable:
        return self._unusable(file, "is of a newer version of Tidewheel", "Use that version, or give another folder")


def _crc(kind: str, key: str, part: int, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(f"{kind}\n{key}\n{part}\n".encode()))


def _boot() -> str:
    """Returns what differs after the machine was started again, or a blank if the system does not tell."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
