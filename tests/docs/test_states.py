"""The page of all places and the code have the same words."""

from __future__ import annotations

import re
from pathlib import Path

from tidewheel import MessageState, Place

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_page_of_states_has_the_words_that_get_answers() -> None:
    rows = re.findall(r"^\| ([^|\n]*) \| ([^|\n]*) \|", PAGE.read_text(), re.MULTILINE)
    cells = [cell for first, second in rows for cell in (first if "`" in first else second,)]
    words = {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    assert words == {each.value for each in (*MessageState, *Place)}
