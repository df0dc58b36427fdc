"""A folder of rows: what was committed is there, and what is damaged is named and left as it is."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidewheel.errors import StateInUse, StateUnusable
from tidewheel.local.state import folder as module
from tidewheel.local.state.folder import StateFolder

ROWS = {("item", f'["table", "{i}"]'): bytes([i]) * (i * 40) for i in range(1, 200)}


def committed(path: Path, *, stopped: bool) -> Path:
    """Returns a folder with many commits, as a clean stop or a kill leaves it."""
    state = begun(path)
    for (kind, key), value in ROWS.items():
        state.commit([(kind, key, value)])
    if stopped:
        state.close()
        return path
    copy = path.with_name(path.name + "-killed")
    shutil.copytree(path, copy)
    state.close()
    return copy


def begun(path: Path, stack: str = "tidewheel") -> StateFolder:
    state = StateFolder(path, stack)
    try:
        state.open()
        state.begin()
    except BaseException:
        state.close()
        raise
    return state


def rows(path: Path) -> dict[tuple[str, str], bytes]:
    state = StateFolder(path, "tidewheel")
    try:
        state.open()
        return {(kind, key): value for kind, key, value in state.rows(["item", "big"])}
    finally:
        state.close()


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def test_a_flipped_bit_in_a_key_or_in_its_copy_in_the_index_is_noticed(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=True)
    database = path / module.DATABASE
    whole = database.read_bytes()
    places = [found.start() for found in re.finditer(re.escape(b'["table", "150"]'), whole)]
    assert len(places) == 2, "the row, and the index"
    for place in places:
        database.write_bytes(whole[: place + 4] + bytes([whole[place + 4] ^ 1]) + whole[place + 5 :])
        with pytest.raises(StateUnusable, match="damaged"):
            rows(path)
    database.write_bytes(whole)
    assert rows(path) == ROWS


@pytest.mark.parametrize("stopped", [True, False])
def test_all_rows_are_there_after_a_stop_and_after_a_kill(tmp_path: Path, stopped: bool) -> None:
    assert rows(committed(tmp_path / "state", stopped=stopped)) == ROWS


def test_a_row_is_replaced_and_deleted_and_so_is_all_that_belongs_to_it(tmp_path: Path) -> None:
    state = begun(tmp_path)
    state.commit([("item", '["a", "1"]', b"1"), ("item", '["a", "2"]', b"2"), ("item", '["ab", "1"]', b"3")])
    state.commit([("item", '["a", "1"]', b"4")])
    state.commit([("item", '["a", "2"]', None)])
    state.close()
    assert rows(tmp_path) == {("item", '["a", "1"]'): b"4", ("item", '["ab", "1"]'): b"3"}

    state = begun(tmp_path)
    state.commit([], [("item", '["a"]')])
    state.close()
    assert rows(tmp_path) == {("item", '["ab", "1"]'): b"3"}


def test_a_value_larger_than_a_row_takes_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART_BYTES", 10)
    for value in (b"short", b"0123456789" * 5 + b"x", b"0123456789", b"0123456789" * 2):
        state = begun(tmp_path)
        state.commit([("big", '["a"]', value), ("big", '["b"]', value)])
        state.close()
        assert rows(tmp_path) == {("big", '["a"]'): value, ("big", '["b"]'): value}


def test_a_stop_leaves_the_database_and_the_marker_only(tmp_path: Path) -> None:
    assert sorted(files(committed(tmp_path / "state", stopped=True))) == ["state.db", "tidewheel-state"]


def _flip(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _replace(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE kept (a)")
    db.close()


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()


def _newer_marker(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"format 0001", b"format 0002") + b"something new\n")


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "emptied database": ("state.db", _empty, "state.db is empty"),
    "missing database": ("state.db", Path.unlink, "state.db is missing"),
    "truncated database": ("state.db", _truncate, "state.db"),
    "another sqlite": ("state.db", _replace, "state.db is not Tidewheel's"),
    "text": ("state.db", lambda path: path.write_text("hello " * 1000), "state.db cannot be used"),
    "newer database": ("state.db", _newer, "state.db is of a newer version of Tidewheel"),
    "newer marker": ("tidewheel-state", _newer_marker, "tidewheel-state is of a newer version of Tidewheel"),
    "emptied marker": ("tidewheel-state", _empty, "tidewheel-state is damaged"),
    "missing marker": ("tidewheel-state", Path.unlink, "tidewheel-state is missing"),
    "flipped marker": ("tidewheel-state", lambda path: _flip(path, 0.3), "tidewheel-state"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_named_and_left_as_it_is(tmp_path: Path, damage: str) -> None:
    path = committed(tmp_path / "state", stopped=True)
    file, spoil, told = DAMAGES[damage]
    spoil(path / file)
    before = files(path)

    with pytest.raises(StateUnusable) as refused:
        begun(path)

    assert told in str(refused.value) and str(path) in str(refused.value)
    assert refused.value.file == file
    assert files(path) == before


@pytest.mark.parametrize("at", [i / 40 for i in range(40)])
@pytest.mark.parametrize("stopped", [True, False])
def test_a_flipped_bit_anywhere_loses_nothing_in_silence(tmp_path: Path, at: float, stopped: bool) -> None:
    path = committed(tmp_path / "state", stopped=stopped)
    _flip(path / ("state.db" if stopped else "state.db-wal"), at)
    before = files(path)
    try:
        found = rows(path)
    except StateUnusable:
        assert files(path) == before
    else:
        assert found == ROWS  # the bit was in unused space


@pytest.mark.parametrize("spoil", [Path.unlink, _empty, _truncate])
def test_a_log_that_lost_its_end_after_a_kill_is_named(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    path = committed(tmp_path / "state", stopped=False)
    spoil(path / "state.db-wal")
    before = files(path)
    with pytest.raises(StateUnusable, match="lacks the last"):
        begun(path)
    assert files(path) == before


def test_an_older_copy_of_the_database_is_named(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=True)
    older = (path / "state.db").read_bytes()
    state = begun(path)
    state.commit([("item", '["new"]', b"1")])
    state.close()
    (path / "state.db").write_bytes(older)
    with pytest.raises(StateUnusable, match="lacks the last 1 of 200 commits"):
        begun(path)


def test_the_last_commits_may_be_lost_when_the_machine_stopped(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=False)
    _truncate(path / "state.db-wal")
    marker = path / "tidewheel-state"
    marker.write_bytes(marker.read_bytes().replace(module._boot().encode(), b"0" * 36))
    state = begun(path)
    assert state.lost > 0
    state.close()
    found = rows(path)
    assert 0 < len(found) == len(ROWS) - state.lost
    assert found.items() <= ROWS.items()


def test_a_torn_end_of_the_log_is_no_damage(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=False)
    with (path / "state.db-wal").open("ab") as log:
        log.write(b"\x01" * 5000)
    assert rows(path) == ROWS


def test_a_second_process_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    state = begun(tmp_path)
    code = "import sys; from tidewheel.local.state.folder import *; StateFolder(Path(sys.argv[1]), 'tidewheel').open()"
    second = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert f"is in use by process {os.getpid()}" in second.stderr
    state.close()
    assert rows(tmp_path) == {}


def test_a_second_use_in_the_same_process_is_refused(tmp_path: Path) -> None:
    state = begun(tmp_path)
    with pytest.raises(StateInUse):
        begun(tmp_path)
    state.close()


def test_another_stack_is_refused(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=True)
    with pytest.raises(StateUnusable, match="is of the stack 'tidewheel', not 'another'"):
        begun(path, "another")
    assert rows(path) == ROWS


@pytest.mark.parametrize("left", [["state.new"], ["state.db"], ["state.db", "tidewheel-state.new"]])
def test_a_kill_while_the_folder_is_made_leaves_a_folder_that_can_be_used(tmp_path: Path, left: list[str]) -> None:
    whole = tmp_path / "whole"
    state = StateFolder(whole, "tidewheel")
    state.open()
    state.close()
    path = tmp_path / "state"
    path.mkdir()
    for name in left:
        shutil.copy(whole / ("state.db" if name == "state.db" else "tidewheel-state"), path / name)
    begun(path).close()
    assert rows(path) == {}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot be used"):
        begun(tmp_path / "file")


def test_a_name_with_odd_characters_is_a_folder_like_any_other(tmp_path: Path) -> None:
    path = committed(tmp_path / "a b?mode=memory#%20ü", stopped=True)
    assert rows(path) == ROWS
