"""Imports schedules of EventBridge Scheduler, for `tidewheel import --format eventbridge-schedules`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from glob import escape, glob
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tidewheel.cli.messages import time_of
from tidewheel.cli.output import print_error, print_json, progress_bar
from tidewheel.cli.target import client
from tidewheel.clock import current
from tidewheel.errors import AlreadyExists, InvalidValue, SendFailed
from tidewheel.integrations.eventbridge_schedules import ScheduledMessage, key_of, scheduled_message, schedules_in
from tidewheel.model.duration import at_ms

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel

_BATCH = 1_000
"""Schedules that are sent together."""


def import_schedules(
    ctx: typer.Context, topic: str, files: str, since: str | None, dry_run: bool, as_json: bool
) -> None:
    """Prints what each schedule becomes, and the reason for each that cannot be taken. A dry run calls no AWS."""
    service = None if dry_run else client(ctx)
    now_ms = (service.core.clock if service else current()).now_ms()
    begin = time_of(since, "--from")
    run = _Run(now_ms=now_ms, from_ms=None if begin is None else at_ms("--from", begin))
    found = run.messages(files)
    taken: list[dict[str, Any]] = []
    with progress_bar("importing schedules") as (say, _):
        while batch := list(islice(found, _BATCH)):
            for each, id in run.sent(service, topic, batch) if service else zip(batch, repeat(None)):
                run.taken += 1
                if as_json:
                    taken.append({**each.document(), "id": id})
                else:
                    say(f"{each}" if id is None else f"{each}\t{id}")
    if as_json:
        print_json(taken)
    print_error(f"{run.taken:,} schedules {'can be' if dry_run else 'are'} taken, {run.refused:,} are not")
    if run.failed or (run.refused and not run.taken):
        raise typer.Exit(1)


@dataclass(slots=True, kw_only=True)
class _Run:
    """One run over the files.

    Attributes:
        now_ms, from_ms: as for `scheduled_message`.
        taken, refused: numbers of schedules.
        failed: whether a file could not be read, or a message not be sent.
        keys: keys so far. A second message with the same key would be dropped silently.
    """

    now_ms: int
    from_ms: int | None
    taken: int = 0
    refused: int = 0
    failed: bool = False
    keys: set[str] = field(default_factory=set)

    def messages(self, files: str) -> Iterator[ScheduledMessage]:
        """Yields what the schedules become."""
        for file in _found(files):
            try:
                for number, schedule in enumerate(schedules_in(file.read_text(encoding="utf-8-sig")), start=1):
                    yield from self._message(f"{file}, schedule {number}", schedule)
            except (OSError, ValueError, RecursionError) as error:
                self.failed = True
                print_error(f"{file}: it cannot be read any further: {error}")

    def _message(self, name: str, schedule: Any) -> Iterator[ScheduledMessage]:
        try:
            name = key = key_of(schedule)
            if key in self.keys:
                raise InvalidValue("Name", key, "an earlier schedule of these files has this group and name")
            self.keys.add(key)
            yield scheduled_message(schedule, self.now_ms, self.from_ms)
        except ValueError as error:
            self._refuse(name, error)

    def sent(
        self, service: Tidewheel, topic: str, batch: list[ScheduledMessage]
    ) -> Iterator[tuple[ScheduledMessage, str | None]]:
        """Sends messages, and yields each that was sent: one-time messages with the id."""
        once = [each for each in batch if each.recurring is None]
        receipts: list[Any] = []
        failures: dict[int, Exception] = {}
        try:
            if once:
                receipts = service.send_many(topic, [each.message for each in once])
        except SendFailed as error:
            self.failed, receipts, failures = True, error.receipts, error.failures
        for index, each in enumerate(once):
            if index in failures:
                self._refuse(each.key, failures[index])
            else:
                yield each, receipts[index].id
        for each in batch:
            if each.recurring is not None:
                options = {name: getattr(each.message, name) for name in ("expires_in", "window", "group")}
                try:
                    service.send_recurring(topic, each.key, each.message.body, **each.recurring, **options)
                except AlreadyExists:
                    how = "a recurring message with this key has other times or another body. Cancel it first"
                    self._refuse(each.key, how)
                else:
                    yield each, None

    def _refuse(self, name: str, reason: object) -> None:
        self.refused += 1
        print_error(f"{name}: {reason}")


def _found(files: str) -> Iterator[Path]:
    """Yields the files of a path or a glob. Of folders, all files whose names do not begin with `_` or `.`.

    Raises:
        InvalidValue: there are none.
    """
    names = glob(escape(files)) or sorted(glob(files, recursive=True))  # noqa: PTH207
    if not names:
        raise InvalidValue("FILES", files, "there are no files; give a file, a folder or a glob")
    for name in map(Path, names):
        inside = sorted(name.rglob("*")) if name.is_dir() else [name]
        yield from (file for file in inside if file.is_file() and not file.name.startswith(("_", ".")))
