"""What code imports, in the end: read from the source, nothing is run.

An import inside a function counts. One under `TYPE_CHECKING` does not, nor one in a `try` that goes on without the
module: it is optional.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tidewheel
from tidewheel.cdk.bundles import BundleFailed
from tidewheel.shipped import PACKAGE

_OWN = PACKAGE.name
_MISSING = {"ImportError", "ModuleNotFoundError"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What some files need.

    Attributes:
        modules: Modules of this package by dotted name, with their files.
        packages: First names of other modules, those of Python's own library left out.
    """

    modules: Mapping[str, Path]
    packages: frozenset[str]


def reach(files: Iterable[Path]) -> Reach:
    """Return what files need, directly or not.

    Raises:
        BundleFailed: A file imports a module of this package that is not there, or relatively.
    """
    modules: dict[str, Path] = {}
    packages: set[str] = set()
    waiting = list(files)
    while waiting:
        for name in imports_of(waiting.pop()):
            first = name.partition(".")[0]
            if first != _OWN:
                packages.add(first)
            elif name not in modules:
                modules[name] = file = _file_of(name)
                waiting.append(file)
    return Reach(modules=dict(sorted(modules.items())), packages=frozenset(packages - sys.stdlib_module_names))


def imports_of(file: Path) -> frozenset[str]:
    """Return the names of the modules that a file imports, parents included."""
    return _imports_in(file.read_bytes(), file)


@cache
def _imports_in(source: bytes, file: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in _statements(ast.parse(source, filename=str(file)).body):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module is None or node.level:
                raise BundleFailed(f"{file}:{node.lineno} imports relatively: write the module's full name.")
            found.add(node.module)
            found.update(filter(None, (_submodule(node.module, alias.name) for alias in node.names)))
    return frozenset(parent for name in found for parent in _with_parents(name))


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes that may run."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _statements(node.orelse)
        elif isinstance(node, ast.Try) and any(_catches_missing(handler) for handler in node.handlers):
            yield from _statements([*node.handlers, *node.orelse, *node.finalbody])
        else:
            yield from _statements(ast.iter_child_nodes(node))


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _catches_missing(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(name, ast.Name) and name.id in _MISSING for name in names)


def _submodule(module: str, name: str) -> str | None:
    """Return the module that `from module import name` loads besides `module`, if it does."""
    if module == _OWN and name in tidewheel._HOME:
        return f"{_OWN}.{tidewheel._HOME[name]}"
    if module.partition(".")[0] == _OWN and _candidate(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    return None


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _candidate(name: str) -> Path | None:
    base = PACKAGE.joinpath(*name.split(".")[1:])
    for file in (base / "__init__.py", base.with_suffix(".py")):
        if file.is_file():
            return file
    return None


def _file_of(name: str) -> Path:
    file = _candidate(name)
    if file is None:
        raise BundleFailed(f"There is no module {name}, which a function or a job imports.")
    return file
