"""Keeps the results of the last actions, for the page that the form leads back to."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from tidewheel.client.operations.dead_letters import DeadLetter

_KEPT = 20
"""The newest results, each with what was typed, up to 2 MB."""


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
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return name

    def get(self, name: str | None) -> Result | None:
        """Returns a result, if it is still kept."""
        return self._kept.get(name or "")
