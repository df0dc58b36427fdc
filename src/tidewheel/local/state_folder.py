"""The files of a state: rows in sqlite, and a marker with the process that uses the folder.

Nobody else may read or write these: the folder has mode 0700, and its files 0600. A folder of another user is refused,
and so is a file that is a link, since its content would go elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO
from urllib.parse import quote

from tidewheel.errors import StateInUse, StateUnusable

FORMAT = 3
MARKER, DATABASE, SESSION = "tidewheel-state", "state.db", "console-session"
_APPLICATION_ID = 0x54574C53
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE kept (kind TEXT, place TEXT, name TEXT, value BLOB, PRIMARY KEY (kind, place, name));
CREATE TABLE stack (name TEXT, starts INTEGER);
PRAGMA journal_mode = WAL;
"""
_WRITE = "INSERT INTO kept VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_OWN = {MARKER, SESSION, "state.new"} | {DATABASE + end for end in ("", "-wal", "-shm", "-journal")}
_NOT_WRITABLE = "What is kept is whole: make room, or let this user write to the folder, and start again"
_KEPT_AS_IT_IS = "Nothing was changed: bring the files back from a copy, or give another folder to start anew"

Row = tuple[str, str, str, bytes]
"""A kind, where the thing is (a table, an S3 bucket, a queue), its name there, and its value."""


class StateFolder:
    """A folder of rows, used by one process at a time.

    Attributes:
        starts: how often a process has begun to write.
    """

    def __init__(self, folder: Path, stack: str) -> None:
        self._folder, self._stack = folder, stack
        self._database = folder / DATABASE
        self._marker = folder / MARKER
        self._lock: int | None = None
        self._db: sqlite3.Connection | None = None
        self.starts = 0

    def open(self) -> None:
        """Locks the folder, makes the database if there is none, and checks it.

        Raises:
            StateInUse: another process uses the folder.
            StateUnusable: a file is damaged, of another version or of another stack.
        """
        with self._told():
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._folder, os.O_RDONLY)
            self._check_files(self._lock)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                process = self._marker.read_text().strip() if self._marker.exists() else ""
                raise StateInUse(str(self._folder), int(process) if process.isdigit() else None) from None
            if not self._marker.exists() and not self._database.exists():
                self._create()
            self._check()
            self._marker.unlink(missing_ok=True)
            with _new_file(self._marker) as file:
                file.write(b"%d\n" % os.getpid())

    def rows(self) -> Iterator[Row]:
        """Yields the rows, queues first, and then the oldest first.

        Raises:
            StateUnusable: the database is damaged.
        """
        with self._told(), self._reading() as db:
            yield from db.execute("SELECT kind, place, name, value FROM kept ORDER BY kind <> 'queue', rowid")

    def begin(self) -> None:
        """Lets commits begin.

        Raises:
            StateUnusable: the folder cannot be written.
        """
        with self._told():
            db = self._db = sqlite3.connect(self._database, isolation_level=None, check_same_thread=False)
            # One process uses the file, so sqlite needs no shared memory.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("UPDATE stack SET starts = starts + 1")
            [self.starts] = db.execute("SELECT starts FROM stack").fetchone()

    def commit(self, rows: Iterable[tuple[str, str, str, bytes | None]]) -> None:
        """Writes rows and deletes those without a value, all or nothing. With a queue go its messages.

        Raises:
            sqlite3.Error: the database cannot be written.
        """
        assert self._db is not None  # begun
        self._db.execute("BEGIN")
        for kind, place, name, value in rows:
            if value is not None:
                self._db.execute(_WRITE, (kind, place, name, value))
                continue
            self._db.execute("DELETE FROM kept WHERE kind = ? AND place = ? AND name = ?", (kind, place, name))
            if kind == "queue":
                self._db.execute("DELETE FROM kept WHERE kind = 'message' AND place = ?", (place,))
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Writes everything into the database, and lets another process use the folder. Harmless when called twice."""
        if self._db is not None:
            with self._told():
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._db.close()
            self._db = None
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def _create(self) -> None:
        new = self._database.with_suffix(".new")
        new.unlink(missing_ok=True)
        _new_file(new).close()  # sqlite gives its other files the same mode
        with closing(sqlite3.connect(new)) as db:
            db.executescript(_SCHEMA)
            with db:
                db.execute("INSERT INTO stack VALUES (?, 0)", (self._stack,))
        new.rename(self._database)

    def _check_files(self, folder: int) -> None:
        """Refuses a folder of another user or program. Takes the state from all others of this machine."""
        advice = "Give a folder of your own, which is empty or not there yet"
        if (owner := os.fstat(folder).st_uid) != os.geteuid():
            raise self._unusable(f"belongs to the user {owner}", advice, None)
        names = {each.name for each in self._folder.iterdir()}
        if foreign := sorted(names - _OWN) if names.isdisjoint({MARKER, DATABASE}) else []:
            raise self._unusable(f"would be beside other files, such as {foreign[0]!r}", advice, None)
        for name in names & _OWN:
            if not S_ISREG(os.lstat(self._folder / name).st_mode):
                raise self._unusable("is not a file", "Remove it, and start again", name)
            (self._folder / name).chmod(0o600)
        os.fchmod(folder, 0o700)

    def _check(self) -> None:
        if not self._database.exists():
            raise self._unusable("is missing")
        with self._reading() as db:
            [[application], [version]] = (
                db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if application != _APPLICATION_ID:
                raise self._unusable("is not Tidewheel's")
            if version != FORMAT:
                what = f"is of another version of Tidewheel: it has format {version}, and this version reads {FORMAT}"
                raise self._unusable(what, "Use that version, or give another folder")
            [found] = db.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise self._unusable(f"is damaged ({found})")
            [stack] = db.execute("SELECT name FROM stack").fetchone()
        if stack != self._stack:
            advice = "Give this stack's name, or another folder"
            raise self._unusable(f"is of the stack {stack!r}, not {self._stack!r}", advice)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Opens the database so that no file changes, whatever is found."""
        log = Path(f"{self._database}-wal")
        had_log = log.exists()
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self._database.absolute()))}?mode=ro", uri=True)) as db:
                yield db
        finally:
            Path(f"{self._database}-shm").unlink(missing_ok=True)
            if not had_log:
                log.unlink(missing_ok=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raises the errors of files and sqlite as errors that name the folder."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            raise self._unusable(f"cannot be used: {error}", _KEPT_AS_IT_IS if damaged else _NOT_WRITABLE) from error

    def _unusable(self, what: str, advice: str = _KEPT_AS_IT_IS, file: str | None = DATABASE) -> StateUnusable:
        return StateUnusable(str(self._folder), file, what, advice)


def session_in(folder: Path) -> str:
    """Returns the secret of browsers in which the console is open. The first call in a folder makes it."""
    with suppress(FileExistsError), _new_file(folder / SESSION) as file:
        file.write(secrets.token_urlsafe(24).encode())
    return (folder / SESSION).read_text()


def _new_file(path: Path) -> BinaryIO:
    """Creates a file that only its owner reads. Raises FileExistsError if there is one, or a link."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")
