"""Reads the options of an import, which are its topic, input and column mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import delay_ms
from tidewheel.model.settings import ROLE_ARN

FORMATS = ("parquet", "csv", "json", "delta", "iceberg")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_MIN_LEAD = "1h"
_PUNCTUATION = tuple("\"'\\`|^~!#$%&*/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Maps message fields to columns of the input. None means no column.

    Attributes:
        deliver_at: a timestamp, ISO 8601 text, or seconds or milliseconds since 1970.
        body: text, bytes, or a value that becomes JSON text.
        key: text.
        attributes: a map or struct of texts, or the text of a JSON object.
        expires_at: as deliver_at.
        group: text.
    """

    deliver_at: str = "deliver_at"
    body: str = "body"
    key: str | None = "key"
    attributes: str | None = "attributes"
    expires_at: str | None = "expires_at"
    group: str | None = "group"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all mapped columns."""
        return tuple(name for name in asdict(self).values() if name is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Says how CSV quotes values.

    Attributes:
        quote: the character around values.
        escape: the character before a quote within a value; the quote itself if quotes are doubled. None: quotes are
            doubled, and a value is rejected if a backslash might escape a quote in it.
    """

    quote: str = '"'
    escape: str | None = None

    @property
    def doubled(self) -> bool:
        """Whether quotes in values are doubled."""
        return self.escape in (None, self.quote)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Holds the options of one import.

    Attributes:
        input: a path, an `s3://` URL or a glob of either.
        input_role: ARN of the role that may read the input; None: the job's own credentials.
        format: one of FORMATS; None: taken from the endings of the files' names.
        columns: the wanted columns; those in `optional` may be absent.
        optional: default column names, not given by the caller, that the input may lack.
        rejects: where rejected rows are written; None: they are only counted.
        token: the import's own name, for exactly once; None: a hash of the input.
        min_lead_ms: rows due sooner than this are rejected.
        time_zone: zone of times without a zone; None: such times are rejected.
        dialect: of CSV.
    """

    topic: str
    input: str
    input_role: str | None = None
    format: str | None = None
    columns: Columns = Columns()
    optional: frozenset[str] = frozenset()
    rejects: str | None = None
    token: str | None = None
    min_lead_ms: int = 3_600_000
    time_zone: str | None = None
    dialect: Dialect = Dialect()

    @property
    def needed(self) -> dict[str, str]:
        """The columns that every file must have, by option."""
        return {
            f"--{option.replace('_', '-')}": name
            for option, name in asdict(self.columns).items()
            if name is not None and option not in self.optional
        }

    def present(self, names: Collection[str]) -> Columns:
        """Returns the mapped columns without those that are not among some names."""
        absent: dict[str, Any] = {option: None for option, name in asdict(self.columns).items() if name not in names}
        return replace(self.columns, **absent)


def parse_options(arguments: Mapping[str, str]) -> ImportOptions:
    """Reads the options from a job's arguments.

    Raises:
        InvalidValue: an option is missing or wrong.
    """
    for name in ("topic", "input"):
        if not arguments.get(name):
            raise InvalidValue(f"--{name}", arguments.get(name), "this job needs it")
    columns = {column: arguments.get(column.replace("_", "-")) for column in asdict(Columns())}
    given = partial(_given, arguments)
    quotes = f"give one of {' '.join(_PUNCTUATION)}"
    dialect = Dialect(
        quote=given("csv-quote", _PUNCTUATION.__contains__, quotes) or '"',
        escape=given("csv-escape", _PUNCTUATION.__contains__, quotes),
    )
    if dialect.quote == "\\":
        raise InvalidValue("--csv-quote", dialect.quote, "a backslash escapes quotes: give --csv-escape")
    role = "give a role's ARN, such as arn:aws:iam::123456789012:role/reader"
    return ImportOptions(
        topic=arguments["topic"],
        input=arguments["input"],
        input_role=given("input-role", ROLE_ARN.match, role),
        format=given("format", FORMATS.__contains__, f"give {', '.join(FORMATS)}"),
        columns=Columns(**{column: name for column, name in columns.items() if name}),
        optional=frozenset(c for c in ("key", "attributes", "expires_at", "group") if not columns[c]),
        rejects=arguments.get("rejects") or None,
        token=given("token", _TOKEN.match, "use 1 to 64 letters, digits, '_' or '-'"),
        min_lead_ms=delay_ms(arguments.get("min-lead") or _MIN_LEAD, "--min-lead"),
        time_zone=given("time-zone", _is_zone, "give a zone's name, such as Europe/Berlin or UTC"),
        dialect=dialect,
    )


def _given(arguments: Mapping[str, str], name: str, accepts: Callable[[str], object], advice: str) -> str | None:
    """Returns an option, None if it is not given.

    Raises:
        InvalidValue: it is wrong.
    """
    text = arguments.get(name) or None
    if text is not None and not accepts(text):
        raise InvalidValue(f"--{name}", text, advice)
    return text


def _is_zone(text: str) -> bool:
    try:
        return ZoneInfo(text) is not None
    except (KeyError, ValueError, OSError):
        return False
