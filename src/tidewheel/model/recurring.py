"""Defines recurring messages, which are delivered repeatedly by a rule.

A recurring message never changes. Planning a range of slots creates the rows that are due in the range. The rows are a
pure function of the rule, and each range is planned exactly once. Row ids are computed from the row's content, so every
copy of a row has the same id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tidewheel.model.message import Encoding

MAX_NAME_BYTES = 900
"""The name is part of a table key, which has at most 1,024 bytes."""
MAX_BODY_BYTES = 256 * 1024
"""A table item has at most 400 KB."""
_OCCURRENCE = 0x80
"""The first bit behind the time, 0 in the ids of all other messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A message delivered at every time of a rule.

    Attributes:
        name: the sender's key. A topic has one recurring message per name.
        generation: distinguishes recurring messages with the same name, when a cancelled name is used again.
        rule: `tidewheel.model.recurrence.Rule` as JSON.
        first_ms: earlier times of the rule are not planned. They were sent already, or lie before the message's
            creation.
        text, encoding, attributes: as a queue carries them.
        expires_in_ms: how long after its due time each occurrence may be handed out. None: no limit.
        group: the group of each occurrence.
        window_ms: shifts all times by a constant below it. None: no shift.
        missed_slot: from which slot no occurrence was planned, because this could not be read. None: none was missed.
    """

    topic: str
    name: str
    generation: str
    rule: str
    first_ms: int
    text: str
    encoding: Encoding
    attributes: Mapping[str, str]
    expires_in_ms: int | None = None
    group: str | None = None
    window_ms: int | None = None
    missed_slot: int | None = None

    def says_the_same(self, other: Recurring) -> bool:
        """Returns whether both deliver the same messages at the same times from now on."""
        mine = (self.rule, self.text, self.encoding, dict(self.attributes), self.expires_in_ms)
        theirs = (other.rule, other.text, other.encoding, dict(other.attributes), other.expires_in_ms)
        return (*mine, self.group, self.window_ms) == (*theirs, other.group, other.window_ms)


def occurrence_id(generation: str, name: str, due_ms: int) -> bytes:
    """Returns the 16-byte id of the occurrence due at a time.

    The id is the due time, a bit that only occurrences have, and a hash of generation, due time and name, in which the
    bit of keys is cleared.
    """
    digest = hashlib.blake2b(f"{generation}\n{due_ms}\n{name}".encode(), digest_size=10).digest()
    return due_ms.to_bytes(6) + bytes([digest[0] & 0x3F | _OCCURRENCE]) + digest[1:]


def is_occurrence(id: bytes) -> bool:
    """Returns whether an id is of an occurrence, whose row has the name of the recurring message in place of a key."""
    return bool(id[6] & _OCCURRENCE)
