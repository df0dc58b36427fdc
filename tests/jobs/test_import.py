"""Bulk import of files into ledgers, with messages delivered like any others."""

from __future__ import annotations

import json
import math
import random
import runpy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.alone import local_engine
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, Crash, CrashingPort, CrashPlan, World
from tests.folder_objects import FolderLocation, FolderObjects
from tests.stored import altered, stored
from tidewheel.errors import InvalidValue, UnknownTopic
from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.recovery.rebuild import rebuild
from tidewheel.jobs.importing import staging
from tidewheel.jobs.importing.driver import import_messages
from tidewheel.jobs.importing.options import parse_options
from tidewheel.jobs.importing.record import Records
from tidewheel.jobs.importing.texts import refused
from tidewheel.jobs.importing.times import read_times
from tidewheel.jobs.importing.work import LIMITS, Imported, Limits
from tidewheel.jobs.job import Job
from tidewheel.ledger.ledger import decode_segment
from tidewheel.model.message import Encoding, id_deliver_at_ms, id_text
from tidewheel.model.pack import Arrival, decode_pack
from tidewheel.storage import table_keys

Row = dict[str, Any]


# --- builders -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A world with objects in a folder, readable by an import's child processes."""

    folder: Path
    world: World
    limits: Limits = LIMITS

    @property
    def objects(self) -> FolderObjects:
        return FolderLocation(root=str(self.folder / "objects")).objects()

    def run(self, path: Path | str, said: list[str] | None = None, **options: str) -> Imported:
        arguments = {"topic": TOPIC, "input": str(path)} | {
            name.replace("_", "-"): value for name, value in options.items()
        }
        job = Job(
            arguments=arguments,
            service=self.world.ports,
            location=FolderLocation(root=str(self.folder / "objects")),
            spark=no_spark,
            say=(said if said is not None else []).append,
        )
        return import_messages(job, limits=self.limits)

    def rows(self) -> list[Row]:
        """All rows of live ledgers, in order."""
        found = []
        for bucket in self.world.service.buckets.all(TOPIC):
            for segment in bucket.segments:
                data = self.objects.get_range(bucket.object_name, segment.offset, segment.length)
                found += decode_segment(data, object_name=bucket.object_name, segment=segment).to_pylist()
        return sorted(found, key=lambda row: row["message_id"])

    def bodies(self) -> list[str]:
        return [row["payload"].decode() for row in self.rows()]

    def ledger_names(self) -> set[str]:
        return {each.name for each in self.objects.list("ledgers/")}

    def rejects(self, path: Path) -> list[Row]:
        """Rejected rows, without their places."""
        found = [json.loads(line) for part in path.glob("*.json") for line in part.read_text().splitlines()]
        places = {"file", "row_group", "row", "line", "byte"}
        plain = [{name: value for name, value in row.items() if name not in places} for row in found]
        return sorted(plain, key=lambda row: str(row.get("n")))


