"""What is written of results: the page and its plots are those of the committed results, and of made-up ones."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import report, results
from benchmarks.figures import Figure
from benchmarks.plots import PLOTS, save_plot
from benchmarks.registry import BENCHMARKS, chosen, run
from benchmarks.report import DOCS, differing, written
from benchmarks.results import Result, load, names
from tidewheel.errors import InvalidValue


def test_the_documents_are_what_the_committed_results_say() -> None:
    assert differing() == [], "python -m benchmarks.report"


def test_every_goal_that_is_missed_on_the_page_is_explained() -> None:
    missed: list[Figure] = []
    for name in (name for name in names() if name in BENCHMARKS):
        for figure in BENCHMARKS[name].figures:
            value = figure.of(load(name).figures)
            if value is not None and figure.reached(value) is False:
                missed.append(figure)
    assert [figure.at for figure in missed if figure.why_missed is None] == []


def test_every_benchmark_of_the_registry_has_a_module_and_a_plot() -> None:
    for name, benchmark in BENCHMARKS.items():
        assert importlib.util.find_spec(benchmark.module) is not None, name
        places = [figure.at for figure in benchmark.figures]
        assert places and len(set(places)) == len(places), name
        assert all(figure.goal is None or figure.more is not None for figure in benchmark.figures), name
    assert set(PLOTS) == {*BENCHMARKS, "soak"}


def test_the_slow_ones_run_when_all_do_or_when_they_are_named() -> None:
    fast = [each.name for each in chosen([], slow=False)]
    assert "ledger" in fast and "merge" not in fast
    assert [each.name for each in chosen([], slow=True)] == list(BENCHMARKS)
    assert [each.name for each in chosen(["merge", "ledger", "merge"], slow=False)] == ["merge", "ledger"]


_GUARDS = {
    "guards": 3,
    "caught": 3,
    "worlds": 2,
    "schedules_with_all_guards": 10,
    "mutants": [
        {"guard": "one", "place": "tidewheel.flows.seal.seal", "schedules": 1, "violation": "a never came"},
        {"guard": "two", "place": "tidewheel.flows.plan.plan", "schedules": 2, "violation": "b never came"},
        {"guard": "three", "place": "tidewheel.memory.topics.seal", "schedules": 3, "violation": "c never came"},
    ],
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Results of two benchmarks: one reaches its goal, one does not."""
    directory = tmp_path / "results"
    dispatch = {"dispatch_ratio_same_options": 0.95}
    results.save("dispatch", dispatch, command="python -m benchmarks dispatch", directory=directory)
    merge = {
        "spark_to_duckdb": 2.5,
        "spark": {"seconds": 10.0, "peak_mb": 900.0},
        "duckdb": {"seconds": 4.0, "peak_mb": 500.0},
    }
    results.save("merge", merge, command="python -m benchmarks merge", directory=directory)
    return directory


def test_a_page_has_every_figure_with_its_command_and_says_why_a_goal_is_missed(made: Path, tmp_path: Path) -> None:
    files = written(tmp_path / "docs", made)
    assert set(map(str, files)) == {
        "performance.md",
        "reliability.md",
        "images/bench_dispatch.svg",
        "images/bench_merge.svg",
    }
    text = (tmp_path / "docs" / "performance.md").read_text()
    assert "| 0.950 | ≥ 0.900 | reached |" in text and "| 2.50 | ≤ 2 | **missed** |" in text
    assert "`python -m benchmarks dispatch`" in text and "`python -m benchmarks merge`" in text
    assert "segments that can be read alone" in " ".join(text.split())
    assert "Not measured yet:" in text and "growth" in text


def test_every_link_of_a_page_leads_somewhere(made: Path, tmp_path: Path) -> None:
    results.save("mutants", _GUARDS, command="python -m tests.simulation.mutants --save", directory=made)
    written(tmp_path / "docs", made)
    for page in ("performance.md", "reliability.md"):
        text = (tmp_path / "docs" / page).read_text()
        anchors = {
            re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-")
            for line in text.splitlines()
            if line[:3] == "## "
        }
        links = re.findall(r"\]\(([^)]+)\)", text)
        assert links
        for link in links:
            files = (tmp_path / "docs" / link, DOCS / link)
            assert link[1:] in anchors if link.startswith("#") else any(file.is_file() for file in files), link


