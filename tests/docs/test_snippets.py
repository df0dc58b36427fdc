"""Documents match the code. Snippets are running files, commands exist, and links work."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from infra import doc_figures, doc_tables, settings_page
from tests.docs.recipe import download, load
from tidewheel import Message
from tidewheel.cdk.backlog import PARTITIONS
from tidewheel.ledger.schema import COLUMNS, VIEW_COLUMNS, ColumnType
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.model.message import id_bytes

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
DOCUMENTS = sorted([*ROOT.glob("*.md"), EXAMPLES / "README.md", *(ROOT / "docs").rglob("*.md")])

_STATE = re.compile(
    r"(?:^<!-- (?P<source>[^ ]+) -->\n)?^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_FORBIDDEN = re.compile(r"(?<![\w.])/(?:work|root|tmp|home)/|https?://(?:[\w-]+\.)*(?:internal|local|corp)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a document."""

    document: Path
    line: int
    language: str
    source: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """Returns all documents' blocks in these languages."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in _STATE.finditer(text):
            if match["language"] in languages:
                line = text.count("\n", 0, match.start("text")) + 1
                found.append(
                    Block(
                        document=document,
                        line=line,
                        language=match["language"],
                        source=match["source"],
                        text=match["text"],
                    )
                )
    return found


def region(source: str) -> str:
    """Returns a file's text, or for `file#name` the part between `# region <name>` and `# endregion`."""
    path, _, name = source.partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    if not name:
        return text
    [found] = re.findall(rf"^# region {name}\n(.*?)^# endregion$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def prose(document: Path) -> str:
    """Returns a document without fenced blocks."""
    return _STATE.sub("", document.read_text(encoding="utf-8"))


def anchors(document: Path) -> set[str]:
    """Returns the anchors of a document's headings on a code host."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


# ---- what is written


@pytest.mark.parametrize("block", blocks("python", "py"), ids=str)
def test_every_python_snippet_is_a_region_of_an_example(block: Block) -> None:
    assert block.source is not None, "put <!-- examples/file.py#region --> on the line before it"
    assert block.text.strip() == region(block.source).strip()


def test_every_example_is_quoted_in_a_document() -> None:
    quoted = {block.source.partition("#")[0] for block in blocks("python") if block.source}
    assert {str(path.relative_to(ROOT)) for path in EXAMPLES.rglob("*.py")} == quoted


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(document: Path) -> None:
    for match in _LINK.finditer(prose(document)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), match["target"]
        if anchor:
            assert anchor in anchors(path), match["target"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_names_a_place_on_somebodys_machine(document: Path) -> None:
    assert _FORBIDDEN.findall(document.read_text(encoding="utf-8")) == []


def test_the_paths_that_documents_name_in_the_package_exist() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"`((?:src|infra|functions|tests|examples|benchmarks|docs)/[\w./-]+)`", prose(document)):
            assert (ROOT / path).exists(), f"{document.name}: {path}"


def test_the_rooms_that_the_map_names_have_the_files_that_it_names() -> None:
    package = ROOT / "src" / "tidewheel"
    for path in re.findall(r"`((\w+)/[\w./]*)`", prose(ROOT / "docs" / "architecture.md")):
        if (package / path[1]).is_dir():
            assert (package / path[0]).exists(), path[0]


# ---- what is listed


def _table_names(document: str, heading: str) -> set[str]:
    """Returns the names in backquotes in the first column of the first table after a heading."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8").partition(f"# {heading}")[2]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None, heading
    first_cells = [line.split("|")[1] for line in table[0].splitlines()]
    return {name for cell in first_cells for name in re.findall(r"`(\w+)", cell)}


def test_the_page_of_settings_is_the_one_that_the_declarations_make() -> None:
    assert settings_page.PATH.read_text(encoding="utf-8") == settings_page.page()


@pytest.mark.parametrize("name", doc_tables.TABLES)
def test_a_table_of_a_document_is_the_one_that_the_declarations_make(name: str) -> None:
    assert (doc_tables.DOCS / name).read_text(encoding="utf-8") == doc_tables.page(name)