def no_spark() -> Any:
    raise AssertionError("an import needs no Spark")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench with a topic and a subscription."""
    world = World()
    (tmp_path / "objects").mkdir()
    world.service = altered(world.service, objects=FolderLocation(root=str(tmp_path / "objects")).objects())
    world.ports = world.service
    return Bench(folder=tmp_path, world=world)


class DyingAtCommits:
    """Buckets that crash at a commit of a given number."""

    def __init__(self, buckets: Any, plan: CrashPlan) -> None:
        self._buckets, self._commits = buckets, CrashingPort(buckets, plan)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commits if name == "commit" else self._buckets, name)


def die_after_commit(bench: Bench, path: Path, number: int) -> None:
    """Runs an import that dies after its commit of this number."""
    plan = CrashPlan()
    plan.schedule(number, "after")
    bench.world.ports = altered(bench.world.service, buckets=DyingAtCommits(bench.world.service.buckets, plan))
    with pytest.raises(Crash):
        bench.run(path)
    bench.world.ports = bench.world.service


@pytest.fixture
def small(bench: Bench) -> Bench:
    """A bench whose imports write at most ten rows a ledger."""
    return replace(bench, limits=Limits(rows=10))


def due(delay_ms: int) -> str:
    return (datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(milliseconds=delay_ms)).isoformat()


def messages(count: int, first_ms: int = 2 * HOUR, step_ms: int = HOUR) -> list[Row]:
    return [{"deliver_at": due(first_ms + i * step_ms), "body": f"message {i:03d}"} for i in range(count)]


def json_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


# --- formats and mapping --------------------------------------------------------------------------------------


def test_json_lines_are_imported(bench: Bench, children: None) -> None:
    body = {"z": 1, "a": None, "ü": [1.50, "x"]}
    rows = [
        {"when": START_MS // 1000 + 7200, "what": body, "who": "order-1", "about": {"kind": "a", "none": None}},
        {"when": START_MS + 2 * HOUR + 1, "what": {"b": 2}, "until": due(DAY)},
    ]
    path = json_lines(bench.folder / "in.jsonl", rows)
    report = bench.run(path, deliver_at="when", body="what", key="who", attributes="about", expires_at="until")
    assert (report.read, report.imported, report.ledgers, dict(report.rejected)) == (2, 2, 1, {})
    first, second = bench.rows()
    assert json.loads(first["payload"]) == body
    assert list(json.loads(first["payload"])) == ["z", "a", "ü"]
    assert (first["deliver_at_ms"], first["key"], first["attributes"]) == (
        START_MS + 2 * HOUR,
        "order-1",
        [("kind", "a")],
    )
    assert (first["encoding"], first["sent_at_ms"], first["expires_at_ms"]) == (Encoding.JSON, START_MS, None)
    assert (second["deliver_at_ms"], second["key"], second["attributes"], second["expires_at_ms"]) == (
        START_MS + 2 * HOUR + 1,
        None,
        None,
        START_MS + DAY,
    )
    for row in (first, second):
        assert id_deliver_at_ms(row["message_id"]) == row["deliver_at_ms"]
        assert row["message_id"][6] < 0x80


@pytest.mark.parametrize(
    ("values", "encoding", "payload"),
    [
        (pa.array([b"\x00\xff"]), Encoding.BYTES, b"\x00\xff"),
        (pa.array(["text"]), Encoding.TEXT, b"text"),
        (pa.array([{"a": 1, "b": None}]), Encoding.JSON, b'{"a":1,"b":null}'),
        (pa.array([[1, 2]]), Encoding.JSON, b"[1,2]"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), Encoding.JSON, b'{"k":1}'),
    ],
)
def test_parquet_is_imported_with_bodies_of_any_type(
    bench: Bench, values: pa.Array, encoding: Encoding, payload: bytes
) -> None:
    times = pa.array([(START_MS + 2 * HOUR) * 1000 + 1], pa.timestamp("us", "UTC"))
    attributes = pa.array([[("kind", "a")]], pa.map_(pa.string(), pa.string()))
    path = bench.folder / "in.parquet"
    pq.write_table(pa.table({"deliver_at": times, "body": values, "attributes": attributes}), path)
    assert bench.run(path).imported == 1
    [row] = bench.rows()
    assert (row["encoding"], row["payload"], row["attributes"]) == (encoding, payload, [("kind", "a")])
    assert row["deliver_at_ms"] == START_MS + 2 * HOUR + 1  # rounded up: never early


def test_times_are_read_as_they_are_written(bench: Bench) -> None:
    at_s = START_MS // 1000 + DAY // 1000
    texts = [
        str(at_s), f"{at_s}.0005", f"{at_s}000", f"{at_s / 1e9}e9", "2026-01-02T01:00:00+01:00",
        "2026-01-02 01:00+0100", "2026-01-02T01:00:00.0001+01", "2026-01-02t00:00z", "2026-01-02T00:00:00 UTC",
        "2026-01-02T01:00:00", "2026-01-02",
    ]  # fmt: skip
    rows = [{"deliver_at": text, "body": f"{i:02d}"} for i, text in enumerate(texts)]
    path = json_lines(bench.folder / "in.json", rows)
    report = bench.run(path, time_zone="Europe/Berlin")
    found = {row["payload"].decode(): row["deliver_at_ms"] - START_MS - DAY for row in bench.rows()}
    expected = {f"{i:02d}": 0 for i in range(len(texts))} | {"01": 1, "06": 1, "10": -HOUR}
    assert (found, dict(report.rejected)) == (expected, {})


def test_columns_of_local_times_and_dates_are_in_the_given_zone_and_instants_are_not(bench: Bench) -> None:
    at_us = (START_MS + DAY) * 1000
    columns = {
        "local": pa.array([at_us], pa.timestamp("us")),
        "date": pa.array([at_us // (DAY * 1000)], pa.date32()),
        "instant": pa.array([at_us], pa.timestamp("us", "UTC")),
    }
    for name, times in columns.items():
        path = bench.folder / f"{name}.parquet"
        pq.write_table(pa.table({"deliver_at": times, "body": [name]}), path)
        assert bench.run(path, time_zone="Asia/Tokyo").imported == 1
    found = {row["payload"].decode(): row["deliver_at_ms"] - START_MS - DAY for row in bench.rows()}
    assert found == {"local": -9 * HOUR, "date": -9 * HOUR, "instant": 0}
    again = [bench.run(bench.folder / f"{name}.parquet", token=name).imported for name in columns]
    assert again == [0, 0, 1]


# --- rejects --------------------------------------------------------------------------------------------------


def test_every_rejected_row_says_why_and_the_others_are_imported(bench: Bench) -> None:
    good = {"deliver_at": due(2 * HOUR), "body": "fine"}
    ten = {f"a{i}": "x" for i in range(10)}
    bad: list[tuple[str, Row]] = [
        ("deliver_at is missing", {"deliver_at": None}),
        ("deliver_at is missing", {"deliver_at": " "}),
        ("deliver_at is not a time: tomorrow", {"deliver_at": "tomorrow"}),
        ("deliver_at is not a time: 2026-13-01T00:00Z", {"deliver_at": "2026-13-01T00:00Z"}),
        ("deliver_at is not a time: 1e99", {"deliver_at": "1e99"}),
        (
            "deliver_at has no time zone; add one, or give --time-zone: 2026-02-01T00:00",
            {"deliver_at": "2026-02-01T00:00"},
        ),
        (
            f"deliver_at is too soon for an import; send it with the SDK instead: {due(HOUR - 1)}",
            {"deliver_at": due(HOUR - 1)},
        ),
        ("deliver_at is too soon for an import; send it with the SDK instead: 0", {"deliver_at": "0"}),
        ("deliver_at is over ten years ahead: 2036-01-03T00:00Z", {"deliver_at": "2036-01-03T00:00Z"}),
        ("body is missing", {"body": None}),
        ("body is missing", {"body": ""}),
        ("body has characters that SQS refuses; give bytes: a\x00b", {"body": "a\x00b"}),
        ("body is too large", {"body": "x" * 1_048_400}),
        ("attributes is not a JSON object: [1]", {"attributes": "[1]"}),
        ("attributes are over 9: SQS takes ten and one is Tidewheel's: a0, a1", {"attributes": ten}),
        ('attributes has a name that SQS refuses: {"AWS.x":"1"}', {"attributes": {"AWS.x": "1"}}),
        ('attributes has a name that SQS refuses: {"tidewheel":"1"}', {"attributes": {"tidewheel": "1"}}),
        ("attributes has a name twice", {"attributes": '{"a": "1", "a": "2"}'}),
        ('attributes has a value that is empty or that SQS refuses: {"a":""}', {"attributes": {"a": ""}}),
        ("key is over 256 characters, or has control characters: ", {"key": "k" * 257}),
        ("key is over 256 characters, or has control characters: a\tb", {"key": "a\tb"}),
        ("body is too large", {"body": "x" * (1_048_320 - 256), "key": "k" * 256}),
        ("expires_at is not a time: never", {"expires_at": "never"}),
        (f"expires_at is not after its delivery: {due(HOUR)}", {"expires_at": due(HOUR)}),
    ]
    rows: list[Any] = [{**good, **row, "n": f"{i:02d}"} for i, (_, row) in enumerate(bad)]
    path = json_lines(bench.folder / "in.json", [*rows, good, '{"n": "99", broken'])
    said: list[str] = []
    report = bench.run(path, said, rejects=str(bench.folder / "rejects"))
    found = bench.rejects(bench.folder / "rejects")
    malformed = [row for row in found if "n" not in row]
    assert [row["reason"] for row in malformed] == ['the line is malformed: {"n": "99", broken']
    by_number = {int(row["n"]): row for row in found if "n" in row}
    assert sorted(by_number) == list(range(len(bad)))
    for number, (reason, row) in enumerate(bad):
        rejected = by_number[number]
        assert rejected["reason"].startswith(reason), rejected
        assert rejected.get("body") == (good | row)["body"]
    assert (report.read, report.imported) == (len(bad) + 2, 1)
    assert sum(report.rejected.values()) == len(bad) + 1
    assert report.rejected["deliver_at is missing"] == 2
    assert bench.bodies() == ["fine"]
    assert any("deliver_at is not a time" in line for line in said)
    assert not any("1e99" in line for line in said), "a log must not quote what a row holds"


def test_bodies_of_bytes_count_as_base64(bench: Bench) -> None:
    times = pa.array([START_MS + 2 * HOUR] * 2)
    pq.write_table(
        pa.table({"deliver_at": times, "body": [b"x" * 786_240, b"x" * 786_241]}), bench.folder / "in.parquet"
    )
    report = bench.run(bench.folder / "in.parquet")
    [reason] = report.rejected
    assert (report.imported, reason.partition(":")[0]) == (1, "body is too large")


def test_what_is_wrong_with_an_import_is_named(bench: Bench, children: None) -> None:
    path = json_lines(bench.folder / "in.json", messages(1))
    table = bench.folder / "in.csv"
    table.write_text(f"due,body\n{due(2 * HOUR)},x\n")
    with pytest.raises(UnknownTopic, match="nothing"):
        bench.run(path, topic="nothing")
    with pytest.raises(InvalidValue, match=r"--input=.*there are no files"):
        bench.run(bench.folder / "nowhere*")
    with pytest.raises(InvalidValue, match=r"--input=.*nowhere.*there are no files"):
        bench.run(bench.folder / "nowhere")
    with pytest.raises(InvalidValue, match=r"in\.json': no column 'due' \(--deliver-at\).*are: deliver_at, body"):
        bench.run(path, deliver_at="due")
    with pytest.raises(InvalidValue, match=r"in\.json': no column 'who' \(--key\)"):
        bench.run(path, key="who")
    with pytest.raises(InvalidValue, match=r"in\.csv': no column 'deliver_at' \(--deliver-at\); there are: due, body"):
        bench.run(table)
    with pytest.raises(InvalidValue, match=r"--input='': this job needs it"):
        bench.run("")
    other = bench.folder / "in.dat"
    other.write_text("x")
    with pytest.raises(
        InvalidValue, match=r"--format=None: give parquet, csv, json, delta, iceberg: files like in\.dat do not say"
    ):
        bench.run(other)


def test_rejects_that_cannot_be_written_end_an_import_in_one_line_before_it_reads(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.json", messages(3))
    (bench.folder / "file").write_text("in the way")
    with pytest.raises(InvalidValue) as raised:
        bench.run(path, rejects=str(bench.folder / "file" / "rejects"))
    [line] = str(raised.value).splitlines()
    assert line.startswith(f"--rejects={str(bench.folder / 'file' / 'rejects')!r}: ")
    assert line.endswith("; give a folder that this run may write to")
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    assert bench.rows() == [] and not list(bench.objects.list("imports/"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "avro"},
        {"token": "a/b"},
        {"min-lead": "soon"},
        {"time-zone": "Mars/Olympus"},
        {"input-role": "reader"},
    ],
)
def test_an_option_that_is_wrong_is_named(wrong: dict[str, str]) -> None:
    [name] = wrong
    with pytest.raises(InvalidValue, match=f"--{name}="):
        parse_options({"topic": TOPIC, "input": "x", **wrong})


# --- ids, repetition, crashes ---------------------------------------------------------------------------------


def test_identical_rows_are_distinct_messages(bench: Bench) -> None:
    rows = [{"deliver_at": due(2 * HOUR), "body": "same"}] * 25 + messages(5)
    path = json_lines(bench.folder / "in.json", rows)
    assert bench.run(path, token="first").imported == 30
    assert bench.run(path, token="second").imported == 30
    assert len({row["message_id"] for row in bench.rows()}) == 60


def test_a_second_run_adds_nothing_even_if_all_is_merged_or_delivered(small: Bench) -> None:
    path = json_lines(small.folder / "in.json", messages(35))
    first = small.run(path)
    assert (first.imported, first.ledgers, first.skipped) == (35, 4, 0)
    before, names = small.rows(), small.ledger_names()
    second = small.run(path)
    assert (second.read, second.imported, second.ledgers, second.skipped) == (35, 0, 0, 35)
    assert (small.rows(), small.ledger_names()) == (before, names)
    for bucket in small.world.service.buckets.all(TOPIC):
        small.world.service.buckets.delete(TOPIC, bucket.id)
    assert small.run(path).skipped == 35
    assert small.rows() == []


def lose(bench: Bench, *numbers: int) -> None:
    """Removes chunks' buckets and marks from the table, numbered in the order of ledgers."""
    storage = bench.world.service
    marks = sorted(stored(storage).of(TOPIC).imports, key=lambda once: int(once.rpartition("#")[2]))
    buckets = sorted(storage.buckets.all(TOPIC), key=lambda bucket: bucket.first_slot)
    for number in numbers:
        stored(storage).delete((table_keys.topic_partition(TOPIC), f"{table_keys.IMPORTS}{marks[number]}"))
        storage.buckets.delete(TOPIC, buckets[number].id)


