"""Runs one step of a maintenance flow by itself, in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial

from tidewheel.flows.maintenance import orphans, payloads
from tidewheel.flows.maintenance.daily import walk
from tidewheel.flows.maintenance.merge_outputs import UNREADABLE, Writer, Written, in_process
from tidewheel.flows.maintenance.merge_rows import MergeWork
from tidewheel.flows.ports import Ports
from tidewheel.flows.recovery.scan import RebuildEngine, scan_here
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.object_names import PAYLOADS


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Writes one merge after the other by a function for one merge."""

    write: Callable[[MergeWork], Sequence[Bucket]]

    def write_all(self, works: Sequence[MergeWork], /) -> Generator[tuple[int, Written], None, None]:
        """Begins each merge when its outcome is asked for."""
        for place, work in enumerate(works):
            outputs: Sequence[Bucket] = ()
            error = None
            try:
                outputs = self.write(work)
            except UNREADABLE as unreadable:
                error = unreadable
            yield place, Written(outputs=tuple(outputs), error=error)


def write_one(writer: Writer, work: MergeWork) -> tuple[Bucket, ...]:
    """Writes one merge. Returns its outputs that have rows."""
    [(_, written)] = writer.write_all([work])
    if written.error is not None:
        raise written.error
    return written.outputs


def local_engine(ports: Ports) -> RebuildEngine:
    """Returns an engine of rebuilds that works in this process, and reads one ledger after the other."""
    scan = partial(scan_here, ports.objects, lambda: (ports, ports.parallel), threads=0)
    return RebuildEngine(scan=scan, writer=in_process(ports.objects))


def sweep_orphans(ports: Ports) -> orphans.Orphans:
    """Sweeps all orphans at once."""
    found = orphans.Orphans()
    walk(ports, list(orphans._NAMED), orphans._visit(ports, found), most=orphans.MOST_NAMES)
    return found


def sweep_payloads(ports: Ports) -> int:
    """Deletes all bodies at once that no consumer can request any more. Returns how many."""
    deleted: list[int] = []
    walk(ports, [PAYLOADS], lambda _, topic, listed: deleted.append(payloads._sweep_topic(ports, topic, listed)))
    return sum(deleted)
