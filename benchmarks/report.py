"""Writes what is made of results: `docs/performance.md`, `docs/reliability.md` and their plots.

    python -m benchmarks.report            writes them
    python -m benchmarks.report --check    says which are not what the results say; exit code 1 then

A damaged file of results is told, with exit code 2.

Nothing is measured here, and no figure comes from elsewhere: the same results give the same bytes. The words stand in
`benchmarks.report_performance`, `benchmarks.report_reliability` and in the registry.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import report_performance, report_reliability, results
from benchmarks.plots import save_plot
from benchmarks.results import Result
from tidewheel.errors import InvalidValue

DOCS = Path(__file__).parent.parent / "docs"
Document = Callable[[Mapping[str, Result]], str]
DOCUMENTS: Mapping[str, Document] = {
    "performance.md": report_performance.document,
    "reliability.md": report_reliability.document,
}
"""File name -> what makes its text of all results."""
UNREADABLE = 2


def written(folder: Path, directory: Path = results.RESULTS) -> list[Path]:
    """Writes all documents and plots.

    Args:
        folder: where to; plots go to its `images`.
        directory: of the results.

    Returns:
        The files, relative to the folder.

    Raises:
        InvalidValue: results of a quick run are among those that are to be published.
    """
    found = _published(directory)
    files: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in DOCUMENTS.items():
        (folder / name).write_text(document(found), encoding="utf-8")
        files.append(Path(name))
    plots = (save_plot(result, folder / "images") for result in found.values())
    return files + [path.relative_to(folder) for path in plots if path is not None]


def differing(folder: Path = DOCS, directory: Path = results.RESULTS) -> list[Path]:
    """Returns the files, relative to the folder, that are missing there or not what the results say."""
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name)
        return [
            file
            for file in written(fresh, directory)
            if not (folder / file).is_file() or (folder / file).read_bytes() != (fresh / file).read_bytes()
        ]


def _published(directory: Path) -> dict[str, Result]:
    found = {name: results.load(name, directory) for name in results.names(directory)}
    for name, result in found.items():
        if result.figures.get("quick"):
            raise InvalidValue("results", name, "This was a quick run; measure it with --record and without --quick.")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if something differs")
    given = parser.parse_args(arguments)
    try:
        if not given.check:
            print(f"Written into {DOCS.name}/: {', '.join(map(str, written(DOCS)))}")
            return 0
        stale = [f"{DOCS.name}/{file}" for file in differing()]
    except InvalidValue as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    except KeyError as error:
        print(f"A file of results has no {error}: measure it again, or restore it", file=sys.stderr)
        return UNREADABLE
    for file in stale:
        print(f"{file} is not what the results say: python -m benchmarks.report", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