@pytest.mark.parametrize("lost", [(0, 1, 2, 3), (0,), (3,), (0, 1, 2)])
def test_what_a_lost_table_had_of_an_import_is_imported_again_and_nothing_else(
    small: Bench, lost: tuple[int, ...]
) -> None:
    path = json_lines(small.folder / "in.json", messages(35))
    assert small.run(path).imported == 35
    everything = small.rows()
    for _ in range(2):
        lose(small, *lost)
        again = small.run(path)
        rows = sum(5 if number == 3 else 10 for number in lost)
        assert (again.imported, again.ledgers, again.skipped) == (rows, len(lost), 35 - rows)
        assert small.rows() == everything, "under the same ids"
    assert small.run(path).skipped == 35


def test_ledgers_that_another_run_commits_meanwhile_are_skipped_and_missed_where_they_are_lost(
    small: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*messages(34), {"deliver_at": due(MINUTE), "body": "soon"}]
    path = json_lines(small.folder / "in.json", rows)

    def other_run() -> None:
        with monkeypatch.context() as dies, pytest.raises(Crash):
            dies.setattr(Records, "finish", lambda *_: (_ for _ in ()).throw(Crash()))
            small.run(path)

    before_commit(small, other_run)
    report = small.run(path)
    assert (report.read, report.imported, report.skipped, report.rejected.total()) == (35, 0, 34, 1)
    lose(small, 0, 1, 2, 3)
    again = small.run(path)
    assert (again.imported, again.skipped) == (34, 1)
    assert small.bodies() == [f"message {i:03d}" for i in range(34)]


