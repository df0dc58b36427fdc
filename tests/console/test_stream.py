"""The stream that tells a tab that its page has changed, without a browser."""

from __future__ import annotations

import asyncio
from itertools import chain, repeat
from threading import Event

import pytest

from tidewheel.console import live
from tidewheel.console.live import QUIET_AFTER_S, QUIET_S, changes, mark


def lines(marks: list[str], seen: str, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[float]]:
    """Returns the first lines of a stream whose page has these marks, the last for ever, and its waits."""
    waits: list[float] = []
    coming = chain(marks, repeat(marks[-1]))

    async def sleep(seconds: float, _: object) -> None:
        waits.append(seconds)

    async def run() -> list[str]:
        found = []
        async for line in changes(lambda _: next(coming), seen, 5.0, Event()):
            found.append(line)
            if len(found) == count:
                break
        return found

    monkeypatch.setattr(live, "_sleep", sleep)
    return asyncio.run(run()), waits


def test_a_page_that_does_not_change_is_compared_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    found, waits = lines(["a"], "a", int(QUIET_AFTER_S / 5) + 5, monkeypatch)
    assert not [line for line in found if "changed" in line and "unchanged" not in line]
    assert waits[0] == 5.0
    assert waits[-1] == QUIET_S


def test_what_changed_before_the_stream_began_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = lines(["b", "b", "c"], "a", 4, monkeypatch)
    assert ["event: changed" in line for line in found] == [False, True, False, True]


def test_times_from_now_and_the_cost_of_a_page_are_no_change() -> None:
    page = '<main><p>{}</p><span class="rel" data-at="5">{}</span></main><p role="status">{} requests</p>'
    assert mark(page.format("a", "in 3 s", 9)) == mark(page.format("a", "in 2 s", 18))
    assert mark(page.format("a", "in 3 s", 9)) != mark(page.format("b", "in 3 s", 9))
