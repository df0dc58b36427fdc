"""Maps the rows of an input to a ledger's columns, and finds the problems of each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.attributes import read_attributes
from tidewheel.jobs.importing.parts import read_part
from tidewheel.jobs.importing.rejects import columns_of, reject_line
from tidewheel.jobs.importing.streams import check_expanded, explained
from tidewheel.jobs.importing.texts import decoded, is_bytes, lengths_of, refused, true_of, valid_text
from tidewheel.jobs.importing.times import Times, read_times
from tidewheel.jobs.importing.values import attribute_texts, payloads, shown
from tidewheel.jobs.importing.work import FileProblem, Mask, Part, Rows, Work
from tidewheel.ledger.rows import SCHEMA, Int64s
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import MAX_MESSAGE_BYTES, TIMES_END_MS, Encoding
from tidewheel.model.validation import GROUP, MAX_KEY_CHARACTERS

COLUMNS = pa.schema([field.with_nullable(True) for field in SCHEMA if field.name != "message_id"])
"""The columns of a ledger, without ids."""
_AS_TEXT = "write it as text"
_TOO_SOON = "is too soon for an import; send it with the SDK instead"
_SHOWN = 100
_MOST_SHOWN = 1_000
_MOST_BYTES = 64 * 1024 * 1024
"""Bytes of rows that are checked together. A dictionary may repeat values without end."""
_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}\x{fffe}\x{ffff}]"

Show = Callable[[int], object]
Problems = list[tuple[str, Mask, Show | None]]
"""Kinds of problems, each with its rows, and what to show of a row. The first problem of a row counts."""
_Found = tuple[dict[str, pa.Array], Int64s, Problems]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Some rows, of which the good ones are in a ledger's columns.

    Attributes:
        table: the good rows, without ids.
        weights: approximate bytes of each good row.
        rejected: the other rows by kind of problem.
        lines: the other rows as lines, if they are wanted.
        raw_bytes: approximate bytes of all rows.
        failed: problems of files that cannot be read, by name. What was read of them is of no use.
    """

    table: pa.Table = field(default_factory=COLUMNS.empty_table)
    weights: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    rejected: Counter[str] = field(default_factory=Counter)
    lines: list[bytes] = field(default_factory=list)
    raw_bytes: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def read_parts(work: Work, parts: Sequence[Part]) -> Iterator[int | Checked]:
    """Yields the place of each part before it is read, and its checked rows. A problem of a file ends its part."""
    for place, part in enumerate(parts):
        yield place
        try:
            yield from read_checked(work, part)
        except FileProblem as problem:
            yield Checked(failed={part.file.name: str(problem)})
        except MemoryError:
            why = "it needs too much memory; make smaller row groups, pages and values, or split the file"
            yield Checked(failed={part.file.name: why})


def read_checked(work: Work, part: Part) -> Iterator[Checked]:
    """Reads and checks the rows of a part.

    Raises:
        FileProblem: the file cannot be read.
    """
    expanded = 0
    with explained("it"):
        for rows in read_part(work.source, part, work.options):
            for checked in checked_rows(work, rows, part.file.name):
                if part.file.format == "parquet":  # a dictionary repeats values; readers of text bound the text
                    expanded += checked.raw_bytes
                    check_expanded(part.file, expanded)
                yield checked


def checked_rows(work: Work, rows: Rows, file: str | None = None) -> Iterator[Checked]:
    """Checks rows. A row with a value that cannot be held is rejected."""
    try:
        columns, weights, problems = check(rows, work)
        is_too_much = len(rows) > 1 and weights.sum() > _MOST_BYTES
    except Exception as error:
        columns, weights, problems = _unreadable(error)
        is_too_much = len(rows) > 1
    if is_too_much:
        half = len(rows) // 2
        yield from checked_rows(work, _slice(rows, 0, half), file)
        yield from checked_rows(work, _slice(rows, half, len(rows)), file)
        return
    first = np.select([wrong for _, wrong, _ in problems], range(len(problems)), -1)
    good = first < 0
    rejected = Counter(problems[place][0] for place in first[~good].tolist())
    rejected.update(kind for _, kind, _ in rows.malformed)
    yield Checked(
        table=pa.table(columns).filter(pa.array(good)) if rejected else pa.table(columns),
        weights=weights[good],
        rejected=rejected,
        lines=list(_lines(rows, problems, first, file)) if work.options.rejects is not None else [],
        raw_bytes=int(weights.sum()),
    )


def _lines(rows: Rows, problems: Problems, first: Int64s, file: str | None) -> Iterator[bytes]:
    """Yields the rejected rows as lines."""
    mapped = rows.columns.names
    for place, kind, text in rows.malformed:
        given = {} if "row" in place else columns_of(text)  # of JSON lines
        reason = f"{kind}: {text[:_MOST_SHOWN]}{'...' * (len(text) > _MOST_SHOWN)}"
        yield reject_line(file, place, given, reason, mapped)
    for row in np.flatnonzero(first >= 0).tolist():
        kind, _, show = problems[first[row]]
        value = "" if show is None else _short(show(row))
        yield reject_line(file, rows.place(row), rows.given(row), f"{kind}: {value}" if value else kind, mapped)