def test_rejected_rows_are_settled_whatever_the_table_loses(small: Bench) -> None:
    rows = messages(20)
    rows[:10] = [{"deliver_at": due(MINUTE), "body": "soon"}] * 10
    path = json_lines(small.folder / "in.json", rows)
    assert (small.run(path).imported, small.run(path).skipped) == (10, 20)
    lose(small, 0)
    again = small.run(path)
    assert (again.imported, again.rejected.total(), again.skipped) == (10, 0, 10)
    assert small.run(path).skipped == 20


def test_ledgers_of_a_finished_import_that_the_table_and_s3_have_lost_do_not_come_back(small: Bench) -> None:
    path = json_lines(small.folder / "in.json", messages(35))
    small.run(path)
    lose(small, 0, 1, 2, 3)
    small.objects.delete(small.ledger_names())
    assert (small.run(path).skipped, small.world.service.buckets.all(TOPIC)) == (35, [])


def test_ledgers_that_another_run_committed_before_their_slots_were_sealed_are_not_sent_again(small: Bench) -> None:
    path = json_lines(small.folder / "in.json", messages(35))

    def other_run() -> None:
        small.run(path)
        small.world.service.topic_states.seal(small.world.state, START_MS)

    before_commit(small, other_run)
    report = small.run(path)
    assert (report.imported, report.skipped, report.rejected.total()) == (0, 35, 0)
    assert len(small.ledger_names()) == 4


