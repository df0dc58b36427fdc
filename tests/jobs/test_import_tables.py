"""Imports of Delta and Iceberg tables read the current snapshot, or are refused with advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.flows.world import HOUR, START_MS, TOPIC
from tests.jobs.test_import import Bench, bench
from tests.slow_endpoint import SlowEndpoint
from tidewheel.errors import ExtraMissing, InvalidValue
from tidewheel.jobs.importing import tables
from tidewheel.local import LocalTidewheel
from tidewheel.local.job_runs import run_job

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

__all__ = ["bench"]


def rows(*bodies: str) -> pa.Table:
    return pa.table({"deliver_at": [START_MS + 3 * HOUR + i for i in range(len(bodies))], "body": list(bodies)})


def delta(folder: Path) -> Path:
    """A table of which two versions were deleted, and are in the folder still."""
    deltalake.write_deltalake(folder, rows("old"))
    deltalake.write_deltalake(folder, rows("new 1", "new 2"), mode="overwrite")
    deltalake.write_deltalake(folder, rows("new 3"), mode="append")
    return folder


def protocol(folder: Path, **fields: Any) -> None:
    """Adds a version of the table with another protocol."""
    number = len(list((folder / "_delta_log").glob("*.json")))
    (folder / "_delta_log" / f"{number:020d}.json").write_text(json.dumps({"protocol": fields}) + "\n")


def iceberg(folder: Path) -> Any:
    """A catalog's table with two snapshots, of which the first was overwritten."""
    from pyiceberg.catalog import load_catalog

    folder.mkdir()
    catalog = load_catalog("c", type="in-memory", warehouse=folder.as_uri())
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", rows("x").schema)
    made.append(rows("old"))
    made.overwrite(rows("new 1", "new 2"))
    return made


def test_the_current_version_of_a_delta_table_is_imported_and_no_deleted_file(bench: Bench) -> None:
    path = delta(bench.folder / "table")
    report = bench.run(path, format="delta")
    assert (report.imported, report.failed) == (3, {})
    assert sorted(bench.bodies()) == ["new 1", "new 2", "new 3"]
    assert bench.run(path, format="delta").skipped == 3


def test_a_delta_table_is_not_taken_for_a_folder_of_files(bench: Bench) -> None:
    with pytest.raises(InvalidValue, match="it is a Delta table; give --format delta"):
        bench.run(delta(bench.folder / "table"))


def test_the_current_snapshot_of_an_iceberg_table_is_imported(bench: Bench) -> None:
    made = iceberg(bench.folder / "table")
    report = bench.run(made.metadata_location, format="iceberg")
    assert (report.imported, report.failed) == (2, {})
    assert sorted(bench.bodies()) == ["new 1", "new 2"]


VECTORS = ["deletionVectors"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": VECTORS, "writerFeatures": VECTORS},
            "needs reader version 3 with deletionVectors; write its rows as Parquet files",
        ),
        ({"minReaderVersion": 99, "minWriterVersion": 99}, "version.* 99"),
    ],
)
def test_a_delta_table_of_a_newer_protocol_is_refused_by_its_version(
    fields: dict[str, Any], problem: str, bench: Bench
) -> None:
    path = delta(bench.folder / "table")
    protocol(path, **fields)
    with pytest.raises(InvalidValue, match=problem) as raised:
        bench.run(path, format="delta")
    assert str(path) in str(raised.value)
    assert bench.ledger_names() == set()


def test_a_column_that_is_a_partition_s_is_named(bench: Bench) -> None:
    path = bench.folder / "table"
    deltalake.write_deltalake(path, rows("a", "b"), partition_by=["body"])
    with pytest.raises(InvalidValue, match="column 'body' is a partition's and is not in the files"):
        bench.run(path, format="delta")


def test_an_iceberg_table_of_a_newer_format_is_refused(bench: Bench) -> None:
    made = iceberg(bench.folder / "table")
    path = Path(made.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text()) | {"format-version": 9}
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidValue, match=r"no iceberg table can be read there: .*9"):
        bench.run(str(path), format="iceberg")


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_folder_without_a_table_is_named(format_: str, bench: Bench) -> None:
    (bench.folder / "empty").mkdir()
    with pytest.raises(InvalidValue, match=f"no {format_} table can be read there"):
        bench.run(bench.folder / "empty", format=format_)


def test_without_the_package_the_extra_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=r"tidewheel\[tables\]"):
        bench.run(bench.folder, format="delta")


@pytest.mark.parametrize("format_", ["json", "delta"])
def test_input_of_another_s3_bucket_is_read_as_the_role_that_is_named_and_nothing_else(
    format_: str, tmp_path: Path
) -> None:
    with LocalTidewheel(clock="real") as stack:
        stack.client().create_topic(TOPIC)
        s3 = stack.session.client("s3")
        s3.create_bucket(Bucket="lake")
        table = pa.table({"deliver_at": [stack.clock.now_ms() + 5 * HOUR], "body": ["of others"]})
        deltalake.write_deltalake(tmp_path / "t", table)
        (tmp_path / "t" / "rows.json").write_text(json.dumps(table.to_pylist()[0]))
        for path in (tmp_path / "t").rglob("*"):
            if path.is_file():
                s3.upload_file(str(path), "lake", str(path.relative_to(tmp_path)))
        url = "s3://lake/t" if format_ == "delta" else "s3://lake/t/rows.json"
        role = "arn:aws:iam::123456789012:role/reader"
        arguments = {"topic": TOPIC, "input": url, "format": format_, "input-role": role}
        with SlowEndpoint(stack.endpoint_url) as endpoint:
            report = run_job(
                "import_messages", arguments, stack_name=stack.stack_name, clock=stack.clock, endpoint_url=endpoint.url
            )
        assert (report.imported, report.failed) == (1, {})
        keys = {each.access_key for each in endpoint.asked if each.path.startswith("/lake")}
        others = {each.access_key for each in endpoint.asked if not each.path.startswith("/lake")}
        assert len(keys) >= 1 and not keys & others and others == {"local"}, (keys, others)
        assert sum(b"Action=AssumeRole" in each.body for each in endpoint.asked) >= 1


def test_tables_in_s3_are_read_at_the_endpoint_of_the_stack(tmp_path: Path) -> None:
    with LocalTidewheel() as stack:
        client = stack.client()
        client.create_topic(TOPIC)
        s3 = stack.session.client("s3")
        s3.create_bucket(Bucket="lake")
        at_ms = stack.clock.now_ms() + 5 * HOUR
        deltalake.write_deltalake(tmp_path / "t", pa.table({"deliver_at": [at_ms], "body": ["in S3"]}))
        for path in (tmp_path / "t").rglob("*"):
            if path.is_file():
                s3.upload_file(str(path), "lake", f"tables/{path.relative_to(tmp_path)}")
        with pytest.raises(InvalidValue, match="give --format delta"):
            stack.run_job("import_messages", topic=TOPIC, input="s3://lake/tables/t/")
        report = stack.run_job("import_messages", topic=TOPIC, input="s3://lake/tables/t", format="delta")
        assert (report.imported, report.failed) == (1, {})
