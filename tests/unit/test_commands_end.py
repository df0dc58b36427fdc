"""Each command ends in time with one line under any fault of AWS, and at once with Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.slow_endpoint import Mode, SlowEndpoint
from tidewheel.aws import tries
from tidewheel.aws.tries import Tries
from tidewheel.cli import INTERRUPTED
from tidewheel.cli.main import app
from tidewheel.client import connection

SCHEDULES = Path(__file__).parents[1] / "eventbridge_schedules" / "invoice-17.json"
COMMANDS = {
    "topics": ["topics", "list"],
    "send": ["send", "orders", "x"],
    "receive": ["receive", "orders", "billing", "--wait", "20"],
    "listen": ["listen", "orders/billing", "--forward-to", "http://localhost:1/"],
    "stats": ["stats", "orders", "--watch"],
    "merge": ["merge", "orders"],
}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowEndpoint]:
    monkeypatch.setattr(connection, "SDK", Tries(connect_s=2, read_s=0.1, silent=2, refused=3))
    monkeypatch.setattr(tries, "_BACKOFF_S", 0.01)
    monkeypatch.setattr("tidewheel.client.dev_service._at.__defaults__", (0.5,))
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    with SlowEndpoint() as endpoint:
        yield endpoint


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *((Mode.HANG, name) for name in COMMANDS),
        *((mode, "topics") for mode in (Mode.THROTTLE, Mode.ERROR, Mode.REFUSE)),
    ],
)
def test_a_command_says_in_one_line_which_service_failed_where_and_what_to_do(
    endpoint: SlowEndpoint, mode: Mode, name: str
) -> None:
    endpoint.be(mode)
    if name != "topics":  # that one waits for whoever may be a `tidewheel dev`, too
        endpoint.be(Mode.ERROR)
        endpoint.be(mode, lambda asked: asked.service == "ssm")
    result = CliRunner().invoke(app, ["--endpoint-url", endpoint.url, *COMMANDS[name]])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("tidewheel: ")
    if mode is Mode.REFUSE:
        assert f"nothing listens at {endpoint.url}; start the service with: tidewheel" in result.stderr
        return
    tried = 2 if mode is Mode.HANG else 3
    assert (
        f"(ssm GetParameter at {endpoint.url}, tried {tried} times; check the network, or try later)" in result.stderr
    )


@pytest.mark.parametrize(
    ("number", "command"), [(signal.SIGINT, ("topics", "list")), (signal.SIGTERM, ("send", "orders", "-"))]
)
def test_a_signal_ends_a_command_that_waits_for_aws(
    endpoint: SlowEndpoint, number: signal.Signals, command: tuple[str, ...]
) -> None:
    endpoint.be(Mode.ERROR)  # it is no `tidewheel dev`
    endpoint.be(Mode.HANG, lambda asked: asked.service == "ssm")
    code = "import sys; from tidewheel.cli import run; run()"
    asks = subprocess.Popen(
        [sys.executable, "-c", code, "--endpoint-url", endpoint.url, *command],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not endpoint.count("ssm") and asks.poll() is None:
        time.sleep(0.02)
    asks.send_signal(number)
    _, shown = asks.communicate(timeout=60)
    assert (asks.returncode, shown) == (INTERRUPTED, "")
    assert endpoint.count("ssm") == 1


LONG = {
    "purging": ["purge", "orders", "--yes"],
    "replaying": ["replay", "orders", "billing"],
    "redriving": ["redrive", "orders", "billing"],
    "redriving ": ["redrive", "--service"],
    "cancelling": ["cancel", "orders", "--everything", "--yes"],
    "merge buckets": ["merge", "orders"],
    "rebuild index": ["rebuild", "orders"],
    "import messages": ["import", "orders", "x.csv"],
    "importing schedules": ["import", "orders", str(SCHEDULES), "--format", "eventbridge-schedules"],
}


@pytest.mark.parametrize("what", LONG)
def test_long_work_has_a_progress_bar_on_a_terminal(
    endpoint: SlowEndpoint, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any stream for a terminal then
    endpoint.be(Mode.ERROR)
    result = CliRunner().invoke(app, ["--endpoint-url", endpoint.url, *LONG[what]])
    assert what.strip() in result.stderr and "\x1b[" in result.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_job_that_cannot_release_its_leases_ends_soon_after_a_signal(name: str) -> None:
    code = (
        "import os, signal, time\n"
        "from tidewheel.cli import jobs\n"
        "jobs.END_S = 0.2\n"
        f"signal.signal(signal.{name}, jobs._interrupted)\n"
        f"try:\n    os.kill(os.getpid(), signal.{name}); time.sleep(60)\n"
        "finally:\n    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (
        130,
        "tidewheel: interrupted. No message is lost. Run the command again.\n",
    )