def test_a_token_is_for_one_input_and_the_error_says_what_differs(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.json", messages(3))
    bench.run(path, token="reminders")
    with pytest.raises(InvalidValue, match=r"--token='reminders': .* --time-zone was '' and is 'UTC'; give"):
        bench.run(path, token="reminders", time_zone="UTC")
    json_lines(path, messages(4))
    with pytest.raises(InvalidValue, match=r"--token='reminders': .* file in\.json was '201 bytes' and is '268 bytes'"):
        bench.run(path, token="reminders")
    json_lines(bench.folder / "in-2.json", messages(3))
    json_lines(path, messages(3))
    with pytest.raises(InvalidValue, match=r"file in-2\.json was 'missing' and is '201 bytes'"):
        bench.run(bench.folder / "in*.json", token="reminders")


def test_files_of_an_import_with_a_token_may_move(bench: Bench) -> None:
    for name in ("a.json", "b.json"):
        json_lines(bench.folder / name, messages(3))
    assert bench.run(bench.folder / "*.json", token="reminders").imported == 6
    moved = bench.folder / "moved"
    moved.mkdir()
    for name in ("a.json", "b.json"):
        (bench.folder / name).rename(moved / name)
    again = bench.run(moved, token="reminders")
    assert (again.imported, again.skipped) == (0, 6)


def before_commit(bench: Bench, act: Callable[[], None]) -> None:
    """Lets something happen just before the first commit."""
    commit = bench.world.service.buckets.commit
    acts = [act]

    def later(*args: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return commit(*args, **options)

    bench.world.service.buckets.commit = later  # type: ignore[method-assign]


class Ingesting:
    """Queues that ingest each forwarded pack when the test says so."""

    def __init__(self, bench: Bench) -> None:
        self._queues, self._packs, self._world = bench.world.service.queues, list[bytes](), bench.world
        bench.world.service = bench.world.ports = altered(bench.world.service, queues=self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queues, name)

    def forward(self, topic: str, messages: int, pack: bytes, *, urgent: bool = False) -> None:
        assert (topic, urgent) == (TOPIC, True)
        self._packs.append(pack)

    def ingest(self) -> None:
        now_ms = self._world.clock.now_ms()
        for number, data in enumerate(self._packs):
            arrival = Arrival(name=str(number), retried=False, taken_ms=now_ms)
            self._world.ingest(replace(decode_pack(data, now_ms), arrival=arrival))


def seal_below(bench: Bench, delay_ms: int) -> None:
    """Lets the time of a dispatch come just before the first commit, and the slots before a time be sealed."""

    def seal() -> None:
        state = bench.world.state
        bench.world.clock.advance_ms(delay_ms - state.settings.lookahead_ms)
        bench.world.service.topic_states.seal(state, (START_MS + delay_ms) // state.slot_ms)

    before_commit(bench, seal)


def test_rows_that_become_due_meanwhile_are_sent_and_the_rest_is_imported(small: Bench) -> None:
    rows = [
        {**row, "n": i, "key": f"k{i}", "group": "g", "attributes": {"a": "1"}, "expires_at": due(9 * DAY)}
        for i, row in enumerate(messages(30, step_ms=20 * MINUTE))
    ]
    path = json_lines(small.folder / "in.json", rows)
    queues = Ingesting(small)
    seal_below(small, 2 * HOUR + 50 * MINUTE)
    said: list[str] = []
    report = small.run(path, said)
    assert (report.imported, report.sent, report.ledgers, dict(report.rejected)) == (30, 3, 3, {})
    assert "30 imported to 3 ledgers, 3 of them sent at once" in said[-1]
    assert small.bodies() == [f"message {i:03d}" for i in range(3, 30)]
    assert len(small.ledger_names()) == 3
    assert small.run(path).skipped == 30
    queues.ingest()
    small.world.run(DAY)
    assert small.world.received().total() == len(small.world.received()) == 30
    assert small.world.service.keys.read(TOPIC, "k0") is None, "an imported key claims nothing"


@pytest.mark.parametrize("when", ["before", "after"])
def test_rows_that_were_sent_by_a_run_that_died_come_again_with_their_ids(small: Bench, when: str) -> None:
    path = json_lines(small.folder / "in.json", messages(10, step_ms=20 * MINUTE))
    queues = Ingesting(small)
    seal_below(small, 2 * HOUR + 50 * MINUTE)
    plan = CrashPlan()
    plan.schedule(2, when)
    small.world.ports = altered(small.world.service, buckets=DyingAtCommits(small.world.service.buckets, plan))
    with pytest.raises(Crash):
        small.run(path)
    small.world.ports = small.world.service
    assert small.run(path).imported == (10 if when == "before" else 0)
    queues.ingest()
    small.world.sweep()  # finds the schedule that is missing
    small.world.run(DAY)
    received = small.world.received()
    assert len(received) == 10 and received.total() == (13 if when == "before" else 10)


def test_imported_messages_are_delivered_once_each_and_in_time(small: Bench, children: None) -> None:
    small.world.send(30 * MINUTE, 5 * HOUR)
    path = json_lines(small.folder / "in.json", messages(40, step_ms=17 * MINUTE))
    assert small.run(path).imported == 40
    ids = [id_text(row["message_id"]) for row in small.rows()]
    small.world.run(DAY)
    assert small.world.received() == Counter(ids)
    small.world.assert_in_time()


def test_the_example_imports_and_receives_on_the_local_stack(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "import_messages.py"))
    example["main"]()
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "2 {'due is missing': 1}",
        "0 3",
        "[{'customer': 'c-1'}, {'customer': 'c-2'}]",
    ]


# --- checks of values -----------------------------------------------------------------------------------------


def test_numbers_become_times_rounded_up_after_a_thousandth() -> None:
    random_ = random.Random(31)
    edges = [0.0, -0.0, 0.5, 1e11, 1e11 - 0.001, 1e11 + 0.5, 1e15, 1e15 - 0.125, -1e15, 1767225600.123, -1.0005]
    spread = [random_.uniform(-1, 1) * 10 ** random_.randrange(17) for _ in range(300)]
    numbers = [*edges, *spread, *(float(round(each)) for each in spread), *(round(each, 3) for each in spread)]

    def expected(number: float) -> int | None:
        ms = number * 1000 if abs(number) < 1e11 else number
        if abs(ms) >= 1e15:
            return None
        down = math.floor(ms)
        up = down + (ms - down >= 0.0005)
        return up if up < 1e15 else None

    found = read_times(pa.array([*numbers, math.inf, math.nan]), None)
    times = [ms if known else None for ms, known in zip(found.ms.tolist(), found.known.tolist(), strict=True)]
    assert times == [*map(expected, numbers), None, None]
    assert found.not_a_time.tolist() == [each is None for each in times]


def test_texts_are_read_as_python_reads_them() -> None:
    random_ = random.Random(41)
    texts = []
    for _ in range(2000):
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=random_.randrange(4_000_000_000))
        zone = random_.choice(["Z", "+01:00", "-0330", "+14", " UTC", "+05:45"])
        fraction = random_.choice(["", ".5", ".123", ".1234567", ".000000001", ".999999999999"])
        texts.append(at.strftime(random_.choice(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])) + fraction + zone)

    def expected(text: str) -> int:
        plain, dot, rest = text.replace(" UTC", "Z").partition(".")
        digits = rest.rstrip("Z").partition("+")[0].partition("-")[0] if dot else "0"
        zone = rest[len(digits) :] if dot else ""
        whole = datetime.fromisoformat(plain + zone)
        return int(whole.timestamp()) * 1000 + math.ceil(Decimal(f"0.{digits}") * 1000)

    assert read_times(pa.array(texts), None).ms.tolist() == [expected(text) for text in texts]


