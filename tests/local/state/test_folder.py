"""A folder of rows: what was committed is there, and what is damaged is named and left as it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tidewheel.errors import StateInUse, StateUnusable
from tidewheel.local.state_folder import StateFolder, session_in

ROWS = {("item", "table", f"{i}"): bytes([i]) * (i * 40) for i in range(1, 200)}


def committed(path: Path, *, stopped: bool) -> Path:
    """Makes a folder with many commits, as a clean stop or a kill leaves it."""
    path.mkdir(0o700)
    for name, data in _committed(stopped).items():
        (path / name).touch(0o600)
        (path / name).write_bytes(data)
    return path


@cache
def _committed(stopped: bool) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        state = begun(Path(folder) / "state")
        for key, value in ROWS.items():
            state.commit([(*key, value)])
        if stopped:
            state.close()
        found = files(Path(folder) / "state")
        state.close()
    return found


def begun(path: Path, stack: str = "tidewheel") -> StateFolder:
    state = StateFolder(path, stack)
    try:
        state.open()
        state.begin()
    except BaseException:
        state.close()
        raise
    return state


def rows(path: Path) -> dict[tuple[str, str, str], bytes]:
    state = StateFolder(path, "tidewheel")
    try:
        state.open()
        return {tuple(key): value for *key, value in state.rows()}
    finally:
        state.close()


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


@pytest.mark.parametrize("stopped", [True, False])
def test_all_rows_are_there_after_a_stop_and_after_a_kill(tmp_path: Path, stopped: bool) -> None:
    assert rows(committed(tmp_path / "state", stopped=stopped)) == ROWS


def test_a_row_is_replaced_and_deleted_and_with_a_queue_go_its_messages(tmp_path: Path) -> None:
    state = begun(tmp_path)
    queues = [("queue", each, "", b"0") for each in ("a", "ab")]
    state.commit([("message", "a", "1", b"1"), ("message", "a", "2", b"2"), ("message", "ab", "1", b"3"), *queues])
    state.commit([("message", "a", "1", b"4"), ("message", "a", "2", None)])
    state.close()
    left = {("queue", "ab", ""): b"0", ("message", "ab", "1"): b"3"}
    assert rows(tmp_path) == {("queue", "a", ""): b"0", ("message", "a", "1"): b"4"} | left

    state = begun(tmp_path)
    state.commit([("queue", "a", "", None)])
    state.close()
    assert rows(tmp_path) == left


def test_a_stop_leaves_the_database_and_the_marker_only(tmp_path: Path) -> None:
    assert sorted(files(committed(tmp_path / "state", stopped=True))) == ["state.db", "tidewheel-state"]


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
        db.execute("PRAGMA user_version = 7")
    db.close()


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "emptied database": ("state.db", _empty, "state.db is not Tidewheel's"),
    "missing database": ("state.db", Path.unlink, "state.db is missing"),
    "truncated database": ("state.db", _truncate, "state.db"),
    "another sqlite": ("state.db", _replace, "state.db is not Tidewheel's"),
    "text": ("state.db", lambda path: path.write_text("hello " * 1000), "state.db cannot be used"),
    "newer database": ("state.db", _newer, "state.db is of another version of Tidewheel: it has format 7, and this"),
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


def test_a_torn_end_of_the_log_is_no_damage(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=False)
    with (path / "state.db-wal").open("ab") as log:
        log.write(b"\x01" * 5000)
    assert rows(path) == ROWS


def test_a_second_process_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    state = begun(tmp_path)
    code = "import sys; from tidewheel.local.state_folder import *; StateFolder(Path(sys.argv[1]), 'tidewheel').open()"
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


@pytest.mark.parametrize("left", [["state.new"], ["state.db"]])
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


def modes(path: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in (path, *path.iterdir())}


def test_nobody_else_reads_the_folder_or_its_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = begun(tmp_path / "state")
        state.commit([("item", "a", "", b"1")])
        session_in(tmp_path / "state")
        found = modes(tmp_path / "state")
        assert found.pop("state") == 0o700 and set(found.values()) == {0o600}
        assert found.keys() > {"state.db", "tidewheel-state", "console-session"}
        state.close()
    finally:
        os.umask(before)


def test_a_folder_that_others_can_read_is_taken_from_them(tmp_path: Path) -> None:
    path = committed(tmp_path / "state", stopped=True)
    path.chmod(0o755)
    for each in path.iterdir():
        each.chmod(0o644)
    assert rows(path) == ROWS
    assert set(modes(path).values()) == {0o700, 0o600}


@pytest.mark.parametrize("name", ["state.new", "state.db", "tidewheel-state", "state.db-wal", "console-session"])
def test_a_link_in_the_folder_leads_nowhere(tmp_path: Path, name: str) -> None:
    path = committed(tmp_path / "state", stopped=True)
    other = tmp_path / "other"
    other.write_text("of somebody")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(other)
    with pytest.raises(StateUnusable, match=f"{name} is not a file"):
        begun(path)
    assert other.read_text() == "of somebody"


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = committed(tmp_path / "state", stopped=True)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(StateUnusable, match=f"belongs to the user {path.stat().st_uid}"):
        begun(path)


def test_a_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with pytest.raises(StateUnusable, match=r"beside other files, such as 'thesis\.txt'. Give a folder of your own"):
        begun(tmp_path)
    assert modes(tmp_path)[tmp_path.name] == 0o755
    assert set(files(tmp_path)) == {"thesis.txt"}
