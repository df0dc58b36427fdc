"""docs/reference-sdk.md is made from the docstrings of the public names."""

from __future__ import annotations

import re

from infra.sdk_reference import NAMES, PAGE, page
from tidewheel import Tidewheel


def test_the_reference_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make derived"


def test_every_public_name_and_every_call_of_the_client_has_a_heading() -> None:
    headings = set(re.findall(r"^###+ (\w+)$", page(), re.MULTILINE))
    calls = {name for name in dir(Tidewheel) if not name.startswith("_")}
    assert {*NAMES, *calls} <= headings
