"""The rows of a table come once, whatever order they have, and wherever a task or the driver dies."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.flows.world import HOUR, START_MS, TOPIC, Crash, CrashingPort, CrashPlan
from tests.jobs.test_import import Bench, bench, no_spark
from tests.stored import altered
from tidewheel.clock import use
from tidewheel.errors import InvalidValue, NotAllImported
from tidewheel.jobs.importing.driver import Imported
from tidewheel.jobs.importing.frames import FrameImport, Kept
from tidewheel.jobs.importing.work import Limits
from tidewheel.jobs.job import Job
from tidewheel.jobs.location import Location

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
        location=Location(root=str(bench.folder / "objects")),
        spark=no_spark,
        say=lambda _: None,
    )


def kept(bench: Bench, rows: pa.Table, tasks: int = 3, **options: str) -> tuple[FrameImport, list[Kept]]:
    """What the tasks do. Each has chunks of ten rows."""
    made = FrameImport.of(task_of(bench, **options), rows.schema, Limits(rows=10))
    size = -(-rows.num_rows // tasks)
    found = (made.keep(rows.slice(n * size, size).to_batches(max_chunksize=7), n) for n in range(tasks))
    return made, [each for each in found if each is not None]


def send(bench: Bench, rows: pa.Table, tasks: int = 3, **options: str) -> Imported:
    made, found = kept(bench, rows, tasks, **options)
    return made.commit(task_of(bench, **options), found)


def mortal(bench: Bench, at: int, when: str) -> Any:
    """The ports of a driver that dies at a call of the buckets."""
    plan = CrashPlan()
    plan.schedule(at, when)
    return altered(bench.world.service, buckets=CrashingPort(bench.world.service.buckets, plan))


def died(bench: Bench, at: int, when: str) -> list[Kept]:
    """Returns what the tasks of a driver had done that died in its commit."""
    made, found = kept(bench, table(1))
    with pytest.raises(Crash):
        made.commit(task_of(bench, mortal(bench, at, when)), found)
    return found


def files(bench: Bench) -> list[str]:
    return [each.name for each in bench.objects.list("imports/") if each.name.endswith(".parquet")]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 13))
def test_a_second_run_sends_what_the_first_did_not(bench: Bench, at: int, when: str) -> None:
    made, found = kept(bench, table(1))
    try:
        made.commit(task_of(bench, mortal(bench, at, when)), found)
    except Crash:
        made.give_up(found)
    again = send(bench, table(2), tasks=5)
    assert again.imported + again.skipped == COUNT
    assert sorted(bench.bodies()) == BODIES
    assert send(bench, table(3)).skipped == COUNT
    assert files(bench) == []


def test_of_two_runs_at_once_one_decides_what_is_sent(bench: Bench) -> None:
    (one, of_one), (other, of_other) = kept(bench, table(1)), kept(bench, table(2), tasks=4)
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


def test_ledgers_of_tasks_that_are_half_a_day_old_are_written_again_since_the_orphan_sweep_may_have_taken_them(
    bench: Bench,
) -> None:
    later = pc.add(table(1).column("deliver_at"), timedelta(days=1))
    with use(bench.world.clock):
        made, found = kept(bench, table(1).set_column(0, "deliver_at", later))
    bench.world.clock.advance_ms(12 * HOUR)
    bench.objects.delete([each.name for each in bench.objects.list("ledgers/")])
    assert made.commit(task_of(bench), found).imported == COUNT
    assert sorted(bench.bodies()) == BODIES


def test_a_task_that_ran_twice_counts_once(bench: Bench) -> None:
    kept(bench, table(4))
    send(bench, table(4))
    assert sorted(bench.bodies()) == BODIES
    assert files(bench) == []


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
    made, found = kept(bench, rows)
    with pytest.raises(InvalidValue, match=r"1 rows cannot be sent \(1: body is missing\), and nothing was sent"):
        made.commit(task_of(bench), found)
    made.give_up(found)
    assert bench.bodies() == files(bench) == []
    report = send(bench, rows, rejects=str(tmp_path / "rejects"))
    assert (report.imported, report.rejected.total()) == (COUNT - 1, 1)
    assert len(bench.rejects(tmp_path / "rejects")) == 1


def test_rows_whose_time_passed_during_the_write_are_kept_and_named(bench: Bench, tmp_path: Path) -> None:
    made, found = kept(bench, table(1, step_s=60))
    state = bench.world.state
    assert bench.world.service.topic_states.seal(state, (START_MS + 2 * HOUR) // state.slot_ms + 9)
    with pytest.raises(
        InvalidValue,
        match=r"rows cannot be sent \(\d+: became due while it was imported\), and all others were sent. Give a folder",
    ):
        made.commit(task_of(bench), found)
    sent = bench.bodies()
    rejects = tmp_path / "rejects"
    for _ in range(2):
        assert send(bench, table(2, step_s=60), tasks=5, rejects=str(rejects)).imported == 0
        assert 0 < len(bench.rejects(rejects)) < COUNT == len(bench.rejects(rejects)) + len(sent)
        assert sorted([*sent, *(row["body"] for row in bench.rejects(rejects))]) == BODIES
    assert files(bench) == []


def test_a_second_run_sends_what_has_become_too_soon_meanwhile(bench: Bench) -> None:
    died(bench, 3, "after")
    bench.world.clock.advance_ms(3 * HOUR // 2)
    rejects: dict[str, str] = {"rejects": str(bench.folder / "rejects")}
    assert send(bench, table(2), tasks=2, **rejects).rejected.total() == 0
    assert sorted(bench.bodies()) == BODIES
    assert send(bench, table(3), **rejects).skipped == COUNT
    assert not (bench.folder / "rejects").exists() or not bench.rejects(bench.folder / "rejects")


def test_lost_files_of_a_run_that_died_are_named(bench: Bench) -> None:
    found = died(bench, 6, "before")
    bench.objects.delete([found[2].file.name.removeprefix(f"{bench.folder}/objects/")])
    with pytest.raises(NotAllImported, match="it vanished"):
        send(bench, table(2))
    assert len(bench.bodies()) == len(set(bench.bodies())) > 0


def test_no_rows_are_no_import(bench: Bench) -> None:
    assert send(bench, table(1, 0)).read == 0
    assert send(bench, table(1)).imported == COUNT