def _slice(rows: Rows, start: int, end: int) -> Rows:
    return replace(
        rows,
        values={field: column[start:end] for field, column in rows.values.items()},
        encoding=rows.encoding[start:end],
        wrong={kind: wrong[start:end] for kind, wrong in rows.wrong.items()},
        place=lambda row: rows.place(start + row),
        given=lambda row: rows.given(start + row),
        malformed=[] if start else rows.malformed,
    )


def _unreadable(error: Exception) -> _Found:
    """Returns the findings of one row."""
    nulls = {field.name: pa.nulls(1, field.type) for field in COLUMNS}
    return nulls, np.ones(1, np.int64), [("a value cannot be read", np.ones(1, bool), lambda _: error)]


def check(rows: Rows, work: Work) -> _Found:
    """Maps and checks rows. Returns a ledger's columns without ids, the approximate bytes of each row, and problems.

    Raises:
        FileProblem: Python or JSON cannot hold a value.
    """
    count, names, problems = len(rows), rows.columns, Problems()
    given = {field: rows.values.get(field, pa.nulls(count)) for field in asdict(names)}
    due = _time(problems, names.deliver_at, given["deliver_at"], work)
    problems.append((f"{names.deliver_at} is missing", ~due.known, None))
    problems += [(kind, wrong, None) for kind, wrong in rows.wrong.items()]
    with explained(names.body, _AS_TEXT):
        payload = payloads(given["body"])
    lengths = lengths_of(payload)
    problems.append((f"{names.body} is missing", lengths == 0, None))
    as_bytes = rows.encoding == Encoding.BYTES
    if not as_bytes.all():
        wrong = refused(payload) & ~as_bytes
        problems.append((f"{names.body} has characters that SQS refuses; give bytes", wrong, _value(payload)))
    with explained(names.attributes, _AS_TEXT):
        attributes = read_attributes(attribute_texts(given["attributes"]))
    problems += [(f"{names.attributes} {kind}", wrong, attributes.show) for kind, wrong in attributes.problems.items()]
    key, wrong = _texts(given["key"])
    wrong |= true_of(pc.greater(pc.utf8_length(key), MAX_KEY_CHARACTERS))
    wrong |= true_of(pc.match_substring_regex(key, _CONTROLS))
    kind = f"{names.key} is over {MAX_KEY_CHARACTERS} characters, or has control characters"
    problems.append((kind, wrong, _value(given["key"])))
    more = attributes.size + _json_lengths(key)
    size = np.where(as_bytes, -(-lengths // 3) * 4, lengths) + more
    kind = f"{names.body} is too large: SQS takes {MAX_MESSAGE_BYTES} with attributes and key (bytes as base64)"
    problems.append((kind, size > MAX_MESSAGE_BYTES, lambda row: f"{size[row]} bytes"))
    group, wrong = _texts(given["group"])
    wrong |= true_of(pc.invert(pc.match_substring_regex(group, GROUP)))
    kind = f"{names.group} is not 1 to 128 ASCII letters, digits and punctuation, without spaces"
    problems.append((kind, wrong, _value(given["group"])))
    expiry = _time(problems, names.expires_at, given["expires_at"], work)
    value, late = _value(given["deliver_at"]), _value(given["expires_at"])
    problems += [
        (f"{names.expires_at} is not after its delivery", expiry.known & (expiry.ms <= due.ms), late),
        (f"{names.expires_at} is after the year 9999", expiry.ms >= TIMES_END_MS, late),
        (f"{names.deliver_at} {_TOO_SOON}", due.ms < work.earliest_ms, value),
        (f"{names.deliver_at} is over ten years ahead", due.ms > work.now_ms + MAX_DELAY_MS, value),
    ]
    made = {
        "deliver_at_ms": pa.array(due.ms),
        "key": key,
        "attributes": attributes.maps,
        "payload": payload,
        "encoding": pa.array(rows.encoding),
        "sent_at_ms": pa.array(np.full(count, work.now_ms)),
        "message_group": group,
        "expires_at_ms": pa.array(expiry.ms, mask=~expiry.known),
    }
    return made, lengths + more + 48, problems


def _value(column: pa.Array) -> Show:
    return lambda row: shown(column, row)


def _time(problems: Problems, name: str | None, column: pa.Array, work: Work) -> Times:
    times = read_times(column, work.options.time_zone)
    problems.append((f"{name} has no time zone; add one, or give --time-zone", times.no_zone, _value(column)))
    problems.append((f"{name} is not a time", times.not_a_time, _value(column)))
    return times


def _json_lengths(key: pa.StringArray) -> Int64s:
    """Returns the bytes of keys as JSON in Tidewheel's attribute."""
    escaped = pc.add(pc.count_substring(key, '"'), pc.count_substring(key, "\\"))
    size = pc.fill_null(pc.add(pc.add(pc.binary_length(key), escaped), 2), 0)
    return size.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _texts(column: pa.Array) -> tuple[pa.StringArray, Mask]:
    """Returns a column as text, null where it is empty, and which values are not UTF-8."""
    column = decoded(column)
    text, bad = valid_text(column if is_bytes(column.type) else column.cast(pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text), bad


def _short(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text[:_SHOWN]
