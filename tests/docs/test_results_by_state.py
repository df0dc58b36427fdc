"""Each row of "Results by state" in docs/keys.md holds: by id and by key, for all values of claims and all readers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.behaviour.topic import receive_raw
from tests.docs.test_snippets import ROOT
from tidewheel import Tidewheel, UnknownMessage
from tidewheel.local import MemoryTidewheel

CLAIMED = (("keyed", True), ("all", True), ("all", False))
UNCLAIMED = (("none", True), ("none", False), ("keyed", False))
ALL = CLAIMED + UNCLAIMED
"""The topic's `claims`, and whether the message has a key."""
ONE, TWO, WITH_PLAIN = (("tidewheel",),), (("tidewheel", "tidewheel"),), (("tidewheel", "plain"), ("tidewheel", None))
"""Readers of the subscriptions s0 and s1."""

OPEN, SEALED, DUE = 400, 1_020, 1_201
"""Seconds after the sending of a message of 20 minutes."""

ROWS: dict[str, tuple[int, tuple[tuple[str, bool], ...], tuple[tuple[str | None, ...], ...]]] = {
    "in an ingest queue": (0, ALL, ONE + WITH_PLAIN),
    "in a ledger, its slot open": (OPEN, ALL, ONE + WITH_PLAIN),
    "sealed or sent direct, not claimed": (SEALED, UNCLAIMED, ONE + WITH_PLAIN),
    "sealed or sent direct, claimed": (SEALED, CLAIMED, ONE + TWO),
    "the same, with plain or unseen readers": (SEALED, CLAIMED, WITH_PLAIN),
    "due, not claimed": (DUE, UNCLAIMED, ONE + WITH_PLAIN),
    "due, claimed, no consumer has it": (DUE, CLAIMED, ONE + WITH_PLAIN),
    "due, a consumer has it": (DUE, CLAIMED, ONE + TWO + WITH_PLAIN),
}
"""Row -> when it begins, the kinds of messages, and the readers."""
BEFORE = {
    **dict.fromkeys(ONE + TWO, "sealed or sent direct, claimed"),
    **dict.fromkeys(WITH_PLAIN, "the same, with plain or unseen readers"),
}
"""Readers -> the row of a claimed message before it is due."""


def table() -> dict[str, list[str]]:
    """Returns the page's cells by the first cell of their row."""
    text = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8").partition("## Results by state\n")[2]
    lines = re.findall(r"^\| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE)
    return {first: rest for first, *rest in (line.split(" | ") for line in lines[1:])}


class World:
    """A topic with a message that has reached a row."""

    def __init__(self, row: str, kind: tuple[str, bool], readers: tuple[str | None, ...], delay_s: int = 1_200) -> None:
        at_s = ROWS[row][0] if delay_s == 1_200 else 60
        self.stack, self.readers, self.keyed = MemoryTidewheel(), readers, kind[1]
        self.tw: Tidewheel = self.stack.client()
        self.tw.create_topic("t", claims=kind[0])  # type: ignore[arg-type]
        self.urls = [
            self.tw.create_subscription("t", f"s{place}", reader=reader).queue_url  # type: ignore[arg-type]
            for place, reader in enumerate(readers)
        ]
        self.id = self.tw.send("t", "old", delay=delay_s, key="k" if self.keyed else None).id
        if at_s:  # an advance by nothing ingests
            self.stack.advance(seconds=at_s)
        self.had = self.tw.receive("t", "s0") if row == "due, a consumer has it" else []

    def ask(self, call: str, by: str) -> str:
        """Returns the name of an answer's or an error's type."""
        ids, key = ((), "k") if by == "key" else ((self.id,), None)
        try:
            if call == "cancel":
                return type(self.tw.cancel("t", *ids, key=key)).__name__
            return type(self.tw.reschedule("t", *ids, key=key, delay="2h")).__name__
        except UnknownMessage as error:
            return type(error).__name__

    def came(self) -> list[list[str]]:
        """Returns what each subscription got, after three hours more. Only a declared reader claims."""
        found: list[list[str]] = [[each.body for each in self.had], *([] for _ in self.readers[1:])]
        self.tw.delete("t", "s0", self.had)
        self.stack.advance(hours=3)
        for place, reader in enumerate(self.readers):
            if reader == "tidewheel":
                found[place] += [each.body for each in self.stack.receive("t", f"s{place}")]
            else:
                found[place] += [each["Body"] for each in receive_raw(self.stack.sqs, self.urls[place])]
        return [sorted(each) for each in found]


def worlds(row: str, delay_s: int = 1_200) -> list[Callable[[], World]]:
    _, kinds, all_readers = ROWS[row]
    return [
        lambda kind=kind, readers=readers: World(row, kind, readers, delay_s)  # type: ignore[misc]
        for kind in kinds
        for readers in all_readers
    ]


def cells(row: str, readers: tuple[str | None, ...]) -> list[str]:
    """Returns a row's cells. "As before" and "the same" stand for the row before the message was due."""
    found = table()[row]
    before = table()[BEFORE[readers]]
    return [old if re.match("as before|the same", new) else new for new, old in zip(found, before, strict=True)]


def test_the_rows_are_those_of_the_page() -> None:
    assert table().keys() == {"the message is", *ROWS, "cancelled", "purged, its slot open"} - {"the message is"}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("call", ["cancel", "reschedule"])
def test_the_answers_and_what_comes_are_those_of_the_row(row: str, call: str) -> None:
    for make in worlds(row):
        for by in ("id", "key") if make().keyed else ("id",):
            world = make()
            cell = cells(row, world.readers)[("cancel", "reschedule").index(call)]
            answer = world.ask(call, by)
            assert answer == re.findall(r"`(\w+)`", cell)[0], (cell, by, world.readers)
            stopped = ["Cancelled", "Rescheduled"].count(answer) or "for the others" in cell
            moved = ["old"] if call == "reschedule" else []
            expected = [moved if stopped and not world.had else ["old"] for _ in world.readers]
            if "for the others" in cell:
                expected[1] = sorted(["old", *moved])
            assert world.came() == expected, (cell, by, world.readers)


@pytest.mark.parametrize("row", [row for row in ROWS if row.startswith(("sealed", "the same"))])
def test_a_message_without_a_ledger_can_be_cancelled_alike_and_not_moved(row: str) -> None:
    for make in worlds(row, delay_s=300):
        world = make()
        assert world.ask("reschedule", "id") == "TooLate"
        assert world.ask("cancel", "id") == re.findall(r"`(\w+)`", cells(row, world.readers)[0])[0]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("replace", [True, False])
def test_a_newer_message_of_the_key_does_what_the_row_says(row: str, replace: bool) -> None:
    for make in worlds(row):
        world = make()
        if not world.keyed:
            continue
        cell = cells(row, world.readers)[2 if replace else 3]
        world.tw.send("t", "new", delay="20m", key="k", replace=replace)
        world.stack.advance(seconds=3)
        first, claiming, plain = {
            "replaces it": ("new", "new", "new"),
            "replaces it for the others": ("new", "new", "new old"),
            "is dropped": ("old", "old", "old"),
            "comes, and stops it for the others": ("new old", "new", "new old"),
        }.get(cell, ("new old", "new old", "new old"))
        others = [claiming if reader == "tidewheel" else plain for reader in world.readers[1:]]
        assert world.came() == [each.split() for each in (first, *others)], (cell, world.readers)
