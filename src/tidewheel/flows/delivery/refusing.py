"""Refuses messages of the service's own queues that no retry can help."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidewheel.errors import (
    BadMessage,
    CorruptPack,
    NewerRelease,
    TopicReplaced,
    UnknownTopic,
    WrongQueue,
)
from tidewheel.flows.ports import Ports
from tidewheel.model import object_names
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.plain import PREFIX, BadPart
from tidewheel.model.received import QueuedMessage
from tidewheel.model.refused import reference, refused_document
from tidewheel.model.triggers import UNKNOWN_WAIT_S
from tidewheel.model.untrusted import json_text

_HOPELESS = (BadMessage, CorruptPack, TopicReplaced, WrongQueue)
"""Errors of a pack that are the same in each try."""
_AWAY = "away"
"""The note of when a topic's last rebuild began. A rebuild deletes the topic's state for a while."""


def away_since_s(ports: Ports, topic: str) -> int:
    """Returns when the last rebuild of a topic began, in seconds of Unix time, or 0."""
    note = ports.notes.read(topic, _AWAY)
    return 0 if note is None else note.number


def note_away(ports: Ports, topic: str) -> None:
    """Notes that a rebuild of a topic begins. The note outlives the wait for the topic."""
    now_s = ports.clock.now_ms() // 1000
    ports.notes.put(topic, _AWAY, now_s, now_s + 2 * UNKNOWN_WAIT_S)


def hopeless_until_ms(ports: Ports, error: Exception) -> float:
    """Returns up to which SQS time packs with an error are to be refused. Later packs must be retried.

    A permanent error refuses all packs. A deployment may end the wait of a pack of a newer release, which is refused
    when it is UNKNOWN_WAIT_S old. A rebuild may end the wait for an unknown topic, which counts from when the
    topic's last rebuild began, too. All other errors, such as a store's, refuse no pack.
    """
    if isinstance(error, _HOPELESS):
        return math.inf
    until_ms = ports.clock.now_ms() - UNKNOWN_WAIT_S * 1000
    if isinstance(error, UnknownTopic):
        return until_ms if away_since_s(ports, error.topic) * 1000 <= until_ms else -math.inf
    return until_ms if isinstance(error, NewerRelease) else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPacks:
    """Packs that are left in the queue and come again.

    Attributes:
        names: of their SQS messages.
        error: the failure; None: there was no time for the packs.
    """

    names: list[str]
    error: Exception | None


class Report(Protocol):
    """Where a function tells its failures. `Telemetry` is one."""

    @property
    def logger(self) -> Any:
        """The function's logger."""

    def failed(self, message: str, error: BaseException, /, **keys: object) -> None:
        """Logs and counts a failure that is left to a retry or to people."""

    def leave(self, messages: Iterable[str], error: Exception | None = None) -> None:
        """Leaves messages of a batch in their queue, which shows them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """The messages of a batch that ingest cannot finish: a message is refused, or comes again.

    Attributes:
        messages: all of the batch, by SQS's ids.
        has_time: whether there is time for a refusal.
        bad: SQS's id of an envelope -> its bad messages.
    """

    ports: Ports
    report: Report
    messages: Mapping[str, QueuedMessage]
    has_time: Callable[[], bool]
    bad: dict[str, Sequence[BadPart]] = field(default_factory=dict)

    def leave(self, names: Sequence[str]) -> None:
        """Leaves packs to the next call, because there is no time for them."""
        self.report.logger.warning("packs left to the next call", extra={"packs": len(names)})
        self.report.leave(names)

    def delete(self, topic: str, names: Sequence[str], *, urgent: bool) -> None:
        """Deletes packs that are done. A call that dies later keeps this work."""
        try:
            self.ports.queues.delete(topic, [self.messages[name].receipt_handle for name in names], urgent=urgent)
        except Exception as error:  # they are deleted when the call ends
            self.report.failed("packs not deleted", error, topic=topic)

    def settle_all(self, names: Sequence[str], pending: Iterable[PendingPacks]) -> list[str]:
        """Settles all packs of a group that are pending. Returns the names of those that are done.

        The bad messages of an envelope are refused once all others are done. If not, the envelope comes again.
        """
        waiting: set[str] = set()
        for each in pending:
            waiting.update(each.names)
            if each.error is None:
                self.leave(each.names)
            else:
                self.settle(each.names, each.error)
        return [name for name in names if name not in waiting and self._refused_bad(name)]

    def settle(self, names: Sequence[str], error: Exception) -> None:
        """Refuses messages whose error is permanent, while there is time. The others come again."""
        refused: list[str] = []
        again: list[str] = []
        try:
            until_ms = hopeless_until_ms(self.ports, error)
        except Exception as unread:
            self.report.failed("pack not refused", unread, sqs_message_id=names[0])
            until_ms = -math.inf
        for name in names:
            message = self.messages[name]
            hopeless = message.sent_at_ms <= until_ms and self.has_time()
            gone = hopeless and self._unrefused(name, message, str(error)) is None
            (refused if gone else again).append(name)
        for what, some in (("pack refused", refused), ("topic not ingested", again)):
            if some:
                self.report.failed(what, error, packs=len(some), sqs_message_ids=some[:10])
        self.report.leave(again, error)

    def _refused_bad(self, name: str) -> bool:
        bad = self.bad.get(name)
        if bad is None:
            return True
        unsent = self._unrefused(name, *bad_alone(self.messages[name], bad))
        if unsent is not None:
            self.report.leave([name], unsent)
            return False
        self.report.failed("pack refused", bad[0].error, messages=len(bad), sqs_message_ids=[name])
        return True

    def _unrefused(self, name: str, message: QueuedMessage, reason: str) -> Exception | None:
        """Refuses a message. Returns the error if it cannot be refused."""
        try:
            refuse(self.ports, message, reason)
        except Exception as unsent:
            self.report.failed("pack not refused", unsent, sqs_message_id=name)
            return unsent
        return None


def bad_alone(message: QueuedMessage, bad: Sequence[BadPart]) -> tuple[QueuedMessage, str]:
    """Returns an envelope's bad messages, each with its reason, as one message, and the reason of its refusal."""
    reason = f"{len(bad)} messages of the envelope, the first at {bad[0].place}: {bad[0].error}"
    parts = [{"place": each.place, "reason": str(each.error), "message": each.given} for each in bad]
    # With this name, no redrive takes the document for a message.
    mark = {f"{PREFIX}refused": {"DataType": "String", "StringValue": "messages of an envelope"}}
    return replace(message, body=json_text(parts), attributes={**message.attributes, **mark}), reason


def refuse(ports: Ports, message: QueuedMessage, reason: str) -> None:
    """Puts a message into the queue of refused messages, or into S3 and a reference into the queue.

    The caller then acknowledges the message. If it stops
        after the object is put: the message comes again. A lifecycle rule deletes the object.
        after the document is sent: the message comes again, and a second document of it is made.
    """
    document = refused_document(message, reason)
    text = json.dumps(document)  # in ASCII, so that SQS accepts any text
    if len(text) > SQS_MAX_BYTES:
        name = object_names.refused_name(message.id, ports.objects.new_attempt())
        ports.objects.put(name, text.encode())
        document = reference(document, name)
    ports.queues.refuse(document)