def test_local_times_are_read_in_their_zone_as_python_reads_them() -> None:
    zone = ZoneInfo("Europe/Berlin")
    at = datetime(2026, 1, 1)
    times = [at + timedelta(minutes=17 * n) for n in range(31_000)]
    found = read_times(pa.array(times, pa.timestamp("us")), "Europe/Berlin")
    assert found.ms.tolist() == [round(each.replace(tzinfo=zone).timestamp() * 1000) for each in times]


@pytest.mark.parametrize("text", ["2026-02-30T00:00Z", "2026-02-29 10:00Z", "2026-04-31T00:00Z", "2026-01-01T24:00Z"])
def test_a_day_that_is_not_is_no_time_and_its_neighbours_are_read(text: str) -> None:
    found = read_times(pa.array(["2028-02-29 10:00Z", text, "2026-01-01T00:00Z"]), None)
    assert (found.known.tolist(), found.not_a_time.tolist()) == ([True, False, True], [False, True, False])


def test_a_body_is_refused_for_each_character_that_sqs_refuses_and_for_no_other() -> None:
    random_ = random.Random(37)
    characters = [*range(0x21), 0x7E, 0x7F, 0x9F, 0xD7FF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF]
    texts = [chr(each).encode() for each in characters]
    not_utf_8 = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
    bodies = [*texts, *not_utf_8, b"plain\r\n\ttext", "grün 😀".encode()]
    bodies += [b"".join(random_.choices([*texts, b"a", b"\n"], k=random_.randrange(1, 6))) for _ in range(200)]
    bodies += [b"clean " + each + random_.choice([b"", b"\n", b" end"]) for each in [*texts, *not_utf_8]]

    def is_refused(body: bytes) -> bool:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return True
        return any(each not in "\t\n\r" and (each < " " or each in "\ufffe\uffff") for each in text)

    expected = [is_refused(each) for each in bodies]
    assert refused(pa.array(bodies)).tolist() == expected
    assert refused(pa.array([b"x", *bodies]).slice(1)).tolist() == expected
    for body, wrong in zip(bodies, expected, strict=True):
        assert refused(pa.array([b"before", body, b"\xc3\xa9"])).tolist() == [False, wrong, False], body


