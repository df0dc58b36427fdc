"""`tidewheel dev` as a process, with clients in other processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from tidewheel import AlreadyExists, Tidewheel
from tidewheel.client.dev_service import ADVANCE
from tidewheel.model.settings import TopicSettings

pytestmark = pytest.mark.long

TIDEWHEEL = str(Path(sys.executable).with_name("tidewheel"))
PATIENCE_S = 120
"""What may take long on a busy machine."""


def clean(**variables: str) -> dict[str, str]:
    """The environment of a shell without AWS settings and without `tidewheel` on its path."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith(("AWS_", "TIDEWHEEL_"))}
    return {**kept, "AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "200", **variables}


class Dev:
    """A running `tidewheel dev --json`."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self.process, self.told = process, told
        self.endpoint: str = told["endpoint"]

    def run(self, *command: str) -> str:
        """Runs a command of Tidewheel that finds the service by TIDEWHEEL_DEV=1. Returns its output."""
        variables = clean(TIDEWHEEL_DEV="1", AWS_ENDPOINT_URL=self.endpoint)
        return subprocess.run(
            [TIDEWHEEL, *command], env=variables, check=True, capture_output=True, text=True, timeout=PATIENCE_S
        ).stdout

    def json(self, *command: str) -> Any:
        return json.loads(self.run(*command, "--json"))

    def end(self, number: int = signal.SIGINT) -> tuple[str, str]:
        """Ends the service. Returns what it printed since it was ready."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=PATIENCE_S)


@contextmanager
def dev(*arguments: str, before: tuple[str, ...] = (), **variables: str) -> Iterator[Dev]:
    command = [TIDEWHEEL, *before, "dev", "--port", "0", "--console-port", "0", "--json", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean(**variables)
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield Dev(process, json.loads(line))
        finally:
            process.kill()


def cookie_of(service: Dev) -> str:
    """Opens the console. Returns the browser's cookie."""
    url = urlsplit(service.told["console"])
    connection = HTTPConnection(url.netloc, timeout=PATIENCE_S)
    connection.request("GET", f"/?{url.query}")
    return str(connection.getresponse().getheader("Set-Cookie")).partition(";")[0]


@pytest.fixture(scope="module")
def served() -> Iterator[Dev]:
    with dev("--topic", "orders:billing") as service:
        yield service


@pytest.fixture(scope="module")
def moved() -> Iterator[Dev]:
    """A service whose time tests move."""
    with dev("--topic", "orders:billing") as service:
        yield service


def refused(*command: str, **variables: str) -> str:
    """Returns what a command that fails writes to standard error."""
    done = subprocess.run(
        [TIDEWHEEL, *command], env=clean(**variables), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1 and done.stdout == "", done
    return done.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [((), ()), (("--stack", "reminders"), ("--topic", "shop:mail,audit", "--slot-s", "5"))],
    ids=["nothing", "a stack of another name"],
)
def test_the_line_to_try_sends_a_first_message_when_it_is_pasted(
    before: tuple[str, ...], after: tuple[str, ...], tmp_path: Path
) -> None:
    with dev(*after, before=before) as service:
        shell = clean(
            TIDEWHEEL_STACK="elsewhere", AWS_DEFAULT_REGION="eu-west-1", AWS_PROFILE="nobody", PATH=os.defpath
        )
        for _ in range(2):
            pasted = subprocess.run(
                ["bash", "-c", service.told["try"]],
                env=shell,
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
                cwd=tmp_path,
            )
            assert (pasted.returncode, pasted.stderr) == (0, "")
            assert pasted.stdout.splitlines()[-1].startswith("01"), "the id of the message"
        assert len(service.json("topics", "list")) == 1
        assert service.end() == ("", "Stopped. All messages are gone.\n")
        assert service.process.returncode == 0


def test_what_it_prints_as_json_is_all_that_it_prints(served: Dev) -> None:
    assert set(served.told) == {"console", "endpoint", "environment", "try", "state", "times"}
    assert served.told["state"] is None
    environment = served.told["environment"]
    assert environment["TIDEWHEEL_DEV"] == "1" and environment["AWS_ENDPOINT_URL"] == served.endpoint


def test_the_printed_environment_is_all_that_any_aws_client_needs(served: Dev, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in served.told["environment"].items():
        monkeypatch.setenv(name, value)
    assert Tidewheel().topics()[0].name == "orders"
    assert boto3.client("sqs").list_queues()["QueueUrls"]


def test_a_client_finds_the_running_service_without_any_other_setting(
    served: Dev, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDEWHEEL_DEV", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", served.endpoint)  # other tests have services of their own
    assert [each.name for each in Tidewheel().subscriptions("orders")] == ["billing"]


def test_a_topic_of_any_client_has_the_deployed_defaults(served: Dev) -> None:
    [created] = served.json("topics", "create", "reminders")
    assert created["settings"] == asdict(TopicSettings())
    served.run("topics", "delete", "reminders", "--yes")
    assert served.told["times"].startswith("as deployed.")


def test_with_short_slots_a_message_of_three_days_is_found_at_once_and_the_difference_is_told() -> None:
    with dev("--topic", "orders:billing", "--slots", "1s") as service:
        [topic] = service.json("topics", "list")
        assert (topic["settings"]["slot_s"], topic["settings"]["lookahead_s"]) == (1, 4)
        assert "until 4 to 5 s before it is due; deployed, until 480 to 780 s" in service.told["times"]
        [sent] = service.json("send", "orders", "later", "--delay", "3d")
        until = time.monotonic() + PATIENCE_S  # deployed, up to five minutes
        while sent["id"] not in [each["id"] for each in service.json("peek", "orders")]:
            assert time.monotonic() < until


@pytest.mark.parametrize("slots", ["0", "1500ms", "7m", "soon"])
def test_slots_that_no_topic_can_have_are_refused(slots: str) -> None:
    assert "slot" in refused("dev", "--port", "0", "--console-port", "0", "--slots", slots)


def test_a_topic_is_taken_as_it_is(served: Dev) -> None:
    tw = Tidewheel(endpoint_url=served.endpoint)
    with pytest.raises(AlreadyExists, match=r"slot_s=300 \(asked for 60\)"):
        tw.create_topic("orders", slot_s=60)
    assert tw.create_topic("orders").settings.slot_s == 300


def test_time_moves_with_all_that_is_due_on_the_way_and_clients_go_with_it(moved: Dev) -> None:
    tw = Tidewheel(endpoint_url=moved.endpoint)
    tw.create_topic("way")
    tw.create_subscription("way", "billing")
    [last] = moved.json("send", "way", "last", "--delay", "3h")
    [first] = moved.json("send", "way", "first", "--delay", "2h")
    before = datetime.now(UTC)
    now = datetime.fromisoformat(moved.json("dev", "advance", "3h 1m")["now"])
    assert timedelta(hours=3, minutes=1) <= now - before
    received = moved.json("receive", "way", "billing", "--max", "2", "--wait", "20")
    assert [each["id"] for each in received] == [first["id"], last["id"]]
    [sent] = moved.json("send", "way", "after", "--delay", "1s")
    assert datetime.fromisoformat(sent["deliver_at"]) > now
    [message] = moved.json("receive", "way", "billing", "--wait", "20")
    assert message["id"] == sent["id"]


def test_a_client_that_lives_while_time_moves_goes_with_it(moved: Dev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEWHEEL_DEV", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moved.endpoint)
    tw = Tidewheel()
    before = tw.send("orders", "before", delay="1h").deliver_at
    moved.run("dev", "advance", "30m")
    assert timedelta(minutes=30) <= tw.send("orders", "after", delay="1h").deliver_at - before < timedelta(hours=1)


def test_the_console_shows_the_service_and_moves_the_time_of_its_clients(moved: Dev) -> None:
    origin = moved.told["console"].partition("/?token=")[0]
    form = "application/x-www-form-urlencoded"
    headers = {"Cookie": cookie_of(moved), "Origin": origin, "Content-Type": form}

    def ask(method: str, path: str, body: str | None = None) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", int(origin.rpartition(":")[2]), timeout=PATIENCE_S)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    assert "billing" in ask("GET", "/topics/orders").read().decode()
    sent = moved.json("send", "orders", "hello", "--delay", "2h")[0]["deliver_at"]
    assert ask("POST", "/time", "by=3h&back=/").status == 303
    [later] = moved.json("send", "orders", "hello", "--delay", "1h")
    assert later["deliver_at"] > sent


@pytest.mark.parametrize("duration", ["3x", "", "11y"])
def test_a_duration_that_is_none_moves_nothing(served: Dev, duration: str) -> None:
    said = refused("dev", "advance", duration, AWS_ENDPOINT_URL=served.endpoint)
    assert said.startswith(f"tidewheel: duration={duration!r}: give seconds") and said.count("\n") == 1


def test_a_web_page_cannot_move_time(served: Dev) -> None:
    connection = HTTPConnection("127.0.0.1", int(served.endpoint.rpartition(":")[2]))
    for headers in ({"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"}):
        connection.request("POST", ADVANCE, "3d", headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()[:8]) == (403, b"Refused:")
    connection.request("GET", ADVANCE)
    assert connection.getresponse().status >= 400
    connection.close()


def test_a_client_of_a_service_that_was_killed_is_told_how_to_start_it() -> None:
    with dev() as service:
        service.process.kill()
        service.process.wait(PATIENCE_S)
        said = refused("topics", "list", TIDEWHEEL_DEV="1", AWS_ENDPOINT_URL=service.endpoint)
        assert f"no `tidewheel dev` answers at {service.endpoint}: start it with `tidewheel dev`" in said


def test_a_second_instance_at_the_same_port_is_refused_at_once(served: Dev) -> None:
    said = refused("dev", "--port", served.endpoint.rpartition(":")[2], "--console-port", "0")
    assert f"`tidewheel dev` uses it already, as process {served.process.pid}" in said and said.count("\n") == 1


@pytest.mark.parametrize("option", ["--port", "--console-port"])
def test_a_port_that_is_in_use_is_named(option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        others = {"--port": "0", "--console-port": "0"} | {option: str(port)}
        said = refused("dev", *(text for pair in others.items() for text in pair))
    assert f"{option}={port}: stop what listens there" in said and "in use" in said and said.count("\n") == 1


def test_the_console_is_opened_in_the_browser_if_asked(tmp_path: Path) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part; mv {opened}.part {opened}\n')
    browser.chmod(0o700)
    with dev("--open", BROWSER=f"{browser} %s") as service:
        until = time.monotonic() + PATIENCE_S
        while not opened.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert opened.read_text().strip() == service.told["console"]


def test_a_state_is_kept_for_one_process_and_moved_time_with_it(tmp_path: Path) -> None:
    options = ("--state", str(tmp_path / "state"), "--topic", "orders:billing")
    with dev(*options) as service:
        assert service.told["state"] == str(tmp_path / "state")
        assert "in use" in refused("dev", "--port", "0", "--console-port", "0", *options)
        [sent] = service.json("send", "orders", "hello", "--delay", "3h")
        service.run("dev", "advance", "2h")
        cookie = cookie_of(service)
        opened, stopped = service.end()[1].splitlines()
        assert "For another: http://127.0.0.1:" in opened and service.told["console"] not in opened
        assert stopped == f"Stopped. Everything is kept in {tmp_path / 'state'}."
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "state").iterdir()} == {0o600}
    with dev(*options) as service:
        assert service.told["try"] is None, "a topic that was kept may have consumers, which would do real work"
        assert cookie_of(service).partition("=")[2] == cookie.partition("=")[2], "an open page goes on"
        assert [each["id"] for each in service.json("peek", "orders")] == [sent["id"]]
        service.run("dev", "advance", "1h 1m")
        [message] = service.json("receive", "orders", "billing", "--wait", "20")
        assert message["id"] == sent["id"]


def test_it_tells_people_how_to_begin_and_that_it_stopped() -> None:
    command = [TIDEWHEEL, "dev", "--port", "0", "--console-port", "0", "--topic", "orders:billing"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean()) as process:
        try:
            assert process.stderr is not None
            lines = list(iter(process.stderr.readline, "Ctrl-C stops it.\n"))
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=PATIENCE_S)[1] == "Stopped. All messages are gone.\n"
            assert process.returncode == 0
        finally:
            process.kill()
    said = "".join(lines)
    for text in ("nothing is kept", "Times: as deployed", "export TIDEWHEEL_DEV=1", "send orders hello"):
        assert text in said
