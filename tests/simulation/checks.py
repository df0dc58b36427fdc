"""Checks of a healed world after enough time has passed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.key_promises import KeyPromises
from tests.simulation.promises import Promises, Reader, Repeated, Sent, TopicLife, Violation
from tests.simulation.world import MAX_SKEW_MS, START_MS, World
from tests.stored import stored
from tidewheel.ledger.rows import text_bytes
from tidewheel.model.message import MessageId, id_text
from tidewheel.model.recurring import occurrence_id

_KINDS = ("buckets", "plans", "deliveries", "parks", "trash", "recurring")
_ROW_BYTES = 24
"""Of a row, besides its text: its id and times."""


class Checks:
    """The checks of a world.

    Args:
        calm: whether nothing went wrong in the run: then every message comes once.
    """

    def __init__(self, world: World, *, calm: bool) -> None:
        self._world = world
        self._calm = calm

    @property
    def _promises(self) -> Promises:
        return self._world.promises

    def all(self) -> None:
        """Checks everything.

        Raises:
            Violation: a promise was broken.
        """
        for sent in self._promises.sent.values():
            self._check_sent(sent)
        for life in self._promises.lives:
            if life.ending:
                continue
            for reader in life.readers:
                self._check_replays(life, reader)
            for history in life.keys.values():
                KeyPromises(
                    self._promises,
                    life,
                    history,
                    promised=self._is_promised,
                    takers=self._takers,
                    must_have=self._must_have,
                ).check()
            for rule in life.repeated.values():
                self._check_rule(life, rule)
        self._check_nothing_left()

    # ---- messages
    def _check_sent(self, sent: Sent) -> None:
        for reader in sent.topic.readers:
            count = self._promises.copies[reader.queue_url, sent.id]
            if self._counted and count > self._most(reader, sent.id, sent.deliver_at_ms, sent.topic.slot_ms):
                raise Violation(f"{sent.id} came {count} times to {reader.name}", sent.topic.name, sent.id)
        if not sent.accepted or not self._is_promised(sent):
            return
        for reader in self._takers(sent):
            if self._comes(sent):
                self._must_have(sent, reader, [sent])
            elif sent.moves is None and not sent.family.cancels and not sent.key:
                # Somebody was to move it and got no answer: it or what was to take its place has come.
                members = list(self._promises.family(sent))
                if all(self._is_promised(each) for each in members):
                    self._must_have(sent, reader, members)

    @property
    def _counted(self) -> bool:
        return self._calm or self._world.lasting is not None

    def _most(self, reader: Reader, message_id: MessageId, due_ms: int, slot_ms: int) -> int:
        """Returns the maximum number of copies of a message, including repeats after an unanswered send."""
        return reader.most_copies(due_ms, slot_ms) + self._world.excused[reader.queue_url, message_id]

    def came(self, until_ms: int) -> None:
        """Checks that each message due until a time has reached all readers that were never paused.

        Raises:
            Violation: one has not come.
        """
        for sent in self._promises.sent.values():
            if sent.accepted and sent.deliver_at_ms <= until_ms and self._is_promised(sent) and self._comes(sent):
                for reader in self._takers(sent):
                    if not reader.hindered:
                        self._must_have(sent, reader, [sent])

    def few_dead_bytes(self, until_ms: int, slack_bytes: int) -> None:
        """Checks that the ledgers of a topic hold at most slack_bytes more dead bytes than live bytes.

        Dead is here what was due before a time. What was cancelled, purged or expired counts as live. Objects that
        nothing names are left out: the orphan sweep deletes them.

        Raises:
            Violation: a topic stores more.
        """
        objects = self._world.service.objects
        for topic, items in stored(self._world.service).topics().items():
            named = {bucket.object_name for bucket in items.buckets.values()}
            named |= {name for trash in items.trash.values() for name in trash.objects}
            held, live = 0, 0.0
            for each in (each for each in objects.list(f"ledgers/{topic}/") if each.name in named):
                rows = pq.read_table(pa.BufferReader(objects.get_range(each.name, 0, each.size_bytes)))
                sizes = text_bytes(rows) + _ROW_BYTES
                held += each.size_bytes
                live += each.size_bytes * sizes[rows["deliver_at_ms"].to_numpy() >= until_ms].sum() / sizes.sum()
            self._world.exercised["check: topics with live and dead bytes"] += int(0 < live < held)
            if held > 2 * live + slack_bytes:
                raise Violation(f"{topic} stores {held:,} bytes, of which {live:,.0f} are live", topic)

    def _check_replays(self, life: TopicLife, reader: Reader) -> None:
        if reader.ended:
            return
        for message_id in {each for replaying in reader.replays for each in replaying.before}:
            sent = self._promises.sent[message_id]
            if not (self._is_promised(sent) and reader.takes(sent) == {True}) or sent.never or sent.family.doubts:
                continue
            before = max(each.before.get(message_id, 0) for each in reader.replays)
            if self._promises.copies[reader.queue_url, message_id] <= before:
                raise Violation(f"{sent.id} was not replayed to {reader.name}", life.name, sent.id)

    def _is_promised(self, sent: Sent) -> bool:
        """Whether only a cancel, a move or the key can have dropped a message.

        What expires is promised where all is calm, if it was handed out before it can have expired.
        """
        if sent.topic.ending or sent.purge_doubt:
            return False
        if sent.expires_at_ms is None:
            return True
        if sent.accepted_ms is None:
            return False
        from_ms = max(sent.deliver_at_ms, sent.accepted_ms)
        if not self._calm:
            return False
        return sent.expires_at_ms > from_ms + self._world.most_late_ms(sent.deliver_at_ms) + MAX_SKEW_MS

    def _comes(self, sent: Sent) -> bool:
        return sent.never is None and not sent.family.doubts and sent.key is None

    def _takers(self, sent: Sent) -> list[Reader]:
        """Returns the readers that must get a message. A late message may have expired."""
        return [
            each
            for each in sent.due_from
            if not each.ended and each.takes(sent) == {True} and not (sent.expires_at_ms is not None and each.hindered)
        ]

    def _must_have(self, sent: Sent, reader: Reader, members: list[Sent]) -> None:
        for each in members:
            kept = (reader.queue_url, each.id) in self._promises.refused
            if kept if each.refused else self._promises.copies[reader.queue_url, each.id]:
                return
        due_s = (sent.deliver_at_ms - START_MS) / 1000
        other = "" if len(members) == 1 else f", nor any of {[each.id for each in members[1:]]}"
        raise Violation(f"{sent.id}, due {due_s:.3f} s, never came to {reader.name}{other}", sent.topic.name, sent.id)

    # ---- recurring messages
    def _check_rule(self, life: TopicLife, rule: Repeated) -> None:
        if rule.made_ms is None:
            return
        assert rule.planned is not None, "every rule is ended before the end"
        until_ms = max(rule.first_ms, rule.planned * life.slot_ms)
        for due_ms in rule.rule.between(rule.made_ms + 1000, until_ms, 10_000):
            if self._may_be_purged(life, rule, due_ms):
                continue
            message_id = id_text(occurrence_id(rule.generation, rule.name, due_ms))
            for reader in rule.due_from:
                if reader.ended or reader.takes_colour(rule.colour) != {True}:
                    continue
                count = self._promises.copies[reader.queue_url, message_id]
                if not count:
                    raise Violation(
                        f"{message_id} of {rule.name}, due {(due_ms - START_MS) // 1000} s: not to {reader.name}",
                        life.name,
                        rule.name,
                    )
                if self._counted and count > self._most(reader, message_id, due_ms, life.slot_ms):
                    raise Violation(f"{message_id} of {rule.name} came {count} times", life.name, rule.name)

    def _may_be_purged(self, life: TopicLife, rule: Repeated, due_ms: int) -> bool:
        """Whether a purge may drop an occurrence. A planned occurrence counts as sent at its planning, which is not
        before its slot can be sealed. The first occurrences count as sent by their maker."""
        slot_begins_ms = due_ms // life.slot_ms * life.slot_ms
        sent_ms = 0 if due_ms < rule.first_ms else slot_begins_ms - life.lookahead_ms - 2 * MAX_SKEW_MS
        return any(each.first_ms <= due_ms < each.end_ms and sent_ms < each.sent_before_ms for each in life.purges)

    # ---- nothing is left
    def _check_nothing_left(self) -> None:
        service = self._world.service
        for topic, items in stored(service).topics().items():
            for kind in _KINDS:
                left = getattr(items, kind)
                self._require(not left, lambda kind=kind, left=left: f"{kind} are left: {left}", topic)  # type: ignore[misc]
            if items.state is not None:
                # Those of an idle topic, which has nothing to collect, are deleted by the table's TTL.
                now_s = self._world.now_ms // 1000
                kept = [each for each in items.tombstones.values() if each.ttl_s >= now_s]
                self._require(not kept, lambda kept=kept: f"tombstones are kept: {kept}", topic)  # type: ignore[misc]
            else:
                left = service.objects.names(f"checkpoints/{topic}/")
                self._require(not left, lambda left=left: f"of a deleted topic are left: {left}", topic)  # type: ignore[misc]
        left = [name for name in service.objects.names() if not name.startswith(("checkpoints/", "aside/"))]
        self._require(not left, lambda: f"objects are left: {left}", *(name.split("/")[1] for name in left[:1]))

    def _require(self, holds: bool, what: Callable[[], str], *about: str) -> None:
        if not holds:
            raise Violation(" ".join((*about, what())), *about)