def test_a_repeated_import_whose_rows_were_all_late_sends_them_once(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.json", messages(3))
    queues = Ingesting(bench)
    seal_below(bench, DAY)
    found = [bench.run(path) for _ in range(3)]
    assert [(each.imported, each.sent, each.ledgers) for each in found] == [(3, 3, 0), (0, 0, 0), (0, 0, 0)]
    queues.ingest()
    bench.world.run(DAY)
    assert set(bench.world.received().values()) == {1}


def test_a_second_run_at_once_deletes_no_ledger_that_a_merge_put_into_the_trash(small: Bench) -> None:
    world = small.world
    path = json_lines(small.folder / "in.json", messages(35))

    def other_run() -> None:
        assert small.run(path).imported == 35
        world.run(2 * HOUR + 5 * MINUTE)
        merge(world.ports, TOPIC, in_process(world.ports.objects), lease_s=900, everything=True)

    before_commit(small, other_run)
    assert small.run(path).imported == 0
    trash = {name for each in world.service.merges.trash(TOPIC) for name in each.objects}
    assert trash and trash <= set(small.ledger_names())


def test_many_rejects_become_several_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "REJECTS_BYTES", 1000)
    rows = [{"deliver_at": due(MINUTE), "body": f"{number:0100}"} for number in range(50)]
    bench.run(json_lines(bench.folder / "in.json", rows), rejects=str(bench.folder / "rejects"))
    files = list((bench.folder / "rejects").glob("*.json"))
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert len(files) > 5 and sorted(json.loads(line)["body"] for line in lines) == [row["body"] for row in rows]


