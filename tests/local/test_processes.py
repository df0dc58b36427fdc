"""The command line as processes, which are started, killed, interrupted and restarted."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tidewheel.cli import demo
from tidewheel.local import LocalTidewheel
from tidewheel.local.replay import replay_virtual

# A shell's background job ignores SIGINT, and so would its children.
_RUN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from tidewheel.cli import run
run()
"""
COMMAND = [sys.executable, "-c", _RUN]
PATIENCE_S = 120
"""What a process may take for what needs a few seconds: the machine may be busy."""


def _environment(**variables: str) -> dict[str, str]:
    """The environment of a shell with no AWS settings but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TIDEWHEEL_"))}
    return {**kept, "COLUMNS": "200", "AWS_EC2_METADATA_DISABLED": "true", **variables}


def _start(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts the command, with standard error in a file."""
    with log.open("wb") as errors:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )


def _await(process: subprocess.Popen[bytes], log: Path, text: str) -> None:
    """Waits until a process has written a text to its log."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.05)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(PATIENCE_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """`tidewheel dev` in a process, with commands for the running service."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.process, self.log, self.port = process, log, port

    def __call__(self, *arguments: str) -> Any:
        """Runs a command as in another shell. Returns the printed JSON."""
        done = subprocess.run(
            [*COMMAND, *arguments, "--json"],
            env=_environment(
                AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.port}",
                AWS_ACCESS_KEY_ID="local",
                AWS_SECRET_ACCESS_KEY="local",
                AWS_DEFAULT_REGION="us-east-1",
            ),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def receive(self, topic: str, subscription: str) -> list[Any]:
        """Receives messages, as soon as there are any."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = self("receive", topic, subscription, "--wait", "10")
            if found:
                return list(found)
        raise AssertionError(self.log.read_text(errors="replace"))


@contextmanager
def _up(log: Path, port: int, *arguments: str) -> Iterator[Service]:
    process = _start(log, "dev", "--port", str(port), "--console-port", "0", *arguments)
    try:
        _await(process, log, "Ctrl-C stops it")
        yield Service(process, log, port)
    finally:
        _kill(process)


def _send_and_receive(service: Service) -> None:
    assert service("topics", "list") == []  # each start is an empty one
    service("topics", "create", "orders")
    service("subscriptions", "create", "orders", "billing")
    before = time.monotonic()
    [sent] = service("send", "orders", "hello", "--delay", "3s", "--attribute", "colour=blue")
    [message] = service.receive("orders", "billing")
    assert time.monotonic() - before >= 3
    assert (message["id"], message["body"], message["attributes"]) == (sent["id"], "hello", {"colour": "blue"})
    assert message["deliver_at"] == sent["deliver_at"]


def test_a_local_service_that_was_killed_starts_again_on_the_same_port(tmp_path: Path) -> None:
    port = _free_port()
    with _up(tmp_path / "first.log", port) as service:
        _send_and_receive(service)
        service.process.send_signal(signal.SIGKILL)
        assert service.process.wait(PATIENCE_S) == -signal.SIGKILL
    with _up(tmp_path / "second.log", port) as service:
        _send_and_receive(service)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_the_local_service_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    with _up(tmp_path / "log", _free_port()) as service:
        service.process.send_signal(number)
        assert service.process.wait(PATIENCE_S) in (0, 130)
        log = service.log.read_text(errors="replace")
        assert "All messages are gone" in log and "Traceback" not in log


def test_a_demo_that_was_killed_runs_again_and_is_sound(tmp_path: Path) -> None:
    arguments = ["demo", "--messages", "60", "--real-seconds", "3", "--output", str(tmp_path / "out"), "--json"]
    killed = _start(tmp_path / "log", *arguments)
    try:
        _await(killed, tmp_path / "log", "Replaying 60")
    finally:
        _kill(killed)
    assert killed.returncode == -signal.SIGKILL
    assert not list((tmp_path / "out").glob("*"))
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures.pop("sound") is True
    assert len(figures) == 2
    for figure in figures.values():
        assert figure["sent"] == 60 and figure["delivered"] == 120
        assert (figure["lost"], figure["early"], figure["duplicates"]) == (0, 0, 0)
        assert figure["dollars"] == pytest.approx(figure["dollars_per_million"] * 120 / 1_000_000, rel=0.05)
        assert figure["dollars_with_eventbridge_scheduler"] == pytest.approx(120 * 1.40 / 1_000_000)
    root = ElementTree.parse(tmp_path / "out" / "demo.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def _demo(output: Path) -> list[str]:
    return ["--messages", "20", "--real-seconds", "0", "--output", str(output)]


def _with_receive(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Applies `change` to the messages received by the demo's replay."""

    def replay(stack: LocalTidewheel, *arguments: Any) -> Any:
        receive = stack.receive
        monkeypatch.setattr(stack, "receive", lambda *names: change(receive(*names)))
        return replay_virtual(stack, *arguments)

    monkeypatch.setattr(demo, "replay_virtual", replay)


def test_a_demo_that_loses_nothing_exits_with_zero(tmp_path: Path) -> None:
    done = CliRunner().invoke(demo.app, _demo(tmp_path))
    assert done.exit_code == 0, done.output
    assert "Every message arrived once, none early." in done.output


def test_a_demo_tells_the_costs_at_its_rate_and_how_to_learn_others(tmp_path: Path) -> None:
    output = CliRunner().invoke(demo.app, _demo(tmp_path)).output
    [all_told] = [line.split("│")[2].strip() for line in output.splitlines() if line.startswith("│ all ")]
    assert re.fullmatch(r"\$\d+\.\d\d", all_told)
    assert "tidewheel cost --per-day 1000000" in output


def test_a_demo_that_loses_one_message_is_unsound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Any] = []

    def lose_one(messages: list[Any]) -> list[Any]:
        if messages and not lost:
            lost.append(messages.pop())
        return messages

    _with_receive(monkeypatch, lose_one)
    assert demo.run_demo(tmp_path, 0, 20, as_json=False) is False
    assert len(lost) == 1


def test_a_demo_that_receives_one_message_twice_exits_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doubled: list[Any] = []

    def double_one(messages: list[Any]) -> list[Any]:
        if messages and not doubled:
            doubled.append(messages[0])
            return [messages[0], *messages]
        return messages

    _with_receive(monkeypatch, double_one)
    done = CliRunner().invoke(demo.app, _demo(tmp_path))
    assert done.exit_code == 1
    assert "The replay is unsound." in done.output
