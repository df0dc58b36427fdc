"""Reports of a rebuild or a dry run, as values and as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from tidewheel.ledger.inspection import Damage


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """The result of a rebuild, or the findings of a dry run.

    Attributes:
        objects, size_bytes: under the topic's prefix.
        checkpoint_ms: when the checkpoint was written from which the rebuild started; None if there is none.
        from_ms: from when on everything is planned again.
        keys: restored keys.
        live, rows: ledgers that count, and their messages.
        dropped: outputs of merges whose sources are there, and copies.
        foreign: ledgers of another topic, or of another generation of the topic.
        damaged: unreadable data; a rebuild has moved these objects aside.
        overlapping: ledgers that share messages; a rebuild has rewritten each group as one.
        missing: ledgers that the table names, and that are gone.
        lost: what the table has not, in words, though the checkpoint or the objects have it.
        orphaned: objects that the table does not name; `old_orphans` of them are older than the grace.
        differing: ledgers that disagree with the table, and how.
    """

    topic: str
    dry_run: bool = False
    objects: int
    size_bytes: int
    checkpoint_ms: int | None
    from_ms: int | None = None
    subscriptions: tuple[str, ...] = ()
    tombstones: int = 0
    keys: int = 0
    live: int = 0
    rows: int = 0
    dropped: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    damaged: tuple[Damage, ...] = ()
    overlapping: tuple[tuple[str, ...], ...] = ()
    missing: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    old_orphans: int = 0
    differing: tuple[tuple[str, str], ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether table and objects agree. Orphans do no harm."""
        return not (self.missing or self.lost or self.differing or self.overlapping or self.damaged)

    def lines(self) -> Iterator[str]:
        """Yields the report for people."""
        yield f"topic {self.topic}: {self.objects:,} objects, {self.size_bytes / 1e6:,.1f} MB"
        written = "none" if self.checkpoint_ms is None else f"of {_utc(self.checkpoint_ms)}"
        subscriptions = ", ".join(self.subscriptions) or "names no subscriptions"
        yield f"checkpoint: {written}; {subscriptions}; {self.tombstones:,} cancelled messages"
        done = "count" if self.dry_run else "make the new index"
        yield f"{self.live:,} ledgers with {self.rows:,} messages {done}"
        if self.from_ms is not None:
            yield f"messages due from {_utc(self.from_ms)} on are planned {'' if self.dry_run else 'again'}".rstrip()
        if self.keys:
            yield f"{self.keys:,} keys"
        for damage in self.damaged:
            lost = "all of it" if damage.lost_rows is None else f"{damage.lost_rows:,} messages"
            yield f"damaged, {lost} lost unless another ledger has them: {damage.object_name}: {damage.reason}"
        for names in self.overlapping:
            yield f"share messages: {', '.join(names)}"
        yield from (f"missing: {name}" for name in self.missing)
        yield from (f"differs: {name}: {how}" for name, how in self.differing)
        yield from (f"of another generation, left alone: {name}" for name in self.foreign)
        if self.dropped:
            yield f"{len(self.dropped):,} ledgers hold copies of others only"
        if self.orphaned:
            yield f"{len(self.orphaned):,} objects that nothing names, {self.old_orphans:,} of them over a day old"
        yield from (f"not in the table: {what}" for what in self.lost)
        if self.dry_run:
            yield "table and objects agree" if self.agrees else "table and objects disagree"


def _utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