def test_a_promise_that_no_results_show_is_not_on_the_page(made: Path, tmp_path: Path) -> None:
    written(tmp_path / "docs", made)
    text = (tmp_path / "docs" / "reliability.md").read_text()
    assert "| a lost table can be rebuilt" in text and "| never early |" not in text and "(#guards)" not in text
    results.save("mutants", _GUARDS, command="python -m tests.simulation.mutants --save", directory=made)
    written(tmp_path / "docs", made)
    text = (tmp_path / "docs" / "reliability.md").read_text()
    assert "(#guards)" in text and "2 in `tidewheel.flows`, 1 in `tidewheel.memory`" in text
    assert "(#simulation)" not in text


def test_the_page_on_reliability_has_what_each_decoder_got_and_names_exceptions_alone(
    made: Path, tmp_path: Path
) -> None:
    fuzz = {"packs": {"inputs": 20_000, "refused": 19_000}, "plans": {"inputs": 20_000, "refused": 18_500, "deaths": 2}}
    results.save("fuzz", fuzz, command="make fuzz EXAMPLES=20000", directory=made)
    violation = "what heals ended with ObjectMissing('object plans/1.parquet does not exist')"
    mutant = {"guard": "one", "place": "tidewheel.flows.seal.seal", "schedules": 1, "violation": violation}
    results.save("mutants", _GUARDS | {"mutants": [mutant]}, command="any", directory=made)
    written(tmp_path / "docs", made)
    text = (tmp_path / "docs" / "reliability.md").read_text()
    assert "40,000 inputs of 2 decoders" in text and "| plans | 20,000 | 18,500 | 2 |" in text
    assert "| what heals ended with ObjectMissing |" in text


def test_the_same_results_give_the_same_bytes_and_others_are_told(made: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    written(docs, made)
    assert differing(docs, made) == []
    worse = {"dispatch_ratio_same_options": 0.85}
    results.save("dispatch", worse, command="python -m benchmarks dispatch", directory=made)
    assert set(map(str, differing(docs, made))) == {"performance.md", "images/bench_dispatch.svg"}
    shutil.rmtree(docs / "images")
    assert Path("images/bench_merge.svg") in differing(docs, made)


def test_a_damaged_file_of_results_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def damaged(*_: object) -> list[Path]:
        (tmp_path / "ledger.json").write_text('{"name": "led')
        load("ledger", tmp_path)
        return []

    monkeypatch.setattr(report, "differing", damaged)
    assert report.main(["--check"]) == report.UNREADABLE
    assert "ledger.json" in capsys.readouterr().err
    monkeypatch.setattr(report, "differing", lambda: {}["p99_ms"])
    assert report.main(["--check"]) == report.UNREADABLE
    assert "has no 'p99_ms'" in capsys.readouterr().err


def test_quick_runs_are_not_published(made: Path, tmp_path: Path) -> None:
    results.save("index", {"quick": True}, command="x", directory=made)
    with pytest.raises(InvalidValue, match="quick run"):
        written(tmp_path / "docs", made)


def test_a_plot_has_its_text_as_text_on_white_and_no_date(tmp_path: Path) -> None:
    figures = {"dispatch_ratio": 0.95, "dispatch_ratio_spread": [0.9, 1.0], "dispatch_ratio_same_options": 0.8}
    result = Result(name="dispatch", command="x", machine={}, date="2026-01-31", figures=figures)
    path = save_plot(result, tmp_path)
    assert path is not None
    text = path.read_text()
    root = ElementTree.fromstring(text)
    words = " ".join("".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "bare SendMessageBatch loop" in words and "goal" in words
    assert "#ffffff" in text and "<dc:date>" not in text
    assert save_plot(Result(name="nothing", command="x", machine={}, date="", figures={}), tmp_path) is None


def test_a_benchmark_runs_and_its_results_can_be_drawn(tmp_path: Path) -> None:
    figures = run("index", quick=True)
    assert figures["quick"] is True and figures["index_bytes_a_message_merged"] > 0
    assert save_plot(Result(name="index", command="x", machine={}, date="", figures=figures), tmp_path) is not None
