"""Bombs and a false bitmap end in an error of the project's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.fuzz.bombs import BOMBS, ROOM_MIB
from tidewheel.errors import CorruptMetadata
from tidewheel.ledger.index import decode_slots
from tidewheel.model.checksum import sealed


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=3_600
    )
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("which", BOMBS)
def test_a_bomb_is_refused_before_it_takes_the_memory(which: str) -> None:
    assert int(_run("tests.fuzz.bombs", which)) < ROOM_MIB


def test_a_bitmap_that_lies_about_a_container_is_refused_before_a_number_of_it_is_read() -> None:
    """CRoaring would write as many numbers as there are bits, into room for as many as the header says."""
    cookie, one, key, says = (
        (12346).to_bytes(4, "little"),
        (1).to_bytes(4, "little"),
        bytes(2),
        (4096).to_bytes(2, "little"),
    )
    lies = cookie + one + key + says + (16).to_bytes(4, "little") + b"\xff" * 8192
    with pytest.raises(CorruptMetadata, match="cardinality is incorrect"):
        decode_slots(sealed(lies))