@pytest.mark.parametrize("name", doc_figures.FIGURES)
def test_a_figure_of_a_document_is_the_one_that_the_code_makes(name: str) -> None:
    assert (doc_figures.DOCS / name).read_text(encoding="utf-8") == doc_figures.page(name), "make derived"


def test_every_argument_of_the_local_stack_is_listed() -> None:
    arguments = set(inspect.signature(LocalTidewheel).parameters) - {"topic_settings"}
    assert _table_names("local.md", "Arguments") - {"slot_s", "lookahead_s"} == arguments


def test_every_method_of_the_local_stack_is_listed() -> None:
    text = (ROOT / "docs" / "local.md").read_text(encoding="utf-8").partition("# Methods")[2]
    for name in vars(LocalTidewheel):
        if not name.startswith("_"):
            assert f"`{name}" in text, name


def test_the_picture_of_the_imports_is_the_one_that_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [c["layers"] for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    picture = "\n".join(layers).replace("tidewheel.", "")
    assert picture in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


# ---- what is run


def _run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_quickstart_runs() -> None:
    runpy.run_path(str(EXAMPLES / "quickstart.py"), run_name="__main__")


def test_the_real_clock_example_runs() -> None:
    _run("examples/real_clock.py")


def test_the_tests_of_the_fixture_example_pass() -> None:
    _run("-m", "pytest", "examples/local_test.py")


def test_the_example_that_cancels_a_group_asks_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    example = load("cancel_many", EXAMPLES)
    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic("reminders")
    tw.create_subscription("reminders", "mails")
    tw.send_many("reminders", [Message(body="x", delay="3h", group=f"tenant-{number % 2}") for number in range(10)])
    stack.advance(seconds=301)
    assert example.cancel_tenant(tw, "tenant-1", most_dollars=0.000_001) == 0
    assert example.cancel_tenant(tw, "tenant-1") == 5
    assert capsys.readouterr().out.startswith("10 messages by 6 requests: $0.0000\n")


def test_the_deployed_example_sends_and_receives_on_the_local_stack(capsys: pytest.CaptureFixture[str]) -> None:
    example = load("deploy_and_send", EXAMPLES)
    with LocalTidewheel(start=datetime.now(UTC)) as stack:  # the example says "tomorrow"
        tw = stack.client()
        example.set_up(tw)
        example.set_up(tw)  # twice is fine
        example.send(tw)
        stack.advance(minutes=16)
        assert example.work(tw) == 1
        stack.advance(days=1)
        assert example.work(tw) == 100
        assert stack.failures == []
    assert '{"id":17}' in capsys.readouterr().out


def test_the_error_example_tells_what_is_worth_another_try() -> None:
    example = load("handle_errors", EXAMPLES)
    good, bad = Message(body="good", delay="1d"), Message(body="")
    with LocalTidewheel() as stack:
        tw = stack.client()
        assert example.send_all(tw, [good, bad]) == [good, bad]  # the topic was missing, and is made
        assert example.send_all(tw, [good, bad]) == []
        stack.advance(minutes=10)
        assert tw.stats("orders").waiting == 1


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger written by the service, with three messages on two days."""
    with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
        tw = stack.client()
        tw.create_topic("orders")
        for delay in ("1d", "1d 2h", "2d"):
            tw.send("orders", "hello", delay=delay)
        stack.advance(minutes=10)
        s3 = stack.session.client("s3")
        [s3_bucket] = [each["Name"] for each in s3.list_buckets()["Buckets"]]
        [found] = s3.list_objects_v2(Bucket=s3_bucket, Prefix="ledgers/orders/")["Contents"]
        path = tmp_path_factory.mktemp("ledgers") / "ledger.parquet"
        path.write_bytes(s3.get_object(Bucket=s3_bucket, Key=found["Key"])["Body"].read())
    return path


def test_the_pyarrow_example_reads_a_ledger_and_a_segment(ledger: Path) -> None:
    import pyarrow.parquet as pq

    example = load("read_ledger", EXAMPLES)
    assert example.count_by_day(ledger) == {"2026-01-02": 2, "2026-01-03": 1}
    ending_bytes = 4 + int.from_bytes(ledger.read_bytes()[-8:-4], "little") + 8
    segment = ledger.read_bytes()[4:-ending_bytes]
    assert pq.ParquetFile(ledger).num_row_groups == 1
    assert example.read_segment(segment).num_rows == 3
    with pytest.raises(ValueError, match="damaged"):
        example.read_segment(segment[:-1] + b"?")


@pytest.fixture(scope="module")
def backlog(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A topic's S3 bucket as a folder, and the ids of the messages that wait, in hex."""
    root = tmp_path_factory.mktemp("backlog")
    # The queries ask the machine for the time. It is then 5 minutes after one delivery, and 5 before the next.
    with LocalTidewheel(start=datetime.now(UTC) - timedelta(minutes=165), max_buckets=4) as stack:
        tw = stack.client()
        tw.create_topic("orders", live_view=1)
        tw.create_subscription("orders", "mail")
        sent = []
        for number in range(12):
            sent += [tw.send("orders", f"order {number}", delay=delay) for delay in ("2h", "1d", "2d")]
            stack.advance(minutes=10)
        assert tw.cancel("orders", sent[-1].id)
        purged = sent[4].deliver_at
        tw.purge("orders", start=purged - timedelta(minutes=1), end=purged + timedelta(minutes=1))
        stack.advance(minutes=45)
        assert stack.invocations["compact"] and stack.receive("orders", "mail")
        waiting = [id_bytes(each.id).hex().upper() for each in tw.peek("orders", 100)]
        download(stack, root)
    orphan = next(root.rglob("*.parquet"))
    orphan.with_name(f"{orphan.name.partition('-')[0]}-{'0' * 32}-{'0' * 16}.parquet").write_bytes(orphan.read_bytes())
    return str(root), sorted(waiting)


def test_the_duckdb_query_shows_what_peek_shows(backlog: tuple[str, list[str]]) -> None:
    root, waiting = backlog
    rows = load("query_backlog", EXAMPLES).with_duckdb(root, "orders").select("hex(message_id)").fetchall()
    assert sorted(each for (each,) in rows) == waiting
    [(stored,)] = duckdb.sql(f"SELECT count(*) FROM '{root}/ledgers/*/*/*.parquet'").fetchall()
    assert stored > len(waiting)  # delivered, merged, cancelled and purged messages, too


def test_the_polars_query_shows_the_same(backlog: tuple[str, list[str]]) -> None:
    root, waiting = backlog
    rows = load("query_backlog", EXAMPLES).with_polars(root, "orders").collect()
    assert sorted(each.hex().upper() for each in rows["message_id"]) == waiting
    assert set(rows["payload"]) <= {f"order {number}".encode() for number in range(12)}


def test_the_athena_query_shows_the_same_on_the_tables_of_the_stack(backlog: tuple[str, list[str]]) -> None:
    root, waiting = backlog
    [block] = [each for each in blocks("sql") if each.document.name == "query.md"]
    columns = ", ".join(f'"{name}"' for name in (*(each.name for each in COLUMNS), *PARTITIONS, "$path"))
    types = {name: "BIGINT" if type_ is ColumnType.INT64 else "VARCHAR" for name, type_ in VIEW_COLUMNS.items()}
    with duckdb.connect() as athena:
        athena.execute("CREATE SCHEMA tidewheel; CREATE MACRO to_unixtime(moment) AS epoch(moment)")
        athena.execute(f"""
            CREATE VIEW tidewheel.ledgers AS SELECT {columns} FROM (
                SELECT *, filename AS "$path", split_part(filename, '/', -3) AS topic,
                    split_part(filename, '/', -2) AS due_day
                FROM read_parquet('{root}/ledgers/*/*/*.parquet', filename = true)
            );
            CREATE VIEW tidewheel.live AS SELECT *, split_part(filename, '/', -2) AS topic
            FROM read_csv('{root}/live/*/*', columns = {types}, filename = true)
        """)
        rows = athena.sql(block.text).fetchall()
    assert sorted(row[0].hex().upper() for row in rows) == waiting
