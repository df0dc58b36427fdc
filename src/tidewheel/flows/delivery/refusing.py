"""Refuses messages of the service's own queues that no retry can help."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tidewheel.errors import (
    BadMessage,
    CorruptPack,
    KeysNotSettled,
    NewerRelease,
    TopicReplaced,
    UnknownTopic,
    WrongQueue,
)
from tidewheel.flows.delivery.away import away_since_s
from tidewheel.flows.ports import Ports
from tidewheel.model import object_names
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.pack import PACK_ATTRIBUTE, Pack, encode_pack, pack_body
from tidewheel.model.plain import PREFIX, BadPart
from tidewheel.model.refused import QueuedMessage, reference, refused_document
from tidewheel.model.triggers import UNKNOWN_WAIT_S

_HOPELESS = (BadMessage, CorruptPack, KeysNotSettled, TopicReplaced, WrongQueue)
"""Errors of a pack that are the same in each try."""


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


class Refusals(NamedTuple):
    """The outcome of failed messages.

    Attributes:
        refused: no retry helps these.
        left: the others, which come again.
        failures: the ids of messages that could not be refused although no retry helps them, and why.
    """

    refused: list[QueuedMessage]
    left: list[QueuedMessage]
    failures: list[tuple[str, Exception]]


def refuse_hopeless(
    ports: Ports, messages: Sequence[QueuedMessage], error: Exception, has_time: Callable[[], bool]
) -> Refusals:
    """Refuses messages whose error is permanent, while there is time. The others come again."""
    done = Refusals([], [], [])
    try:
        until_ms = hopeless_until_ms(ports, error)
    except Exception as unread:
        return Refusals([], list(messages), [(messages[0].id, unread)])
    for message in messages:
        hopeless = message.sent_at_ms <= until_ms and has_time()
        try:
            if hopeless:
                refuse(ports, message, str(error))
        except Exception as unsent:
            done.failures.append((message.id, unsent))
            hopeless = False
        (done.refused if hopeless else done.left).append(message)
    return done


def refuse_some(ports: Ports, message: QueuedMessage, pack: Pack, error: Exception) -> None:
    """Refuses some messages of a pack, as `refuse` with a pack of these alone."""
    data = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": encode_pack(pack)}}
    body = pack_body(pack.topic, len(pack))
    refuse(ports, replace(message, body=body, attributes=data), str(error))


def bad_alone(message: QueuedMessage, bad: Sequence[BadPart]) -> tuple[QueuedMessage, str]:
    """Returns an envelope's bad messages, each with its reason, as one message, and the reason of its refusal."""
    reason = f"{len(bad)} messages of the envelope, the first at {bad[0].place}: {bad[0].error}"
    parts = [{"place": each.place, "reason": str(each.error), "message": each.given} for each in bad]
    # With this name, no redrive takes the document for a message.
    mark = {f"{PREFIX}refused": {"DataType": "String", "StringValue": "messages of an envelope"}}
    return replace(message, body=json.dumps(parts), attributes={**message.attributes, **mark}), reason


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
