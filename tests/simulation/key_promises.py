"""Checks a key's history for the promises of `docs/keys.md`.

    superseded      an older message does not come once a newer one took its place in time
    duplicates      of two that overlap, and do not replace, one comes
    never too few   the newest comes; or another one for which it was dropped

Cancels, moves and purges take messages away, and free the key: they change what is promised of the others only as far
as `docs/keys.md` says.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.promises import KeyHistory, Promises, Reader, Sent, TopicLife, Violation
from tests.simulation.world import MAX_SKEW_MS


class KeyPromises:
    """The promises of a topic's key.

    Args:
        promised: whether nothing but a cancel, a move or its key can have dropped a message.
        takers: the readers that must get a message.
        must_have: raises Violation unless a reader got one of some messages; the first is at fault.
    """

    def __init__(
        self,
        promises: Promises,
        life: TopicLife,
        history: KeyHistory,
        *,
        promised: Callable[[Sent], bool],
        takers: Callable[[Sent], list[Reader]],
        must_have: Callable[[Sent, Reader, list[Sent]], None],
    ) -> None:
        self._promises, self._life, self._history = promises, life, history
        self._promised, self._takers, self._must_have = promised, takers, must_have

    def check(self) -> None:
        """Checks all promises.

        Raises:
            Violation: one is broken.
        """
        if not self._history.members:
            return
        self._check_superseded()
        if not any(each.replace for each in self._history.members):
            self._check_duplicates()
        self._check_newest()

    # ---- not both
    def _check_superseded(self) -> None:
        for older, newer in self._history.superseded:
            # A cancel that is newer than both drops the newer; if the older was sealed meanwhile, it said so.
            if self._promises.came(older) and not self._history.cancelled_from(newer.sent_ms):
                raise Violation(
                    f"{older.id} came, though {newer.id} had replaced it in time", self._life.name, older.id
                )

    def _check_duplicates(self) -> None:
        came = [each for each in self._history.members if each.ingested_open and self._promises.came(each)]
        came = [each for each in came if not each.purge_doubt]  # a purge frees the key, also of what comes all the same
        for place, first in enumerate(came):
            for second in came[place + 1 :]:
                begin_ms, end_ms = sorted((first.sent_ms, second.sent_ms))
                overlap = end_ms < min(first.deliver_at_ms, second.deliver_at_ms)
                if overlap and not self._freed_between(begin_ms, end_ms):
                    what = f"{first.id} and {second.id} have one key, and both came"
                    raise Violation(what, self._life.name, first.id)

    def _freed_between(self, begin_ms: int, end_ms: int) -> bool:
        """Whether a cancel by the key may have come between two times. A cancel frees the key, in time or not."""
        return any(
            each.from_ms <= end_ms + 2 * MAX_SKEW_MS and each.until_ms >= begin_ms for each in self._history.cancels
        )

    # ---- never too few
    def _check_newest(self) -> None:
        members = self._history.members
        newest = max(members, key=lambda each: (each.sent_ms, each.seq, each.id))
        others = [each for each in members if each is not newest]
        if not newest.accepted or not self._promised(newest) or newest.never or newest.family.doubts:
            return
        if newest.moves is not None and self._promises.sent[newest.moves].never is None:
            return  # it was to take the place of one that was gone: nobody was told that it comes
        bumped = any(each.moves is not None for each in members) or bool(self._history.cancels)
        if bumped and any(each.sent_ms >= newest.sent_ms for each in others):
            return  # moves and cancels count on from the version that they find: one of the same ms may be newer
        if any(self._life.lifts(each, newest) for each in others):
            return
        if not newest.replace and any(self._cancelled_before_ingest(each, newest) for each in others):
            return
        rivals = [] if newest.replace else [each for each in others if self._in_the_way(each, newest)]
        if not all(self._kept(each) for each in rivals):
            return
        for reader in self._takers(newest):
            if all(reader in each.due_from and reader.takes(each) == {True} for each in rivals):
                self._must_have(newest, reader, [newest, *rivals])

    def _in_the_way(self, other: Sent, newest: Sent) -> bool:
        """Whether the newest message may have been dropped as a duplicate of a waiting message."""
        freed = [other.freed] if other.freed is not None else []
        freed += [
            each.answered
            for each in self._history.cancels
            if each.answered is not None and other.sent_ms < each.from_ms
        ]
        if freed and min(freed) < newest.step:
            return False
        # What replaces may have superseded one for which the newest was dropped, and be due before.
        return other.replace or other.deliver_at_ms > newest.sent_ms

    def _cancelled_before_ingest(self, other: Sent, newest: Sent) -> bool:
        """Whether a message that replaces others was cancelled, and came to ingest after the newest was dropped.

        It then replaced the message for which the newest was dropped.
        """
        late = other.ingested is None or newest.tried is None or other.ingested > newest.tried
        return other.replace and other.freed is not None and other.freed < newest.step and late

    def _kept(self, each: Sent) -> bool:
        return self._promised(each) and each.never is None and not each.family.doubts and bool(each.accepted)
