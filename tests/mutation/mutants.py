"""Lists mutmut's mutants of the model, the ledger and the flows, in a fixed order.

Docstrings, annotations, decorators, imports and the texts of errors stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("model", "ledger", "flows")
_KEPT = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
_TEXTS = (cst.SimpleString, cst.ConcatenatedString)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change of a file.

    Attributes:
        path: of the file, within the repository.
        number: among the mutants of the file.
        operator: mutmut's operator.
        first_line, last_line: what it changes.
        in_function: whether the change is in a function's body, and not in what runs at import.
    """

    path: str
    number: int
    operator: str
    first_line: int
    last_line: int
    in_function: bool

    def source(self) -> str:
        """Returns the changed file."""
        module, found = _mutants(self.path)
        _, old, new = found[self.number]
        changed = module.deep_replace(old, new)
        assert isinstance(changed, cst.Module)
        return changed.code


def sample(seed: int, number: int) -> tuple[int, list[Mutant]]:
    """Returns the number of mutants, and a random sample."""
    paths = [
        str(path.relative_to(ROOT)) for room in ROOMS for path in sorted((ROOT / "src/tidewheel" / room).rglob("*.py"))
    ]
    every = [mutant for path in paths for mutant, _, _ in _mutants(path)[1]]
    return len(every), Random(seed).sample(every, min(number, len(every)))


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[tuple[Mutant, cst.CSTNode, cst.CSTNode]] = []
        self._functions = self._raised = 0
        self._lines = (1, 1)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _KEPT) or (isinstance(node, cst.Expr) and isinstance(node.value, _TEXTS)):
            return False
        if isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING":
            return False
        if isinstance(node, cst.Assign) and m.matches(node.targets[0].target, m.Name("__all__") | m.Name("__slots__")):
            return False
        if isinstance(node, _TEXTS) and self._raised:
            return False
        if isinstance(node, cst.FunctionDef):
            node.params.visit(self)
            self._functions += 1
            node.body.visit(self)
            self._functions -= 1
            return False
        self._raised += isinstance(node, cst.Raise)
        where = self.get_metadata(PositionProvider, node, None)
        if where is not None:
            self._lines = (where.start.line, where.end.line)
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                self.found += [(self._mutant(operator.__name__, i), node, new) for i, new in enumerate(operator(node))]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._raised -= isinstance(original_node, cst.Raise)

    def _mutant(self, operator: str, behind: int) -> Mutant:
        return Mutant(
            path=self.path,
            number=len(self.found) + behind,
            operator=operator.removeprefix("operator_"),
            first_line=self._lines[0],
            last_line=self._lines[1],
            in_function=self._functions > 0,
        )


@cache
def _mutants(path: str) -> tuple[cst.Module, list[tuple[Mutant, cst.CSTNode, cst.CSTNode]]]:
    wrapper = MetadataWrapper(cst.parse_module((ROOT / path).read_text(encoding="utf-8")))
    finder = _Finder(path)
    wrapper.visit(finder)
    return wrapper.module, finder.found
