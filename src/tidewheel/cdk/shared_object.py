"""Shared objects (ELF): for which machine one is, and what of it no process ever loads.

    +--------------------+
    | header, 64 bytes   |  machine at 18, program headers' place at 32, sections' at 40, counts from 54 on
    | program headers    |  which parts the loader maps
    | mapped parts       |
    +--------------------+  the end of the last part that a program header names
    | symbols, debugging |  named by the section table only: for linkers and debuggers
    | section table      |
    +--------------------+

Layout: System V ABI, chapters 4 and 5; 64-bit little-endian, which Lambda's machines are.
"""

from __future__ import annotations

import struct

AARCH64 = 183
X86_64 = 62

_MAGIC = b"\x7fELF\x02\x01"
_PROGRAM_HEADERS = struct.Struct("<Q")
_COUNTS = struct.Struct("<HH")
_PART = struct.Struct("<8xQ16xQ")
_SECTIONS_AT, _SECTION_COUNTS_AT = 40, 58


def machine_of(data: bytes) -> int | None:
    """Return the number of the machine that a file is for (ELF's `e_machine`); None if it is no shared object."""
    if not data.startswith(_MAGIC):
        return None
    machine: int = struct.unpack_from("<H", data, 18)[0]
    return machine


def loaded_part(data: bytes) -> bytes:
    """Return a shared object without its symbols for linkers and debuggers: what `strip` leaves, and less.

    Any other file comes back as it is.
    """
    if machine_of(data) is None:
        return data
    [first] = _PROGRAM_HEADERS.unpack_from(data, 32)
    size, count = _COUNTS.unpack_from(data, 54)
    headers = [first + number * size for number in range(count)]
    parts = (_PART.unpack_from(data, header) for header in headers)
    end = max(first + count * size, *(offset + length for offset, length in parts))
    kept = bytearray(data[:end])
    kept[_SECTIONS_AT : _SECTIONS_AT + 8] = bytes(8)
    kept[_SECTION_COUNTS_AT : _SECTION_COUNTS_AT + 6] = bytes(6)
    return bytes(kept)
