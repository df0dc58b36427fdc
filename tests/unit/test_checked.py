"""Sealed bytes open unchanged, and damage is noticed. Only modules with a check give bytes to parsers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import REPOSITORY
from tidewheel.model.checksum import CHECKSUM_BYTES, check, opened, seal_of, sealed

SOURCE = REPOSITORY / "src" / "tidewheel"
PARSERS = re.compile(
    r"pq\.(?:read\w+|ParquetFile|ParquetDataset)\(|BufferReader\(|ipc\.\w+\(|BitMap\.deserialize\(|zlib\.decompress\w*\("
)
CHECKING = {
    "jobs/importing/csv_rows.py", "jobs/importing/parquet.py", "ledger/ledger.py",
    "ledger/reader.py", "ledger/index.py", "model/untrusted.py", "spark/ledger_scan.py",
}  # fmt: skip
"""Modules that call a parser in C. untrusted.decompressed gets what its callers have opened. An import reads foreign
files in a child process, whose death is that file's error. A scan on Spark reads what its own tasks wrote."""


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=300))
def test_what_is_sealed_is_opened(rest: bytes) -> None:
    assert opened(sealed(rest)) == rest
    assert sealed(rest) == seal_of(rest[:7], memoryview(rest)[7:]) + rest
    check(memoryview(sealed(rest)))


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=60), st.data())
def test_every_flipped_bit_and_every_cut_is_noticed(rest: bytes, data: st.DataObject) -> None:
    good = sealed(rest)
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="the checksum does not match"):
            opened(bytes(bad))
    with pytest.raises(ValueError, match=r"does not match|too few"):
        opened(good[: data.draw(st.integers(0, len(good) - 1))])


@pytest.mark.parametrize("size", range(CHECKSUM_BYTES + 1))
def test_zeros_are_no_sealed_emptiness(size: int) -> None:
    with pytest.raises(ValueError, match="too few"):
        opened(bytes(size))


def test_parsers_in_c_are_called_only_by_modules_that_check_the_bytes() -> None:
    calling = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if PARSERS.search(path.read_text(encoding="utf-8"))
    }
    assert calling == CHECKING


def test_whoever_decompresses_opens_first() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "import decompressed" in text and path.name != "untrusted.py":
            for call in re.findall(r"decompressed\(.*", text):
                assert "opened(" in call or path.name == "pack.py", f"{path}: {call}"
