"""`tidewheel local up` as a process. Each line printed for another shell works when pasted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidewheel import AlreadyExists, Tidewheel
from tidewheel.cli.local import _hints

TIDEWHEEL = Path(sys.executable).with_name("tidewheel")
MOST_S = 120


@contextmanager
def up(port: int, before: list[str], after: list[str]) -> Iterator[list[str]]:
    """Runs `tidewheel ... local up ...`. Yields the printed lines, up to the last before the table."""
    environment = {**os.environ, "PATH": f"{TIDEWHEEL.parent}:{os.environ['PATH']}"}
    environment.pop("TIDEWHEEL_STACK", None)
    command = [str(TIDEWHEEL), *before, "local", "up", "--port", str(port), *after]
    serves = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert serves.stderr is not None
        lines = [serves.stderr.readline()]
        while lines[-1] and "For SQS" not in lines[-1]:
            lines.append(serves.stderr.readline())
        yield lines
        serves.send_signal(signal.SIGINT)
        _, rest = serves.communicate(timeout=MOST_S)
        assert serves.returncode == 0 and rest.endswith("Stopped. All messages are gone.\n"), rest
    finally:
        serves.kill()
        serves.wait()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


OPTIONS: dict[str, tuple[list[str], list[str]]] = {
    "nothing": ([], []),
    "a topic": ([], ["--topic", "orders"]),
    "other slots": ([], ["--topic", "orders:billing", "--slot-s", "5"]),
    "two topics of a stack": (
        ["--stack", "reminders"],
        ["--topic", "first", "--topic", "shop:mail,audit", "--slot-s", "1", "--lookahead-s", "4"],
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each == "two topics of a stack" else pytest.mark.long) for each in OPTIONS]
)
def test_each_line_for_another_shell_works_when_it_is_pasted(name: str, port: int, tmp_path: Path) -> None:
    with up(port, *OPTIONS[name]) as lines:
        hints = "".join(line for line in lines if line.startswith("  "))
        shell = {**os.environ, "PATH": f"{TIDEWHEEL.parent}:{os.environ['PATH']}", "TIDEWHEEL_STACK": "elsewhere"}
        pasted = subprocess.run(
            ["bash", "-e"],
            input=hints,
            capture_output=True,
            text=True,
            check=False,
            env=shell,
            cwd=tmp_path,
            timeout=MOST_S,
        )
        assert (pasted.returncode, pasted.stderr) == (0, "")
        assert "nothing to receive" not in pasted.stdout and "hello" in pasted.stdout
        assert f"--endpoint-url http://127.0.0.1:{port}" in lines[-1]


def test_an_application_that_names_no_settings_takes_the_topic_as_it_is(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with up(port, [], ["--topic", "orders:billing", "--slot-s", "5"]):
        tw = Tidewheel(endpoint_url=f"http://127.0.0.1:{port}")
        assert tw.create_topic("orders").settings.slot_s == 5
        with pytest.raises(AlreadyExists, match=r"slot_s=5 \(asked for 300\)"):
            tw.create_topic("orders", slot_s=300)


def test_where_the_command_is_not_on_the_path_the_hints_name_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["x y/tidewheel"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("tidewheel") is None
    hint = list(_hints("http://127.0.0.1:4566", "tidewheel", [("orders", ["billing"])]))[-1]
    assert hint.startswith(f"'{Path('x y/tidewheel').resolve()}' send orders hello")
