"""Docstrings mention only existing names."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import cleandoc
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CODE = ("src", "functions", "glue_jobs", "infra")
REPOSITORY = (*CODE, "benchmarks", "examples", "tests")

NOT_OURS = {
    "Architecture.X86_64": "the CDK's",
    "GetAtt": "a function of CloudFormation",
    "cdk.out": "the CDK's folder",
    "functions.zip": "an archive",
    "spark.speculation": "a setting of Spark",
    "tidewheel.schema_version": "a key of a ledger's metadata",
    "tidewheel.zip": "an archive",
    "MaximumConcurrency": "a property of an event source mapping",
    "dramatiq.errors.QueueNotFound": "of dramatiq",
    "os.fork": "Python's, on some systems",
    "ServiceTimeout": "a property of a custom resource",
    "grant_send_messages": "a method of the CDK's queues",
    "mock_aws": "moto's",
    "process.py": "jsii's",
    "roaring_bitmap_internal_validate": "of CRoaring",
    "task_queues": "a setting of Celery",
    "task_routes": "a setting of Celery",
}
"""Names in docstrings that look like ours, and whose they are."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A parsed file of the repository."""

    path: Path
    tree: ast.Module

    @cached_property
    def docstrings(self) -> list[tuple[int, str]]:
        """Returns line and text of each docstring, including assignments' docstrings."""
        bodies = (getattr(node, "body", None) for node in ast.walk(self.tree))
        statements = (statement for body in bodies if isinstance(body, list) for statement in body)
        return [(each.lineno, cleandoc(text)) for each in statements if (text := text_of(each)) is not None]

    @cached_property
    def names(self) -> set[str]:
        """Returns the path's parts, all identifiers, and the words of all strings except docstrings."""
        docstrings = {line for line, _ in self.docstrings}
        found = {*self.path.with_suffix("").parts}
        for node in ast.walk(self.tree):
            found |= {part for _, each in ast.iter_fields(node) if isinstance(each, str) for part in each.split(".")}
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in docstrings:
                found |= set(re.findall(r"\w+", node.value))
        return found


def text_of(statement: ast.stmt) -> str | None:
    """Returns the text of a statement consisting of a string, or None."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def files(folders: tuple[str, ...]) -> list[Path]:
    """Returns the paths of all files of some folders."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def sources() -> list[Source]:
    """Returns all files of the code, parsed."""
    return [Source(path=path, tree=ast.parse((ROOT / path).read_text(encoding="utf-8"))) for path in files(CODE)]


@cache
def known() -> set[str]:
    """Returns all names of the code and of Python."""
    return {*dir(builtins), *sys.stdlib_module_names}.union(*(each.names for each in sources()))


def exists(name: str) -> bool:
    """Returns whether each part of a name exists, and a file as a whole."""
    if name in NOT_OURS or Path(name).name in NOT_OURS:
        return True
    if name.endswith(".py"):
        return any(f"/{path.as_posix()}".endswith(f"/{name}") for path in files(REPOSITORY))
    return set(name.split(".")) <= known()


OURS = re.compile(r"[\w/]+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z][a-z]+(?:[A-Z][a-z0-9]*)+|_\w+|[a-zA-Z]+_\w+")
"""Names that look like ours: a file, a dotted name, a class, a private name, two words with an underscore."""


def unknown(source: Source) -> Iterator[str]:
    """Yields each unknown name in the docstrings of a file, with line number."""
    for line, text in source.docstrings:
        for entries in re.findall(r"^Raises:\n((?:    .*(?:\n|\Z))+)", text, re.MULTILINE):
            for name in ", ".join(re.findall(r"^    (\w[\w., ]*):", entries, re.MULTILINE)).split(", "):
                if not exists(name):
                    yield f"{source.path}:{line}: Raises {name}"
        for quoted in re.findall(r"`([^`\n]+)`", text):
            name = quoted.partition("(")[0]
            if OURS.fullmatch(name) and not exists(name):
                yield f"{source.path}:{line}: `{quoted}`"


def test_every_name_in_a_docstring_exists() -> None:
    assert [each for source in sources() for each in unknown(source)] == []
