"""Restores keys from ledgers and a checkpoint.

Ledgers have the key, the id and the sending time of each waiting message. A checkpoint has what ledgers have not: keys
that were cancelled or replaced lately, and keys of sealed messages that are not due yet.

The newest message that comes has its key. A message does not count if it was cancelled or purged. Every other message
of the key that comes too, such as one that was sealed before its replacement, is remembered by `tail_ms`, so that a
cancel by key does not promise that it does not come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.errors import ConcurrentModification
from tidewheel.flows.ports import Parallel
from tidewheel.model.checkpoint import Checkpoint
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import id_bytes, id_deliver_at_ms, id_text
from tidewheel.model.recurring import is_occurrence
from tidewheel.model.tombstone import tombstone, ttl_s
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage

_ATTEMPTS = 50
_ID_TYPE = pa.binary(16)


KeyPorts = tuple[Storage, Parallel]
"""The stored state that restoring changes, and a mapper that runs calls side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRestore:
    """The data that decides about keys.

    Attributes:
        state: the topic state to start again with.
        dead: ids of messages that surely do not come.
        now_ms: the current time.
    """

    state: TopicState
    dead: frozenset[bytes]
    now_ms: int

    @classmethod
    def of(cls, checkpoint: Checkpoint, state: TopicState, now_ms: int) -> KeyRestore:
        """Returns a checkpoint's data about keys. An uncertain tombstone of a sealed slot may have come too late."""
        dead = (each.id for each in checkpoint.tombstones if each.certain or each.slot >= state.sealed)
        return cls(state=state, dead=frozenset(map(id_bytes, dead)), now_ms=now_ms)

    def put(self, ports: Callable[[], KeyPorts], rows: pa.Table, known: Iterable[KeyEntry]) -> int:
        """Puts the entries of all keys, or of some keys. Entries in the table stay, since they are newer.

        A cancel by key may have come while the topic was away, and found no message. It takes effect now, if the slot
        of the message is open: the caller may have been told so.

        If it stops between a tombstone and its entry, a repetition does the same.

        Args:
            ports: called if there is an entry.
            rows: all rows with these keys of the ledgers that count, with the columns of `scan.KEYED`.
            known: the checkpoint's entries of these keys.

        Returns:
            How many entries.
        """
        entries = list(self._entries(rows, known))
        if entries:
            storage, parallel = ports()
            parallel(lambda entry: self._put(storage, entry), entries)
        return len(entries)

    def _entries(self, rows: pa.Table, known: Iterable[KeyEntry]) -> Iterator[KeyEntry]:
        left = {each.key: each for each in known}
        if rows.num_rows and self.dead:
            dead = pa.array(sorted(self.dead), _ID_TYPE)
            rows = rows.filter(pc.invert(pc.is_in(rows.column("message_id"), dead)))
        rows = rows.sort_by([("key", "ascending"), ("sent_at_ms", "ascending"), ("message_id", "ascending")])
        columns = (rows.column(name).to_pylist() for name in ("key", "sent_at_ms", "message_id"))
        for key, group in groupby(zip(*columns, strict=True), itemgetter(0)):
            waiting = {
                id: sent_ms
                for _, sent_ms, id in group
                # The name of a recurring message is no key.
                if not is_occurrence(id) and not self.state.purged(id_deliver_at_ms(id), sent_ms)
            }
            if waiting:
                yield self._entry(key, waiting, left.pop(key, None))
        yield from left.values()

    def _entry(self, key: str, waiting: dict[bytes, int], known: KeyEntry | None) -> KeyEntry:
        """Returns the entry of a key with messages in ledgers.

        Args:
            key: the key.
            waiting: ids -> sending times, the newest last.
            known: the checkpoint's entry.
        """
        id, sent_ms = next(reversed(waiting.items()))
        # A ledger does not have the sender's count. 0 loses against a message of the same millisecond.
        entry = KeyEntry(
            key=key, id=id_text(id), sent_ms=sent_ms, seq=0, ttl_s=ttl_s(id_deliver_at_ms(id), self.now_ms)
        )
        if known is not None and known.id is not None and known.sent_ms >= sent_ms:
            entry = known
        elif known is not None and known.id is None and known.sent_ms >= sent_ms:
            entry = replace(known, id=entry.id, ttl_s=max(known.ttl_s, entry.ttl_s))
        elif known is not None:
            entry = replace(entry, floor=known.floor, tail_ms=known.tail_ms)
            if known.id is not None and self._sealed(known.deliver_at_ms):
                waiting = {id_bytes(known.id): known.sent_ms, **waiting}
        others = (id_deliver_at_ms(each) for each in waiting if id_text(each) != entry.id)
        tail_ms = max((each for each in others if each > self.now_ms), default=0)
        return replace(entry, tail_ms=max(entry.tail_ms, tail_ms))

    def _sealed(self, due_ms: int) -> bool:
        return due_ms // self.state.slot_ms < self.state.sealed

    def _put(self, storage: Storage, entry: KeyEntry) -> None:
        topic, slot_ms = self.state.topic, self.state.slot_ms
        for _ in range(_ATTEMPTS):
            found = storage.keys.claim(topic, entry)
            if found is None or found.id is not None or entry.id is None:
                return
            if found.version[:2] < entry.version[:2]:
                following = replace(entry, floor=max(entry.floor, found.floor))
            else:
                following = replace(found, id=entry.id, tail_ms=entry.tail_ms, ttl_s=max(found.ttl_s, entry.ttl_s))
                if not self._sealed(entry.deliver_at_ms):
                    storage.tombstones.put(topic, tombstone(entry.id, slot_ms, self.now_ms))
            if storage.keys.move(topic, found, following, None):
                return
        raise ConcurrentModification("restore key", topic, _ATTEMPTS)
