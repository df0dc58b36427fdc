"""What a scenario found: its figures, and the promises that it kept and broke."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Figure = float | int


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a scenario found.

    Attributes:
        name: the scenario's.
        figures: name, with its unit at the end -> what was measured.
        held: the promises that were kept, each a sentence with its figures.
        broken: those that were not.
    """

    name: str
    figures: dict[str, Figure] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def promise(self, kept: bool, sentence: str) -> None:
        """Notes whether a promise was kept."""
        (self.held if kept else self.broken).append(sentence)

    def at_most(self, what: str, value: Figure, most: Figure) -> None:
        """Notes a figure that must not be above a bound."""
        self.promise(value <= most, f"{what}: {_said(value)}, at most {_said(most)}")

    def exactly(self, what: str, value: Figure, expected: Figure) -> None:
        """Notes a figure that must be what was computed beforehand."""
        self.promise(value == expected, f"{what}: {_said(value)}, expected {_said(expected)}")

    def document(self) -> Mapping[str, object]:
        """Returns what goes into the file of results."""
        return {**self.figures, "promises_kept": len(self.held), "promises_broken": self.broken}


def _said(value: Figure) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
