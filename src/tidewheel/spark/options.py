"""Checks the options of Spark's data source and sink."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidewheel.errors import InvalidValue


def check_options(options: Mapping[str, str], names: Collection[str]) -> None:
    """Refuses options of other names, since a name in another spelling would do nothing.

    Raises:
        InvalidValue: an option has none of the names.
    """
    for name, value in options.items():
        if name not in names:
            raise InvalidValue(name, value, f"there is no such option; give some of {', '.join(sorted(names))}")
