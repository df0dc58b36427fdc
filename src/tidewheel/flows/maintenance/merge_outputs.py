"""Writes the outputs of merges. Each output is a ledger, and an independent task.

A merge needs no shuffle. Sources are sorted and their segments have first ids, so a task reads only the segments that
overlap its output's window. A task gets only the sources of its window, and reads their segment tables itself. So no
machine ever has the segments of all sources.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from pyroaring import BitMap

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.delivery.load_index import complete
from tidewheel.flows.maintenance.merge_planning import Merge
from tidewheel.flows.maintenance.merge_rows import MergeWork, merged_rows, store_rows
from tidewheel.flows.ports import RUNS_AGAIN, InThisProcess, Tasks
from tidewheel.ledger.bucket import Bucket
from tidewheel.storage.objects import Objects
from tidewheel.storage.read_ahead import THREADS, read_ahead

UNREADABLE = (ObjectMissing, ObjectRefused, CorruptLedger)
"""Errors that name one source. The other sources of a merge can be merged without it."""
_RAW_FACTOR = 3
"""Typical raw bytes of a byte in a ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The outcome of a merge whose tasks have ended.

    Attributes:
        outputs: the ledgers, in the order of their slots. Not all of them, if there is an error.
        error: why an output could not be written; one of UNREADABLE, if a source is to blame.
    """

    outputs: tuple[Bucket, ...]
    error: Exception | None = None


_Result = Bucket | Exception | None
"""Of a task. None: the output has no rows."""


class Writer(Protocol):
    """Writes the outputs of many merges."""

    def write_all(self, works: Sequence[MergeWork], /) -> Generator[tuple[int, Written], None, None]:
        """Yields the place and the outcome of each merge as soon as all of its outputs have ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Writes the outputs of all merges as tasks. A failed or repeated task leaves only orphans.

    Attributes:
        tasks: gives the machines for a number of raw bytes, which is an estimate.
        objects: gives the objects to a task; picklable, unless tasks run in this process.
        threads: requests of a task side by side, ahead of use.
        advance: takes the finished and the total bytes of all tasks.
    """

    tasks: Callable[[int], Tasks]
    objects: Callable[[], Objects]
    threads: int = THREADS
    advance: Callable[[float, float], None] = lambda _done, _total: None

    def write_all(self, works: Sequence[MergeWork], /) -> Generator[tuple[int, Written], None, None]:
        """Begins merges with large outputs first, so that no machine waits long for the end."""
        parts = _ordered([_parts(place, work) for place, work in enumerate(works)])
        counts = Counter(part.place for part in parts)
        found: dict[int, dict[int, _Result]] = {place: {} for place in range(len(works))}
        yield from [(place, _written(found.pop(place))) for place in range(len(works)) if not counts[place]]
        done, total = 0, sum(part.work.merge.live_bytes for part in parts)
        task = _WriteOutput(self.objects, self.threads, tuple(work.cancelled for work in works))
        with closing(self.tasks(_RAW_FACTOR * total).run(task, parts)) as results:
            try:
                for number, result in results:
                    part = parts[number]
                    found[part.place][part.number] = result
                    done += part.work.merge.live_bytes
                    self.advance(done, total)
                    if len(found[part.place]) == counts[part.place]:
                        yield part.place, _written(found.pop(part.place))
            except Exception as error:  # of the engine, which ends
                yield from [(place, _written(outputs | {len(parts): error})) for place, outputs in found.items()]


def in_process(objects: Objects, threads: int = 0) -> SideBySide:
    """Returns a writer that writes outputs in turn, in this process.

    Args:
        threads: requests side by side, ahead of use.
    """
    return SideBySide(tasks=lambda _: InThisProcess(), objects=lambda: objects, threads=threads)


def _written(results: Mapping[int, _Result]) -> Written:
    """Returns the outcome of a merge by the results of its tasks."""
    outputs = (result for _, result in sorted(results.items()) if isinstance(result, Bucket))
    error = next((result for result in results.values() if isinstance(result, Exception)), None)
    return Written(outputs=tuple(outputs), error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """An output of a merge, with the data for the task.

    Attributes:
        place: of the merge among all.
        number: of the output in its merge.
        work: the merge of the sources that touch the output's slots. Their indexes may be incomplete. It has no
            cancelled ids, since all outputs share these.
        content: ends the id of the output's bucket.
        sources: names of all sources of the merge.
    """

    place: int
    number: int
    work: MergeWork
    content: str
    sources: tuple[str, ...]


def _parts(place: int, work: MergeWork) -> list[_Part]:
    merge = work.merge
    names = tuple(sorted(source.object_name for source in merge.sources))
    found = []
    for number, window in enumerate(merge.windows):
        first, end = window.first_slot, window.end_slot
        touching = [source for source in merge.sources if source.occupies(first, end)]
        if touching:
            size = int(sum(source.size_bytes * source.share(first, end) for source in touching)) // window.shares
            # Without the slots, which nobody needs to read rows.
            narrow = Merge(
                sources=tuple(replace(source, slots=BitMap()) for source in touching),
                windows=(window,),
                live_bytes=size,
            )
            found.append(
                _Part(
                    place=place,
                    number=number,
                    work=replace(work, merge=narrow, cancelled=b""),
                    content=merge.output_id(window),
                    sources=names,
                )
            )
    return found


def _ordered(merges: Iterable[list[_Part]]) -> list[_Part]:
    """Returns the parts merge by merge, so that the first merges end early. The largest come first."""
    each = [sorted(parts, key=lambda part: -part.work.merge.live_bytes) for parts in merges if parts]
    return [part for parts in sorted(each, key=lambda parts: -parts[0].work.merge.live_bytes) for part in parts]


@dataclass(frozen=True, slots=True)
class _WriteOutput:
    """The task of an output. Each run writes a new object, so a repeated or uncommitted run harms nothing.

    Attributes:
        objects, threads: see `SideBySide`.
        cancelled: the cancelled ids of each merge. Merges of a topic share them, so they are pickled once.
    """

    objects: Callable[[], Objects]
    threads: int
    cancelled: tuple[bytes, ...]

    def __call__(self, part: _Part) -> _Result:
        """Returns the output's bucket as an item holds it, None for no rows, or the error.

        Raises:
            Exception: the task may succeed when it runs again.
        """
        try:
            return self._write(part)
        except UNREADABLE as error:
            return error
        except Exception as error:
            if RUNS_AGAIN.get():
                raise
            return _portable(error)

    def _write(self, part: _Part) -> Bucket | None:
        objects, merge = self.objects(), part.work.merge
        sources = tuple(read_ahead(partial(complete, objects), merge.sources, threads=self.threads))
        work = replace(part.work, merge=replace(merge, sources=sources), cancelled=self.cancelled[part.place])
        output = store_rows(
            objects,
            merged_rows(objects, work, merge.windows[0], self.threads),
            topic=work.state.topic,
            generation=work.state.generation,
            settings=work.state.settings,
            content=part.content,
            sources=part.sources,
        )
        if output is None:
            return None
        return replace(output, checked_ms=max(output.checked_ms, work.now_ms)).without_tail()


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
