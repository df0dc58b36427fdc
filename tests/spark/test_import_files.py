"""An import on Spark has the outcome of one in this process, and ledgers in the order of time."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.world import DAY, START_MS, TOPIC
from tests.folder_objects import FolderLocation
from tests.jobs.test_import import Bench, bench, due, json_lines, messages, no_spark
from tidewheel.errors import TaskFailed
from tidewheel.jobs.importing.driver import import_messages
from tidewheel.jobs.importing.work import LIMITS, Imported, Limits
from tidewheel.jobs.job import Job
from tidewheel.spark import import_files
from tidewheel.spark.import_files import stage_on_spark

__all__ = ["bench"]

pytestmark = pytest.mark.usefixtures("spark")

LATER_MS = START_MS + DAY


def run(bench: Bench, path: Path, said: list[str] | None = None, limits: Limits = LIMITS, **options: str) -> Imported:
    job = Job(
        arguments={"topic": TOPIC, "input": str(path)} | options,
        service=bench.world.ports,
        location=FolderLocation(root=str(bench.folder / "objects")),
        spark=no_spark,
        say=(said if said is not None else []).append,
    )
    return import_messages(job, stage_on_spark, limits)


def odd_parquet(folder: Path) -> None:
    """Rows that Spark's reader would refuse, or turn into others: INT96, nanoseconds, unsigned, UUIDs, JSON, flags."""
    times = pa.array(
        [datetime(2026, 1, 2, tzinfo=UTC), datetime(2611, 3, 4, tzinfo=UTC)] * 5, pa.timestamp("us", "UTC")
    )
    bodies = pa.ExtensionArray.from_storage(pa.json_(), pa.array([json.dumps({"n": n}) for n in range(10)]))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([n] * 16) for n in range(10)], pa.binary(16)))
    pq.write_table(
        pa.table({"deliver_at": times, "body": bodies, "key": ids}),
        folder / "int96.parquet",
        use_deprecated_int96_timestamps=True,
    )
    columns = {
        "deliver_at": pa.array([LATER_MS * 1_000_000 + 1, 2**62], pa.timestamp("ns", "UTC")),
        "body": pa.array(
            [{"u": 2**64 - 1, "n": None}, {"u": 1, "n": "y"}], pa.struct({"u": pa.uint64(), "n": "string"})
        ),
        "key": pa.array([2**64 - 1, 1], pa.uint64()),
        "attributes": pa.array([[("a", "1"), ("b", "2")], None], pa.map_(pa.string(), pa.string())),
    }
    pq.write_table(pa.table(columns), folder / "ns.parquet")
    not_text = pa.array([b"\xff", b"ok"]).view(pa.string())
    pq.write_table(pa.table({"deliver_at": [LATER_MS, LATER_MS], "body": not_text}), folder / "bytes.parquet")


def odd_json(folder: Path) -> None:
    good = json.dumps({"deliver_at": LATER_MS, "body": {"n": 1.50}, "group": "g", "expires_at": LATER_MS + 1})
    lines = [good, good + good, '{"deliver_at": 1}', "{broken", f'{{"deliver_at":{LATER_MS},"body":"\\ud800"}}', good]
    (folder / "odd.json").write_text("\n".join(lines))


def odd_csv(folder: Path) -> None:
    at = due(DAY)
    lines = ["deliver_at,body", f'{at},"quoted"tail', f'{at},"\\N"', f"{at},\\N", f'{at},"a\nb"', f"{at},x,y"]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")


def sent(bench: Bench) -> list[str]:
    names = ("payload", "encoding", "key", "attributes", "expires_at_ms", "deliver_at_ms", "message_group")
    return sorted(repr([row[name] for name in names]) for row in bench.rows())


def lines(folder: Path) -> Counter[str]:
    return Counter(line for each in folder.glob("*.json") for line in each.read_text(errors="replace").splitlines())


@pytest.mark.parametrize(("write", "imported"), [(odd_parquet, 7), (odd_json, 2), (odd_csv, 2)])
def test_odd_files_have_the_outcome_of_an_import_without_spark(
    bench: Bench, write: Callable[[Path], None], imported: int
) -> None:
    folder = bench.folder / "in"
    folder.mkdir()
    write(folder)
    ending, zone = next(folder.iterdir()).suffix, {"time-zone": "UTC"}
    (folder / f"bad{ending}").write_bytes(b"\xff\xfe no such file")
    (folder / f"cut{ending}").write_bytes(next(folder.glob(f"*{ending}")).read_bytes()[:40])
    (folder / f"cut{ending}.gz").write_bytes(b"\x1f\x8b no archive")
    here = bench.run(folder, token="here", rejects=str(bench.folder / "here"), **zone)
    alone = sent(bench)
    there = run(bench, folder, token="there", rejects=str(bench.folder / "there"), **zone)
    assert (here.imported, here.rejected, here.failed) == (there.imported, there.rejected, there.failed)
    assert (here.imported, there.read) == (imported, here.read) and here.failed and here.rejected
    assert sent(bench) == sorted([*alone, *alone])
    assert lines(bench.folder / "here") == lines(bench.folder / "there") != Counter()
    again = run(bench, folder, token="there", rejects=str(bench.folder / "there"), **zone)
    assert (again.imported, again.skipped, again.failed) == (0, there.read, there.failed)


def test_rows_in_no_order_become_ledgers_that_do_not_overlap_in_time(bench: Bench) -> None:
    (bench.folder / "in").mkdir()
    rows = messages(1_200, step_ms=60_000)
    random.Random(3).shuffle(rows)
    for number in range(3):
        json_lines(bench.folder / "in" / f"{number}.json", rows[number::3])
    limits = Limits(rows=400, part_bytes=30_000)
    report = run(bench, bench.folder / "in", limits=limits)
    assert report.imported == 1_200 and 3 <= report.ledgers <= 6
    spans = sorted((each.first_slot, each.last_slot) for each in bench.world.service.buckets.all(TOPIC))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert sorted(bench.bodies()) == sorted(row["body"] for row in rows)


def test_rows_of_one_millisecond_are_written_by_several_tasks(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.json", messages(1_200, step_ms=0))
    report = run(bench, path, limits=Limits(part_bytes=30_000))
    assert report.imported == 1_200 and report.ledgers > 1


def read_once_more(*args: Any) -> Iterator[pa.RecordBatch]:
    """Loses rows, as a second reading of a file that has gone since the first: it has only told how many there were."""
    _, *others = import_files._read(*args)
    yield from others


def test_rows_that_a_repeated_task_lost_end_the_import(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_files, "_read", read_once_more)
    path = json_lines(bench.folder / "in.json", messages(10))
    with pytest.raises(TaskFailed, match="could not be read again"):
        run(bench, path)
    assert not bench.ledger_names() and not bench.world.service.buckets.all(TOPIC)
