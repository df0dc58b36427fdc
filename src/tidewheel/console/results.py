"""Keeps the results of the last actions, for the page that the form leads back to."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from tidewheel.client.operations.dead_letters import DeadLetter

_KEPT = 200
_KEPT_CHARACTERS = 8_000_000
"""The newest results are kept: at most so many, with at most so much typed text, and the last in any case."""


@dataclass(slots=True)
class Result:
    """The result of an action. An action that goes on in the background changes the text.

    Attributes:
        text: a sentence.
        good: whether the action succeeded.
        errors: field -> advice about its value.
        typed: field -> the typed text, kept if something is wrong.
        link: an address to go on, with its text.
        letters: dead letters that were looked at, with the beginnings of their bodies. None: nobody looked.
    """

    text: str
    good: bool = True
    errors: dict[str, str] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    link: tuple[str, str] | None = None
    running: bool = False
    letters: list[DeadLetter] | None = None


class Results:
    """The newest results, by a name that nobody can guess."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Result] = OrderedDict()

    def put(self, result: Result) -> str:
        """Keeps a result. Returns its name."""
        name = secrets.token_urlsafe(9)
        self._kept[name] = result
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._characters() > _KEPT_CHARACTERS):
            self._kept.popitem(last=False)
        return name

    def _characters(self) -> int:
        return sum(len(text) for result in self._kept.values() for text in result.typed.values())

    def get(self, name: str | None) -> Result | None:
        """Returns a result, if it is still kept."""
        return self._kept.get(name or "")
