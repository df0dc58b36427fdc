"""Decodes packs, and builds packs which no sender writes."""

from __future__ import annotations

import json
import zlib
from typing import Any

from tidewheel.model.checksum import opened, sealed


def parts_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns a pack's head and bodies."""
    head, _, bodies = zlib.decompress(opened(data)[1:]).partition(b"\n")
    return json.loads(head), bodies


def fields_of(data: bytes) -> dict[str, Any]:
    """Returns a pack's fields, with the bodies as texts in place of their sizes."""
    head, rest = parts_of(data)
    bodies = []
    for size in head.pop("sizes"):
        bodies.append(rest[:size].decode())
        rest = rest[size:]
    return head | {"bodies": bodies}


def pack_of(fields: dict[str, Any]) -> bytes:
    """Returns the pack with these fields. Bodies may be bytes other than UTF-8."""
    head = {name: value for name, value in fields.items() if name != "bodies"}
    bodies = [each if isinstance(each, bytes) else each.encode() for each in fields["bodies"]]
    return raw_pack({"sizes": [*map(len, bodies)], **head}, b"".join(bodies))


def raw_pack(head: object, bodies: bytes) -> bytes:
    """Returns a pack of any head and bodies."""
    return sealed(b"\x01" + zlib.compress(json.dumps(head).encode() + b"\n" + bodies, 9))
