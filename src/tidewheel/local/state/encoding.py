"""Encodes plain values with bytes in them.

    length of the JSON in ASCII | newline | JSON, with {"": n} for n bytes | the bytes, one after the other

So large bodies are not encoded as text. No value that is kept has a mapping with an empty name and a number.
"""

from __future__ import annotations

import json
from typing import Any


def encoded(value: Any) -> bytes:
    """Returns a value of JSON's types, bytes and sets as bytes. Sets become lists.

    Raises:
        TypeError: the value has a part of another type.
    """
    blobs: list[bytes] = []

    def replaced(part: Any) -> Any:
        if isinstance(part, bytes | bytearray):
            blobs.append(bytes(part))
            return {"": len(part)}
        if isinstance(part, set | frozenset):
            return sorted(part)
        raise TypeError(f"a {type(part).__name__} cannot be kept")

    text = json.dumps(value, default=replaced, separators=(",", ":")).encode()
    return b"%d\n%b%b" % (len(text), text, b"".join(blobs))


def decoded(data: bytes) -> Any:
    """Returns the value of `encoded`."""
    length, _, rest = data.partition(b"\n")
    at = int(length)

    def restored(part: dict[str, Any]) -> Any:
        nonlocal at
        size = part.get("")
        if type(size) is not int:
            return part
        at += size
        return rest[at - size : at]

    return json.loads(rest[: int(length)], object_hook=restored)
