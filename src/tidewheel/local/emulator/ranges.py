"""Reads only the wanted range of an object.

Why: for each range, moto reads and copies the whole object, such as a ledger of 24 MB for an index of 10 KB.
"""

from __future__ import annotations

from typing import Any

from moto.s3.models import FakeKey
from moto.s3.responses import S3Response

from tidewheel.local.emulator.patching import Patches


def install(patches: Patches) -> None:
    """Replaces moto's reading of a range."""
    get, cut = S3Response.get_object, S3Response._handle_range_header  # noqa: SLF001  # moto has no other

    def get_object(self: Any) -> Any:
        if not self.headers.get("range"):
            return get(self)
        find = self._get_key
        self._get_key = lambda: _sliced(*find())
        try:
            return get(self)
        finally:
            del self._get_key

    def handle_range_header(self: Any, *request: Any) -> Any:
        status, headers, content = cut(self, *request)
        return status, headers, content[:] if isinstance(content, _Content) else content

    patches.set(S3Response, "get_object", get_object)
    patches.set(S3Response, "_handle_range_header", handle_range_header)


def _sliced(key: FakeKey, not_modified: bool) -> tuple[Any, bool]:
    return _Key(key), not_modified


class _Key:
    """An object whose content is read when it is sliced."""

    def __init__(self, key: FakeKey) -> None:
        self._key = key
        self.value = _Content(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key, name)


class _Content:
    def __init__(self, key: FakeKey) -> None:
        self._key = key

    def __len__(self) -> int:
        return int(self._key.contentsize)

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        with self._key.lock:
            buffer = self._key._value_buffer  # noqa: SLF001
            buffer.seek(start)
            found: bytes = buffer.read(stop - start)
            return found
