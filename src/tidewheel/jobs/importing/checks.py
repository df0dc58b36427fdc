"""Maps the rows of an input to a ledger's columns, and finds the problems of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.attributes import read_attributes
from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.streams import explained
from tidewheel.jobs.importing.texts import decoded, is_bytes, is_text, lengths_of, none_of, refused, valid_text
from tidewheel.jobs.importing.times import NO_ZONE, NOT_A_TIME, Times, read_times
from tidewheel.jobs.importing.values import attribute_texts, payloads, shown
from tidewheel.jobs.importing.work import Mask, Part, Rows, Terms
from tidewheel.ledger.rows import SCHEMA, Int64s
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import MAX_MESSAGE_BYTES, TIMES_END_MS, Encoding
from tidewheel.model.validation import GROUP, MAX_KEY_CHARACTERS

LATE = "became due while it was imported"
UNREADABLE = "a value cannot be read"
_AS_TEXT = "write it as text"
_SHOWN = 100
_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}\x{fffe}\x{ffff}]"

Show = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Checked:
    """Rows in a ledger's columns, without ids.

    Attributes:
        columns: by name.
        weight: approximate bytes of each row.
    """

    columns: dict[str, pa.Array]
    weight: Int64s
    problems: Problems


class Problems:
    """Keeps the first problem of each row.

    Attributes:
        kinds: of problems.
        problem: of each row, a place in `kinds`; -1 for none.
    """

    def __init__(self, rows: int) -> None:
        self.kinds: list[str] = []
        self.problem = np.full(rows, -1, np.int16)
        self._shown: list[Show | None] = []

    def reason(self, row: int) -> str:
        """Returns the problem of a row, with the value."""
        place = int(self.problem[row])
        show = self._shown[place]
        value = "" if show is None else _short(show(row))
        return f"{self.kinds[place]}: {value}" if value else self.kinds[place]

    def add(self, kind: str, wrong: Mask, show: Show | None = None) -> None:
        """Adds a problem of some rows, with a function that returns what to show of a row."""
        wrong = wrong & (self.problem < 0)
        if wrong.any():
            self.problem[wrong] = len(self.kinds)
            self.kinds.append(kind)
            self._shown.append(show)


def checked_rows(reader: Iterator[Rows], part: Part, terms: Terms) -> Iterator[tuple[Rows, Checked]]:
    """Reads and checks rows. If a value of them cannot be held, they are halved until its row is alone and rejected.

    Raises:
        FileProblem: the file cannot be read.
    """
    with explained("it"):
        for rows in reader:
            yield from _checked(rows, part.columns, terms)


def _checked(rows: Rows, columns: Columns, terms: Terms) -> Iterator[tuple[Rows, Checked]]:
    try:
        checked = check(rows, columns, terms)
    except MemoryError:
        raise
    except Exception as error:
        half = len(rows) // 2
        if half:
            for start, end in ((0, half), (half, len(rows))):
                yield from _checked(_slice(rows, start, end), columns, terms)
            return
        checked = _unreadable(len(rows), error)
    yield rows, checked


def _slice(rows: Rows, start: int, end: int) -> Rows:
    names = ("due", "payload", "encoding", "key", "attributes", "expires", "group")
    return replace(
        rows,
        **{name: column[start:end] for name in names if (column := getattr(rows, name)) is not None},
        wrong={kind: wrong[start:end] for kind, wrong in rows.wrong.items()},
        place=lambda row: rows.place(start + row),
        given=lambda row: rows.given(start + row),
        malformed=[] if start else rows.malformed,
    )


def _unreadable(count: int, error: Exception) -> Checked:
    nulls = {field.name: pa.nulls(count, field.type) for field in SCHEMA if field.name != "message_id"}
    problems = Problems(count)
    problems.add(UNREADABLE, ~none_of(count), lambda _: error)
    return Checked(nulls, np.ones(count, np.int64), problems)


def check(rows: Rows, columns: Columns, terms: Terms) -> Checked:
    """Maps and checks rows.

    Raises:
        FileProblem: Python or JSON cannot hold a value.
    """
    count = len(rows)
    problems = Problems(count)
    due = read_times(rows.due, terms.time_zone)
    _check_time(problems, columns.deliver_at, due, rows.due)
    problems.add(f"{columns.deliver_at} is missing", ~due.known)
    for kind, wrong in rows.wrong.items():
        problems.add(kind, wrong)
    with explained(columns.body, _AS_TEXT):
        payload = payloads(rows.payload)
    body_bytes = _check_body(problems, columns.body, payload, rows.encoding == Encoding.BYTES)
    attributes = None if rows.attributes is None or rows.attributes.null_count == count else rows.attributes
    with explained(columns.attributes, _AS_TEXT):
        about = None if attributes is None else read_attributes(attribute_texts(attributes))
    if about is not None:
        for kind, wrong in about.problems.items():
            problems.add(f"{columns.attributes} {kind}", wrong, about.show)
    key, key_sent = _key(problems, columns.key, rows)
    size = body_bytes + key_sent + (0 if about is None else about.size)
    problems.add(
        f"{columns.body} is too large: SQS takes {MAX_MESSAGE_BYTES} with attributes and key (bytes as base64)",
        size > MAX_MESSAGE_BYTES,
        lambda row: f"{size[row]} bytes",
    )
    group = _group(problems, columns.group, rows)
    expiry = _expiry(problems, columns.expires_at, rows, due, terms)
    _check_timing(problems, columns.deliver_at, due, terms, rows)
    made = {
        "deliver_at_ms": pa.array(due.ms),
        "key": key,
        "attributes": pa.nulls(count, SCHEMA.field("attributes").type) if about is None else about.maps,
        "payload": payload,
        "encoding": pa.array(rows.encoding),
        "sent_at_ms": pa.array(np.full(count, terms.now_ms)),
        "message_group": group,
        "expires_at_ms": pa.nulls(count, pa.int64()) if expiry is None else pa.array(expiry.ms, mask=~expiry.known),
    }
    weight = lengths_of(payload) + key_sent + (0 if about is None else about.size) + 48
    return Checked(made, weight, problems)


def _value(column: pa.Array) -> Show:
    return lambda row: shown(column, row)


def _check_time(problems: Problems, name: str, times: Times, column: pa.Array) -> None:
    problems.add(f"{name} {NO_ZONE}", times.no_zone, _value(column))
    problems.add(f"{name} {NOT_A_TIME}", times.not_a_time, _value(column))


def _check_body(problems: Problems, name: str, payload: pa.BinaryArray, as_bytes: Mask) -> Int64s:
    """Checks bodies. Returns their bytes, as SQS counts them."""
    lengths = lengths_of(payload)
    problems.add(f"{name} is missing", lengths == 0)
    if not as_bytes.all():
        wrong = refused(payload) & ~as_bytes
        problems.add(f"{name} has characters that SQS refuses; give bytes", wrong, _value(payload))
    return np.where(as_bytes, -(-lengths // 3) * 4, lengths)


def _key(problems: Problems, name: str | None, rows: Rows) -> tuple[pa.Array, Int64s]:
    """Checks keys. Returns them, and their bytes as JSON in Tidewheel's attribute."""
    count = len(rows)
    if rows.key is None or rows.key.null_count == count:
        return pa.nulls(count, pa.string()), np.zeros(count, np.int64)
    column = decoded(rows.key)
    key, wrong = _texts(column)
    too_long = pc.greater(pc.utf8_length(key), MAX_KEY_CHARACTERS)
    found = pc.or_kleene(too_long, pc.match_substring_regex(key, _CONTROLS))
    wrong = wrong | pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    kind = f"{name} is over {MAX_KEY_CHARACTERS} characters, or has control characters"
    problems.add(kind, wrong, _value(column))
    escaped = pc.add(pc.count_substring(key, '"'), pc.count_substring(key, "\\"))
    size = pc.fill_null(pc.add(pc.add(pc.binary_length(key), escaped), 2), 0)
    return key, size.to_numpy(zero_copy_only=False).astype(np.int64)


