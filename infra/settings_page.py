"""Writes docs/settings.md from the declarations, with `python -m infra.settings_page [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from infra.doc_tables import table
from infra.kept_file import write_or_check
from tidewheel.cdk.environment import Environment
from tidewheel.model.setting import Declared, settings_of
from tidewheel.model.settings import VARIABLE_PREFIX, SubscriptionSettings, TopicSettings

PATH = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
MODULE = "infra.settings_page"

_PAGE = """\
# Settings

`python -m {module}` writes this page.

## Topic

`create_topic`, `update_topic` and the CDK's `add_topic` take these settings. `update_topic` changes all but these:
{fixed}.

{topic}

### When a slot is sealed

A slot is sealed `lookahead_s` before the slot starts. This is `lookahead_s` to `lookahead_s` + `slot_s` before the
messages are due, with the defaults {seal}.

## Subscription

`create_subscription` and the CDK's `add_subscription` take these settings.

{subscription}

## Environment

`Environment.development()` and `Environment.production()` of `tidewheel.cdk` take these settings. The defaults are
development's, and production's where they differ.

{environment}

## Variables of the functions

Each function gets the fields of `ServiceSettings` in `src/tidewheel/model/settings.py` as variables, in upper case with
the prefix `{prefix}`. The SSM parameter `/tidewheel/<stack>/settings` holds the same values as a JSON object.
"""


def page() -> str:
    """Returns the page."""
    topic = TopicSettings()
    least, most = topic.lookahead_s / 60, (topic.lookahead_s + topic.slot_s) / 60
    return _PAGE.format(
        module=MODULE,
        fixed=", ".join(f"`{each.name}`" for each in settings_of(TopicSettings).values() if each.setting.fixed),
        topic=_table(TopicSettings, TopicSettings()),
        seal=f"{least:g} to {most:g} minutes",
        subscription=_table(SubscriptionSettings, SubscriptionSettings()),
        environment=_table(Environment, Environment.development(), production=Environment.production()),
        prefix=VARIABLE_PREFIX,
    )


def _table(cls: type, defaults: Any, **others: Any) -> str:
    """Returns the table of a class of settings, with their defaults, and other values where examples have them."""
    return _lines(
        ("setting", "default, values", "meaning"),
        (
            (f"`{each.name}`", _default(each, defaults, others) + _values(each), _meaning(each))
            for each in settings_of(cls).values()
        ),
    )


def _default(declared: Declared, defaults: Any, others: dict[str, Any]) -> str:
    """Returns the value of a setting, and the name and value of each example with another value."""
    values = {
        name: _value(getattr(example, declared.name), declared.setting.unit)
        for name, example in {"": defaults, **others}.items()
    }
    differing = (f"{name}: {value}" for name, value in values.items() if name and value != values[""])
    return ", ".join((values[""], *differing))


def _values(declared: Declared) -> str:
    """Returns the values that a setting takes, unless they are all that a whole number has."""
    return "" if declared.values in ("", "at least 1") else f" ({declared.values})"


def _lines(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(table(headings, rows))


def _meaning(declared: Declared) -> str:
    none = f" None: {declared.setting.none}." if declared.optional else ""
    return declared.setting.meaning + none


def _value(value: object, unit: str) -> str:
    if value in (None, (), {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,} {unit}".rstrip()
    return f"`{value.name}`" if isinstance(value, Enum) else f"`{value}`"


def main(arguments: list[str] | None = None) -> int:
    """Writes or compares the page. Returns the exit code."""
    return write_or_check(PATH, page, module=MODULE, about=__doc__, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
