"""A recurring message: a rule of when, and what is delivered each time.

It is never changed: planning a range of slots makes the rows that are due in it, which are a pure function of the rule,
and each range is planned exactly once. Their ids are made from what they are, so every copy has the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tidewheel.model.message import Encoding

MAX_NAME_BYTES = 900
"""The name is part of a table's key, which has 1,024 bytes at most."""
MAX_BODY_BYTES = 256 * 1024
"""An item of the table has 400 KB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A message that comes again and again.

    Attributes:
        name: the sender's key; one recurring message a topic and name.
        generation: tells apart those of one name, one cancelled and one made again.
        rule: `tidewheel.model.recurrence.Rule` as JSON.
        first_ms: earlier times of the rule are not planned: they were sent, or lie before it was made.
        text, encoding, attributes: as a queue carries them.
        expires_in_ms: how long after its due time each may be handed out; None: for ever.
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

    def says_the_same(self, other: Recurring) -> bool:
        """Whether both deliver the same at the same times from now on."""
        mine = (self.rule, self.text, self.encoding, dict(self.attributes), self.expires_in_ms)
        theirs = (other.rule, other.text, other.encoding, dict(other.attributes), other.expires_in_ms)
        return mine == theirs


def occurrence_id(generation: str, name: str, due_ms: int) -> bytes:
    """Returns the 16 bytes of the id of what is due at a time: the time, and a hash of what it is one of."""
    digest = hashlib.blake2b(f"{generation}\n{due_ms}\n{name}".encode(), digest_size=10).digest()
    return due_ms.to_bytes(6) + digest
