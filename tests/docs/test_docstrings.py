"""Docstrings mention only existing names."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CODE = ("src", "functions", "glue_jobs", "infra")
REPOSITORY = (*CODE, "benchmarks", "examples", "tests")

NOT_OURS = {
    "Architecture": "the CDK's",
    "GetAtt": "a function of CloudFormation",
    "cdk.out": "the CDK's folder",
    "functions.zip": "an archive",
    "spark.speculation": "a setting of Spark",
    "tidewheel.schema_version": "a key of a ledger's metadata",
    "tidewheel.zip": "an archive",
    "MaximumConcurrency": "a property of an event source mapping",
    "ServiceTimeout": "a property of a custom resource",
    "grant_send_messages": "a method of the CDK's queues",
    "iam_policy": "a test command of the IAM simulator",
    "iam_requests": "a test command of the IAM simulator",
    "iam_resources": "a test command of the IAM simulator",
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

    @property
    def module(self) -> str:
        """The module's full name, without `src` and `__init__`."""
        parts = list(self.path.with_suffix("").parts)
        return ".".join(parts[parts[0] == "src" :]).removesuffix(".__init__")

    @cached_property
    def docstrings(self) -> list[tuple[int, str]]:
        """Returns line and text of each docstring, including assignments' docstrings."""
        bodies = (getattr(node, "body", None) for node in ast.walk(self.tree))
        statements = (statement for body in bodies if isinstance(body, list) for statement in body)
        return [(each.lineno, cleandoc(text)) for each in statements if (text := text_of(each)) is not None]

    @cached_property
    def names(self) -> set[str]:
        """Returns all identifiers, and the words of all strings except docstrings."""
        docstrings = {line for line, _ in self.docstrings}
        found = {self.path.stem}
        for node in ast.walk(self.tree):
            found |= {str(value) for _, value in ast.iter_fields(node) if isinstance(value, str)}
            if isinstance(node, ast.alias):
                found |= set(node.name.split("."))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in docstrings:
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
    """Returns all names of the code."""
    return set().union(*(each.names for each in sources()))


@cache
def modules() -> dict[str, set[str]]:
    """Returns the names in each module and class of the code, by full name, last two names and last name."""
    found: dict[str, set[str]] = {}
    for each in sources():
        parts = each.module.split(".")
        for name in {".".join(parts[-n:]) for n in (1, 2, len(parts))}:
            found.setdefault(name, set()).update(each.names)
        for node in ast.walk(each.tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(each.names)
    for name in [name for name in found if "." in name]:
        package, _, module = name.rpartition(".")
        found.setdefault(package, set()).add(module)
    return found


def is_exception(name: str, source: Source) -> bool:
    """Returns whether a name is an exception of Python, of this project or of a library imported by the file."""
    if name in errors() or "." in name:
        return name in errors() or is_error(library(name))
    if is_error(getattr(builtins, name, None)):
        return True
    imported = (each for each in ast.walk(source.tree) if isinstance(each, ast.ImportFrom))
    return any(alias.name == name for each in imported for alias in each.names)


@cache
def errors() -> set[str]:
    """Returns the names of this project's exceptions, which are classes with an exception as a base."""
    classes = {
        node.name: [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
        for each in sources()
        for node in ast.walk(each.tree)
        if isinstance(node, ast.ClassDef)
    }

    def fails(name: str) -> bool:
        return is_error(getattr(builtins, name, None)) or any(
            fails(base) for base in classes.get(name, ()) if base != name
        )

    return {name for name in classes if fails(name)}


def library(name: str) -> object:
    """Returns the attribute of an installed module."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute, None)


def is_error(thing: object) -> bool:
    """Tells whether a thing is an exception class."""
    return isinstance(thing, type) and issubclass(thing, BaseException)


def exists(name: str, source: Source) -> bool:
    """Returns whether a name exists, if it looks like a name of this project. Returns True for other names."""
    if name in NOT_OURS or Path(name).name in NOT_OURS:
        return True
    if name.endswith(".py"):
        return any(f"/{path.as_posix()}".endswith(f"/{name}") for path in files(REPOSITORY))
    first, *others = name.split(".")
    if others:
        package, _, last = name.rpartition(".")
        if first == "tidewheel" and name in modules():
            return True
        owner = modules().get(package)
        if owner is None:
            return first != "tidewheel" or re.search(r"\.\w+_\w+\Z", name) is None
        return last in owner
    return name in known()


OURS = re.compile(r"[\w/]+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z][a-z]+(?:[A-Z][a-z0-9]*)+|_\w+|[a-zA-Z]+_\w+")
"""Names that look like ours: a file, a dotted name, a class, a private name, two words with an underscore."""


def unknown(source: Source) -> Iterator[str]:
    """Yields each unknown name in the docstrings of a file, with line number."""
    for line, text in source.docstrings:
        for entries in re.findall(r"^Raises:\n((?:    .*(?:\n|\Z))+)", text, re.MULTILINE):
            for name in ", ".join(re.findall(r"^    (\w[\w., ]*):", entries, re.MULTILINE)).split(", "):
                if not is_exception(name, source):
                    yield f"{source.path}:{line}: Raises {name}"
        for quoted in re.findall(r"`([^`\n]+)`", text):
            name = quoted.partition("(")[0]
            if OURS.fullmatch(name) and not exists(name, source):
                yield f"{source.path}:{line}: `{quoted}`"


def test_every_name_in_a_docstring_exists() -> None:
    assert [each for source in sources() for each in unknown(source)] == []


@pytest.mark.parametrize(
    "docstring",
    [
        "Raises:\n    NoSuchError: nothing raises this.",
        "See `NoSuchClass`.",
        "See `no_such_function`.",
        "See `_no_such_name`.",
        "See `no/such_file.py`.",
        "See `tidewheel.no_such_module`.",
        "See `wheel.no_such_function`.",
    ],
)
def test_a_name_that_nothing_has_is_found(docstring: str) -> None:
    source = Source(path=Path("src/tidewheel/x.py"), tree=ast.parse(f'"""One.\n\n{docstring}\n"""'))
    assert len(list(unknown(source))) == 1
