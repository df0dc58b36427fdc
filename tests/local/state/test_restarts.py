"""Local stacks that are stopped, killed, or run out of room, and start again from their state."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from tests.local.state.served import SETTINGS
from tidewheel import Tidewheel
from tidewheel.client.operations.declared import DeclaredTopic
from tidewheel.clock import SystemClock, utc
from tidewheel.errors import InvalidValue, TemporaryFailure, TidewheelError
from tidewheel.local import LocalTidewheel, deployment
from tidewheel.model.settings import TopicSettings
from tidewheel.shipped import FUNCTIONS, shipped

PATIENCE_S = 120


@dataclass
class Served:
    """A stack in a process."""

    process: subprocess.Popen[str]
    endpoint: str

    def client(self) -> Tidewheel:
        session = boto3.Session("local", "local", region_name="us-east-1")
        once = Config(retries={"total_max_attempts": 1})
        session._session.set_default_client_config(once)
        return Tidewheel(session=session, endpoint_url=self.endpoint)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, self.errors()

    def errors(self) -> str:
        self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "tests.local.state.served", str(folder), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            endpoint = process.stdout.readline().strip()
            found = Served(process, endpoint)
            assert endpoint, found.errors()
            yield found
        except BaseException as error:
            process.kill()
            error.add_note(f"the process told: {process.stderr.read() if process.stderr else None}")
            raise
        finally:
            if process.poll() is None:
                process.kill()


def receive(tw: Tidewheel, *, until: Callable[[set[str]], bool]) -> set[str]:
    """Receives messages until enough came. None of them may be early."""
    bodies: set[str] = set()
    deadline = time.monotonic() + PATIENCE_S
    while not until(bodies):
        assert time.monotonic() < deadline, sorted(bodies)
        messages = tw.receive("orders", "billing", wait_s=1)
        for message in messages:
            assert message.deliver_at <= utc(SystemClock().now_ms())
            bodies.add(message.body)
        tw.delete("orders", "billing", messages)
    return bodies


def make_topic(tw: Tidewheel) -> None:
    tw.create_topic("orders", **SETTINGS)
    tw.create_subscription("orders", "billing")


def test_messages_come_and_cancelled_ones_do_not_after_kills_on_another_port_and_on_the_same(tmp_path: Path) -> None:
    with served(tmp_path) as first:
        tw = first.client()
        make_topic(tw)
        sent = {tw.send("orders", f"body {i}", delay=i).id: f"body {i}" for i in range(8, 22)}
        url = tw.subscriptions("orders")[0].queue_url
        first.kill()
    with served(tmp_path) as second:
        assert second.endpoint != first.endpoint
        tw = second.client()
        assert tw.subscriptions("orders")[0].queue_url == url
        cancelled = [each for each, body in sent.items() if body in ("body 20", "body 21")]
        for each in cancelled:
            tw.cancel("orders", each)
        second.kill()
    with served(tmp_path, "--port", second.endpoint.rpartition(":")[2]) as third:
        wanted = {body for each, body in sent.items() if each not in cancelled}
        came = receive(third.client(), until=lambda bodies: bodies >= wanted)
        third.stop()
    with served(tmp_path) as fourth:
        tw = fourth.client()
        tw.send("orders", "last", delay=1)
        came |= receive(tw, until=lambda bodies: "last" in bodies)
    assert came == wanted | {"last"}


def test_what_a_call_under_way_at_a_kill_left_is_found_by_a_sweep_at_the_start(tmp_path: Path) -> None:
    functions = tmp_path / "functions"
    shutil.copytree(shipped(FUNCTIONS), functions)
    handler = functions / "dispatch" / "handler.py"
    deadly = "\nimport os\n_own = handler\ndef handler(event, context):\n    os.kill(os.getpid(), 9)\n"
    healthy = handler.read_text()
    handler.write_text(healthy + deadly)
    with served(tmp_path / "state", "--functions", str(functions)) as first:
        tw = first.client()
        make_topic(tw)
        tw.send("orders", "hello", delay=20)
        first.process.wait(PATIENCE_S)
        assert first.process.returncode == -signal.SIGKILL
    handler.write_text(healthy)
    began = time.monotonic()
    with served(tmp_path / "state", "--functions", str(functions)) as second:
        receive(second.client(), until=lambda bodies: bodies == {"hello"})
    assert time.monotonic() - began < 60, "only a later sweep found it"


def fill(tw: Tidewheel, process: subprocess.Popen[str]) -> set[str]:
    """Sends large messages until the process ends. Returns the ids of the acknowledged ones."""
    sent = set()
    while process.poll() is None:
        try:
            sent.add(tw.send("orders", os.urandom(40_000).hex(), delay="1h").id)
        except (BotoCoreError, TidewheelError):
            process.wait(PATIENCE_S)
    return sent


def check_full(folder: Path, *options: str) -> None:
    with served(folder, *options) as first:
        tw = first.client()
        make_topic(tw)
        sent = fill(tw, first.process)
        assert first.process.returncode == 1
        assert "database or disk is full" in (told := first.errors())
        assert str(folder) in told and "ends without an answer" in told
    assert len(sent) > 5
    if not options:
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
    with served(folder) as second:
        tw = second.client()
        assert {each for each in sent if tw.cancel("orders", each)} == sent


def test_a_full_database_ends_the_process_and_loses_nothing(tmp_path: Path) -> None:
    check_full(tmp_path, "--max-pages", "500")


def test_what_cannot_be_written_ends_the_process(tmp_path: Path) -> None:
    with served(tmp_path, "--unkeepable") as first:
        with pytest.raises(TemporaryFailure):
            first.client().topics()
        assert "cannot be written: TypeError" in first.errors()
        assert first.process.returncode == 1


def test_a_virtual_clock_has_no_state(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="give clock='real' too"):
        LocalTidewheel(state=tmp_path)


def declaring(**settings: int) -> dict[str, Any]:
    """Returns the packaged template with a declared topic."""
    template = json.loads(json.dumps(deployment.template_of(None)))
    resources = template["Resources"]
    [sweep] = [
        each
        for each in resources.values()
        if each["Type"] == "AWS::Lambda::Function" and "functions.sweep." in each["Properties"]["Handler"]
    ]
    properties = {**sweep["Properties"], "FunctionName": "declare", "Handler": "functions.declare.handler.handler"}
    resources["Declare"] = {"Type": "AWS::Lambda::Function", "Properties": properties}
    topic = DeclaredTopic(topic="orders", settings=TopicSettings(**settings)).properties()
    token = {"Fn::GetAtt": ["Declare", "Arn"]}
    resources["Orders"] = {"Type": "Custom::TidewheelTopic", "Properties": {"ServiceToken": token, **topic}}
    return dict(template)


def test_a_declared_topic_is_kept_and_changed_by_another_template(tmp_path: Path) -> None:
    made = set()
    for settings in ({}, {}, {"retention_days": 1}):
        with LocalTidewheel(clock="real", state=tmp_path, template=declaring(**settings)) as stack:
            assert stack.failures == []
            [topic] = stack.client().topics()
            assert topic.settings.retention_days == settings.get("retention_days")
            made.add(topic.created_at)
    assert len(made) == 1
    with LocalTidewheel(clock="real", state=tmp_path) as stack:  # without a declaration the topic is left
        assert {each.created_at for each in stack.client().topics()} == made


def test_without_a_state_nothing_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with LocalTidewheel(clock="real") as stack:
            assert stack.client().topics() == []
            stack.client().create_topic("orders")
