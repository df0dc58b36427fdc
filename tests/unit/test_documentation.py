"""Tests the pages and sections of `tidewheel docs`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tests.conftest import REPOSITORY
from tidewheel import InvalidValue
from tidewheel.cli.documentation import section_of
from tidewheel.cli.main import app

PAGE = """# Title

## One thing

Text.

### Within

```sh
# no heading
## Another thing
```

## Another thing

End.
"""


def test_a_section_ends_where_the_next_of_its_rank_begins() -> None:
    assert section_of(PAGE, "one-thing") == PAGE[PAGE.index("## One") : PAGE.index("## Another thing\n\nEnd")]
    assert section_of(PAGE, "within").startswith("### Within") and "End." not in section_of(PAGE, "within")
    assert section_of(PAGE, "another-thing") == "## Another thing\n\nEnd.\n"
    assert section_of(PAGE, "title") == PAGE


def test_a_section_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidValue, match="give one of: title, one-thing, within, another-thing"):
        section_of(PAGE, "no-heading")


def test_a_page_is_printed_as_it_is_written() -> None:
    shown = CliRunner().invoke(app, ["docs", "runbook"])
    assert shown.stdout.rstrip() == (REPOSITORY / "docs" / "runbook.md").read_text(encoding="utf-8").rstrip()
    assert "limits" in CliRunner().invoke(app, ["docs"]).stdout


def test_a_page_that_does_not_exist_is_refused_with_those_that_do() -> None:
    shown = CliRunner().invoke(app, ["docs", "runbok"])
    assert shown.exit_code == 1 and "runbok" in shown.stderr and "security" in shown.stderr
