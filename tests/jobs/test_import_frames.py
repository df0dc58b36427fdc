"""The rows of a table come once, whatever order they have, and wherever a task or the driver dies."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.flows.world import DAY, HOUR, START_MS, TOPIC, Crash, CrashingPort, CrashPlan
from tests.folder_objects import FolderLocation
from tests.jobs.test_import import Bench, Ingesting, bench, no_spark
from tests.stored import altered
from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.frames import FrameImport
from tidewheel.jobs.importing.staging import Staged
from tidewheel.jobs.importing.work import Imported, Limits
from tidewheel.jobs.job import Job

__all__ = ["bench"]

COUNT = 100
BODIES = sorted(f"message {i}" for i in range(COUNT))


def table(seed: int, count: int = COUNT, step_s: int = 1) -> pa.Table:
    """The same rows for each seed, in another order."""
    order = random.Random(seed).sample(range(count), count)
    return pa.table(
        {
            "deliver_at": pa.array([START_MS + 2 * HOUR + i * step_s * 1000 for i in order], pa.timestamp("ms", "UTC")),
            "body": [f"message {i}" for i in order],
        }
    )


def task_of(bench: Bench, ports: Any = None, **options: str) -> Job:
    return Job(
        arguments={"topic": TOPIC, "token": "july"} | options,
        service=ports or bench.world.service,
        location=FolderLocation(root=str(bench.folder / "objects")),
        spark=no_spark,
        say=lambda _: None,
    )


def staged(bench: Bench, rows: pa.Table, tasks: int = 3, **options: str) -> tuple[FrameImport, list[Staged]]:
    """What the tasks do. Each writes ledgers of ten rows."""
    made = FrameImport.of(task_of(bench, **options), rows.schema, Limits(rows=10))
    size = -(-rows.num_rows // tasks)
    return made, [made.stage(rows.slice(n * size, size).to_batches(max_chunksize=7)) for n in range(tasks)]


def send(bench: Bench, rows: pa.Table, tasks: int = 3, **options: str) -> Imported:
    made, found = staged(bench, rows, tasks, **options)
    return made.commit(task_of(bench, **options), found)


def mortal(bench: Bench, at: int, when: str) -> Any:
    """The ports of a driver that dies at a call of the buckets."""
    plan = CrashPlan()
    plan.schedule(at, when)
    return altered(bench.world.service, buckets=CrashingPort(bench.world.service.buckets, plan))


def died(bench: Bench, at: int, when: str) -> None:
    """Lets a driver die in its commit."""
    made, found = staged(bench, table(1))
    with pytest.raises(Crash):
        made.commit(task_of(bench, mortal(bench, at, when)), found)


def left(bench: Bench) -> tuple[list[str], list[str]]:
    """What imports keep until they are finished, and ledgers that no bucket names."""
    names = [each.name for each in bench.objects.list("imports/") if each.name.count("/") > 2]
    live = {bucket.object_name for bucket in bench.world.service.buckets.all(TOPIC)}
    return names, sorted(bench.ledger_names() - live)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 13))
def test_a_second_run_sends_what_the_first_did_not(bench: Bench, at: int, when: str) -> None:
    made, found = staged(bench, table(1))
    try:
        made.commit(task_of(bench, mortal(bench, at, when)), found)
    except Crash:
        made.give_up(found)
    again = send(bench, table(2), tasks=5)
    assert again.imported + again.skipped == COUNT
    assert sorted(bench.bodies()) == BODIES
    assert send(bench, table(3)).skipped == COUNT
    assert left(bench) == ([], [])


def test_of_two_runs_at_once_one_decides_what_is_sent(bench: Bench) -> None:
    (one, of_one), (other, of_other) = staged(bench, table(1)), staged(bench, table(2), tasks=4)
    commit = bench.world.service.buckets.commit
    acts = [lambda: other.commit(task_of(bench), of_other)]

    def meanwhile(*args: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return commit(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.world.service.buckets, "commit", meanwhile)
        report = one.commit(task_of(bench), of_one)
    assert report.imported < COUNT
    assert sorted(bench.bodies()) == BODIES


def test_the_ledgers_of_a_task_that_ran_twice_are_not_sent(bench: Bench) -> None:
    staged(bench, table(4))
    send(bench, table(4))
    assert sorted(bench.bodies()) == BODIES


def test_other_rows_with_the_token_are_refused_and_change_nothing(bench: Bench) -> None:
    send(bench, table(1))
    first = table(2)
    swapped = first.set_column(1, "body", first.column("body").take(pa.array([1, 0, *range(2, COUNT)])))
    keyed = first.append_column("key", pa.array(["k"] * COUNT))
    for other in (first.slice(1), first.slice(0, 0), swapped, keyed):
        with pytest.raises(InvalidValue, match=r"in this import .* was .* and is"):
            send(bench, other)
    assert sorted(bench.bodies()) == BODIES
    assert send(bench, table(1), token="august").imported == COUNT


def test_rows_that_cannot_be_sent_are_named_before_anything_is_sent(bench: Bench, tmp_path: Path) -> None:
    rows = table(1).set_column(1, "body", pa.array(["", *["good"] * (COUNT - 1)]))
    made, found = staged(bench, rows)
    with pytest.raises(InvalidValue, match=r"1 rows cannot be sent \(1: body is missing\), and nothing was sent"):
        made.commit(task_of(bench), found)
    made.give_up(found)
    assert bench.bodies() == [] and left(bench) == ([], [])
    report = send(bench, rows, rejects=str(tmp_path / "rejects"))
    assert (report.imported, report.rejected.total()) == (COUNT - 1, 1)
    assert len(bench.rejects(tmp_path / "rejects")) == 1


def test_rejected_rows_are_the_same_set_in_each_run(bench: Bench, tmp_path: Path) -> None:
    rows = table(1).set_column(1, "body", pa.array(["", "", *["good"] * (COUNT - 2)]))
    made, found = staged(bench, rows, rejects=str(tmp_path / "first"))
    with pytest.raises(Crash):
        made.commit(task_of(bench, mortal(bench, 3, "after")), found)
    for _ in range(2):
        again = send(bench, rows, tasks=2, rejects=str(tmp_path / "again"))
        assert again.read == COUNT and again.rejected.total() == 0
        lines = [each.read_text() for each in (tmp_path / "again").glob("*.json")]
        assert len(lines) == 1 and lines[0].count("body is missing") == 2
    assert left(bench) == ([], [])


def test_rows_whose_time_passed_during_the_write_are_sent(bench: Bench) -> None:
    queues = Ingesting(bench)
    made, found = staged(bench, table(1, step_s=60))
    bench.world.clock.advance_ms(2 * HOUR)
    state = bench.world.state
    assert bench.world.service.topic_states.seal(state, (START_MS + 2 * HOUR) // state.slot_ms + 2)
    report = made.commit(task_of(bench), found)
    assert (report.imported, report.sent) == (COUNT, 10)
    assert len(bench.bodies()) == COUNT - 10
    queues.ingest()
    bench.world.run(HOUR * 3)
    assert bench.world.received().total() == len(bench.world.received()) == COUNT
    assert left(bench) == ([], [])


def test_a_second_run_sends_what_has_become_too_soon_meanwhile(bench: Bench) -> None:
    died(bench, 3, "after")
    bench.world.clock.advance_ms(3 * HOUR // 2)
    rejects: dict[str, str] = {"rejects": str(bench.folder / "rejects")}
    assert send(bench, table(2), tasks=2, **rejects).rejected.total() == 0
    assert sorted(bench.bodies()) == BODIES
    assert send(bench, table(3), **rejects).skipped == COUNT
    assert not (bench.folder / "rejects").exists() or not bench.rejects(bench.folder / "rejects")


def test_an_import_that_stopped_so_long_ago_that_its_marks_end_is_refused(bench: Bench) -> None:
    died(bench, 3, "after")
    bench.world.clock.advance_ms(89 * DAY + 1)
    with pytest.raises(InvalidValue, match="stopped too long ago to be finished"):
        send(bench, table(2), tasks=2, rejects=str(bench.folder / "rejects"))


@pytest.mark.parametrize(
    ("tasks_of", "told"), [(lambda rows: rows, True), (lambda rows: rows.sort_by("deliver_at"), False)]
)
def test_a_write_whose_partitions_overlap_in_time_tells_so(bench: Bench, tasks_of: Any, told: bool) -> None:
    said: list[str] = []
    made, found = staged(bench, tasks_of(table(1, step_s=3600)), tasks=5)
    made.commit(replace(task_of(bench), say=said.append), found)
    assert [line for line in said if "repartitionByRange" in line] == ([said[0]] if told else [])


def test_no_rows_are_no_import(bench: Bench) -> None:
    assert send(bench, table(1, 0)).read == 0
    assert send(bench, table(1)).imported == COUNT
