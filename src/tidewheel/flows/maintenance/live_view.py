"""Writes the live view of a topic, by which other programs read its waiting messages from S3 alone.

A view is a CSV file, compressed with gzip, with three kinds of rows:

    ledger,cancelled,first_ms,end_ms,sent_before_ms
    ledgers/orders/2026-01-02/000005891043-....parquet,,,,   a ledger that is in force
    ,019B7A3C5D6E7F8091A2B3C4D5E6F708,,,                     the id of a cancelled message
    ,,0,1767399600000,9223372036854775807                    a range of messages that are planned or purged

Messages due in first_ms <= t < end_ms and sent before sent_before_ms are in the range. The view is one object, so that
its rows are of one moment. Ledgers are deleted LAG_MS after they left the view or later, for queries that read them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from io import BytesIO, TextIOWrapper

from tidewheel import deadline
from tidewheel.errors import ObjectMissing
from tidewheel.flows.ports import Ports
from tidewheel.ledger.schema import VIEW_COLUMNS
from tidewheel.model.message import id_bytes
from tidewheel.model.object_names import view_name
from tidewheel.model.topic_state import ALL_SEALED, TopicState

LAG_MS = 3_600_000
LEAST_MS = 60_000
"""The least time between two views of a topic. A sweep, which comes every five minutes, writes at most one."""
LONGEST_MS = 1_800_000
"""The longest time between two views. A query that begins with the older one has at least 25 minutes of LAG_MS left."""
_PAUSE_MS = 10
"""Added to LEAST_MS for each row of the view. So a topic with many rows costs at most six dollars a month."""
_WRITE_S = 45
"""How long a view may take: a sweep has a minute for the work that it has begun."""
_MOST_SKEW_MS = 900_000
"""How far the clock of a merge job may be off: AWS refuses requests that are signed by a clock with a larger error."""
_EVER_MS = 2**63 - 1


def write_view(ports: Ports, topic: str) -> None:
    """Writes a topic's live view if it changed, or deletes the view if the topic is to have none.

    If it stops
        before the view: the next sweep writes it.
        after the view: the next sweep finds that nothing changed.

    A view that cannot be written is tried again after LONGEST_MS.

    Raises:
        CorruptMetadata: a bucket cannot be read. The view stays as it is.
        OutOfTime: there are more ledgers and cancelled messages than can be read in time.
    """
    state = ports.topic_states.read(topic)
    if state is None:
        return
    name = view_name(topic)
    if not state.settings.live_view:
        ports.objects.delete([name])
        _set_next(ports, topic, None)
        return
    try:
        with deadline.within(_WRITE_S):
            view, rows = _compressed(_rows(ports, state))
            if not _is_stored(ports, name, view):
                ports.objects.put(name, view)
    except Exception:
        _set_next(ports, topic, ports.clock.now_ms() + LONGEST_MS)
        raise
    pause_ms = min(LONGEST_MS, LEAST_MS + rows * _PAUSE_MS)
    _set_next(ports, topic, ports.clock.now_ms() + pause_ms)


def _set_next(ports: Ports, topic: str, view_at_ms: int | None) -> None:
    """Sets when the next view is written. If the topic changes meanwhile, the next sweep looks at the view again.

    If the setting changed since the view was written or deleted, the time stays as the change has set it.
    """
    state = ports.topic_states.read(topic)
    if state is not None and bool(state.settings.live_view) == (view_at_ms is not None):
        ports.topic_states.set_view_at(state, view_at_ms)


def _compressed(rows: Iterable[str]) -> tuple[bytes, int]:
    """Returns the compressed rows and their number. The same rows give the same bytes, and only these are in memory."""
    count, view = 0, BytesIO()
    with TextIOWrapper(gzip.GzipFile(fileobj=view, mode="wb", compresslevel=1, mtime=0), "ascii") as lines:
        for row in rows:
            lines.write(f"{row}\n")
            count += 1
    return view.getvalue(), count


def _rows(ports: Ports, state: TopicState) -> Iterator[str]:
    ledgers, state = _in_force(ports, state)
    planned = [(0, state.planned * state.slot_ms, _EVER_MS), (0, _EVER_MS, state.purge_ms)]
    ranges = [*planned, *((each.first_ms, each.end_ms, each.sent_before_ms) for each in state.purges)]
    yield ",".join(VIEW_COLUMNS)
    yield from (f"{name},,,," for name in ledgers)
    yield from (f",,{first_ms},{end_ms},{sent_before_ms}" for first_ms, end_ms, sent_before_ms in ranges)
    # Read after the ledgers, as by a peek: a message of theirs that was cancelled meanwhile is left out.
    cancelled = ports.tombstones.in_order(state.topic, state.planned, ALL_SEALED)
    yield from (f",{id_bytes(each).hex().upper()},,," for each in cancelled)


def _in_force(ports: Ports, state: TopicState) -> tuple[list[str], TopicState]:
    """Returns the ledgers in force, and the topic state as read after them.

    Of a swap meanwhile, neither sources nor outputs may have been read. The sources are then in the trash. A query that
    reads both shows each message once.
    """
    begun_ms = ports.clock.now_ms()
    buckets = ports.buckets.in_order(state.topic)
    ledgers = [each.object_name for each in buckets if each.last_slot >= state.planned]
    current = ports.topic_states.existing(state.topic)
    if current.swap_version != state.swap_version:
        for trash in ports.merges.trash(state.topic):
            if trash.put_ms >= begun_ms - _MOST_SKEW_MS:
                ledgers += trash.objects
    return ledgers, current


def _is_stored(ports: Ports, name: str, view: bytes) -> bool:
    try:
        return ports.objects.get_range(name, 0, len(view) + 1) == view
    except ObjectMissing:
        return False