def test_a_rebuild_leaves_out_what_an_import_wrote_that_stopped_before_its_record(
    small: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.run(json_lines(small.folder / "first.json", messages(12)))
    path = json_lines(small.folder / "in.json", messages(35))
    with monkeypatch.context() as dies, pytest.raises(Crash):
        dies.setattr(Records, "store", lambda *_: (_ for _ in ()).throw(Crash()))
        small.run(path)
    assert len(small.ledger_names()) == 6
    ports = small.world.service
    rebuild(ports, TOPIC, local_engine(ports), lease_s=60, replace_index=True)
    assert len(small.bodies()) == 12
    assert small.run(path).imported == 35
    rebuild(ports, TOPIC, local_engine(ports), lease_s=60, replace_index=True)
    assert sorted(small.bodies()) == sorted(row["body"] for row in [*messages(12), *messages(35)])


def test_a_second_run_tells_where_the_rejects_are_and_that_no_row_was_imported(bench: Bench) -> None:
    path = json_lines(bench.folder / "in.json", [{"deliver_at": due(MINUTE), "body": "soon"}])
    rejects, said = str(bench.folder / "rejects"), list[str]()
    assert bench.run(path, rejects=rejects).all_rejected
    again = bench.run(path, said, rejects=str(bench.folder / "others"))
    assert (again.all_rejected, again.skipped) == (True, 1)
    assert f"the rows that an earlier run rejected are in {rejects}" in said


def test_an_import_that_stopped_is_finished_though_another_has_its_file(small: Bench) -> None:
    path = json_lines(small.folder / "in.json", messages(35))
    die_after_commit(small, path, 2)
    assert small.run(path, token="mine").imported == 35
    assert small.run(path).imported == 15