def _texts(column: pa.Array) -> tuple[pa.Array, Mask]:
    """Returns a column as text, null where it is empty, and which values are not UTF-8."""
    if is_text(column.type) or is_bytes(column.type):
        text, bad = valid_text(column)
    else:
        text, bad = column.cast(pa.string()), None
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    return text, none_of(len(column)) if bad is None else bad


def _group(problems: Problems, name: str | None, rows: Rows) -> pa.Array:
    """Checks groups, and returns them."""
    if rows.group is None or rows.group.null_count == len(rows):
        return pa.nulls(len(rows), pa.string())
    column = decoded(rows.group)
    group, wrong = _texts(column)
    allowed = pc.fill_null(pc.match_substring_regex(group, GROUP), True).to_numpy(zero_copy_only=False)
    kind = f"{name} is not 1 to 128 ASCII letters, digits and punctuation, without spaces"
    problems.add(kind, wrong | ~allowed, _value(column))
    return group


def _expiry(problems: Problems, name: str | None, rows: Rows, due: Times, terms: Terms) -> Times | None:
    if name is None or rows.expires is None or rows.expires.null_count == len(rows):
        return None
    expiry = read_times(rows.expires, terms.time_zone)
    _check_time(problems, name, expiry, rows.expires)
    problems.add(f"{name} is not after its delivery", expiry.known & (expiry.ms <= due.ms), _value(rows.expires))
    problems.add(f"{name} is after the year 9999", expiry.ms >= TIMES_END_MS, _value(rows.expires))
    return expiry


def _check_timing(problems: Problems, name: str, due: Times, terms: Terms, rows: Rows) -> None:
    soon = f"{name} is too soon for an import; send it with the SDK instead"
    problems.add(soon, due.ms < terms.earliest_ms, _value(rows.due))
    problems.add(f"{name} is over ten years ahead", due.ms > terms.now_ms + MAX_DELAY_MS, _value(rows.due))
    problems.add(LATE, due.ms < terms.open_ms)


def _short(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:_SHOWN]
