"""`tidewheel listen` as a process, before hooks of every kind."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner
from urllib3.exceptions import SSLError

from tests.local.programs import PATIENCE_S, Programs, ended, until
from tidewheel import Consumer, Message, ReceivedMessage, Tidewheel
from tidewheel.cli.listen import post
from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.local import LocalTidewheel

pytestmark = pytest.mark.long

PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
    "from tidewheel.cli import run; run()"
)
HOSTILE = "\r\nTidewheel-Id: x\r\n\r\n\u2028\ufeff ü"
NUMBERS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A request that the hook got."""

    path: str
    headers: dict[str, str]
    body: bytes


class Hook(ThreadingHTTPServer):
    """Answers with 200, or as `answers` says for a body, one answer a request.

    Attributes:
        got: all requests.
        go: ends the answers "wait".
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.got: list[Got] = []
        self.answers: dict[str, list[str]] = {}
        self.go = Event()
        self.url = f"http://127.0.0.1:{self.server_port}/hook?of=us"
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def bodies(self) -> list[str]:
        return [each.body.decode() for each in self.got]


class Answers(BaseHTTPRequestHandler):
    """A request to the hook."""

    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(Got(path=self.path, headers=dict(self.headers), body=body))
        left = self.server.answers.get(body.decode(errors="replace"), [])
        answer = left.pop(0) if left else "200"
        if answer == "die":
            self.connection.close()
        elif answer == "junk":
            self.wfile.write(b"\x1b[2J not HTTP\r\n")
        else:
            if answer == "wait":
                self.server.go.wait(PATIENCE_S)
            self.send_response(200 if answer == "wait" else int(answer))
            self.send_header("Location", "/elsewhere")
            self.end_headers()

    def do_GET(self) -> None:
        self.server.got.append(Got(path=self.path, headers=dict(self.headers), body=b""))

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as hook:
        yield hook
        hook.go.set()
        hook.shutdown()


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalTidewheel]:
    with LocalTidewheel(stack_name="toy", clock="real") as stack:
        stack.client().create_topic("orders")
        yield stack


class World:
    """A service in real time, with a subscription for one test."""

    def __init__(self, stack: LocalTidewheel, name: str) -> None:
        self.stack, self.name, self.topic = stack, name, "orders"
        self.client: Tidewheel = stack.client()
        self.programs = Programs()

    def subscribe(self, *, visibility_timeout_s: int = 3600, **settings: Any) -> None:
        self.client.create_subscription(
            self.topic, self.name, visibility_timeout_s=visibility_timeout_s, initial_position="latest", **settings
        )

    def send(self, *bodies: str) -> None:
        self.client.send_many(self.topic, [Message(body=each) for each in bodies])

    def start(self, forward_to: str, *options: str) -> subprocess.Popen[str]:
        command = ["--stack", "toy", "--endpoint-url", str(self.stack.endpoint_url), "listen", *options]
        source = f"{self.topic}/{self.name}"
        return self.programs.start(PROGRAM, *command, source, "--forward-to", forward_to)

    def left(self, queue: str = "") -> int:
        return len(self.stack.queue(f"toy-{self.topic}-{self.name}{queue}").everything)

    def receive(self) -> list[ReceivedMessage]:
        return self.client.receive(self.topic, self.name)


@pytest.fixture
def world(stack: LocalTidewheel) -> Iterator[World]:
    world = World(stack, f"s{next(NUMBERS)}")
    yield world
    world.programs.kill()
    world.client.delete_subscription(world.topic, world.name)


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Sends Ctrl-C. Returns what the process printed to standard output and error."""
    process.send_signal(signal.SIGINT)
    code, shown, errors = ended(process)
    assert code == 0, errors
    return shown, errors


def tries(shown: str) -> list[dict[str, Any]]:
    ready, *found = [json.loads(line) for line in shown.splitlines()]
    assert ready.keys() == {"ready"}
    return found


def test_a_message_is_posted_byte_for_byte_with_its_headers_and_then_acknowledged(world: World, hook: Hook) -> None:
    world.subscribe()
    large = HOSTILE + "x" * 1_200_000
    sent = {
        "text/plain; charset=utf-8": world.client.send("orders", HOSTILE),
        "application/json": world.client.send("orders", {"id": 17}, attributes={"kind": HOSTILE}),
        "application/octet-stream": world.client.send("orders", b"\xff\x00\r\n"),
    }
    world.client.send("orders", large)
    process = world.start(hook.url, "--json")
    until(lambda: len(hook.got) == 4 and not world.left(), process)
    shown, errors = interrupted(process)

    found = {each.headers["Content-Type"]: each for each in hook.got if len(each.body) < 1_000}
    assert {kind: each.body for kind, each in found.items()} == {
        "text/plain; charset=utf-8": HOSTILE.encode(),
        "application/json": b'{"id":17}',
        "application/octet-stream": b"\xff\x00\r\n",
    }
    assert large.encode() in [each.body for each in hook.got]
    for kind, receipt in sent.items():
        headers = found[kind].headers
        ours = {name: value for name, value in headers.items() if name.startswith("Tidewheel-")}
        attributes = json.loads(ours.pop("Tidewheel-Attributes", "{}"))
        assert attributes == ({"kind": HOSTILE} if kind == "application/json" else {})
        due = datetime.fromisoformat(ours.pop("Tidewheel-Deliver-At"))
        assert due.utcoffset() == timedelta() and due == receipt.deliver_at
        assert ours == {
            "Tidewheel-Id": receipt.id,
            "Tidewheel-Topic": "orders",
            "Tidewheel-Subscription": world.name,
            "Tidewheel-Attempt": "1",
        }
    assert {each.path for each in hook.got} == {"/hook?of=us"}
    found_tries = tries(shown)
    assert {(each["status"], each["attempt"]) for each in found_tries} == {(200, 1)}
    assert {each.id for each in sent.values()} < {each["id"] for each in found_tries}
    assert errors == "Stopped. Messages: 4 handled.\n"


def test_a_retry_is_posted_with_the_id_of_the_first_message(world: World, hook: Hook) -> None:
    world.subscribe()
    first = world.client.send("orders", "again").id
    [message] = world.client.receive("orders", world.name, wait_s=20)
    Consumer(world.client, "orders", world.name).retry_later(message, delay=0)
    process = world.start(hook.url, "--json")
    until(lambda: hook.got and not world.left(), process)
    [tried] = tries(interrupted(process)[0])
    [got] = hook.got
    assert tried["original_id"] == got.headers["Tidewheel-Original-Id"] == first
    assert (tried["id"], tried["attempt"]) == (got.headers["Tidewheel-Id"], 2) and tried["id"] != first


def test_what_is_not_taken_comes_again_by_the_queues_rule(world: World, hook: Hook) -> None:
    world.subscribe(visibility_timeout_s=3)
    hook.answers = {body: [body] for body in ("500", "302", "404", "die", "junk", "wait")}
    world.send(*hook.answers)
    process = world.start(hook.url, "--timeout", "0.5", "--json")
    until(lambda: len(hook.got) >= 12 and not world.left(), process)
    shown, _ = interrupted(process)
    told = {(each["status"], each.get("error")) for each in tries(shown) if each["attempt"] == 1}
    assert told == {
        (500, None),
        (302, None),
        (404, None),
        (None, "no answer (ProtocolError)"),
        (None, "no answer (ReadTimeoutError)"),
    }
    assert [each["status"] for each in tries(shown) if each["attempt"] == 2] == [200] * 6
    assert {each.path for each in hook.got} == {"/hook?of=us"}  # no redirect was followed
    assert "\x1b" not in shown


def test_what_is_never_taken_goes_to_the_dead_letters_as_the_queue_says(world: World, hook: Hook) -> None:
    world.subscribe(visibility_timeout_s=0)
    hook.answers = {"poison": ["500"] * 99}
    world.send("poison")
    process = world.start(hook.url)
    until(lambda: world.left("-dead"), process)
    shown, errors = interrupted(process)
    ready, rule, *lines = shown.splitlines()
    assert ready == f"Ready: orders/{world.name} to {hook.url}. Ctrl-C ends it."
    assert "again after 0 s, and goes to the dead-letter queue after 10 tries" in rule
    # SQS hides it for 0 s, so it may come again while it is posted or put into the dead-letter queue.
    assert 5 < len(lines) == len(hook.got) <= 10 and {line.split("  ")[2] for line in lines} == {"500"}
    assert lines[-1].endswith("attempt 10")
    assert errors in [f"Stopped. Messages: {len(lines) - 1} failed, {dead} dead.\n" for dead in (1, 2)]


def test_where_nothing_listens_no_message_is_lost(world: World, hook: Hook) -> None:
    world.subscribe()
    hook.server_close()
    world.send("1", "2")
    process = world.start(hook.url, "--json")
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [(each["status"], each["error"]) for each in lines[1:]] == [(None, "Connection refused")] * 2
    interrupted(process)
    assert world.left() == 2


def certificate(folder: Path) -> Path:
    """Makes a certificate for 127.0.0.1 that only itself vouches for. Returns the file, with its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = folder / "hook.pem"
    file.write_bytes(secret + made.public_bytes(Encoding.PEM))
    return file


def test_a_hook_over_https_gets_messages_if_its_certificate_is_trusted(
    hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    hook.socket = tls.wrap_socket(hook.socket, server_side=True)
    url = hook.url.replace("http:", "https:")
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        post(url, b"x", {}, 30)
    assert hook.got == []
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert post(url, b"x", {}, 30) == 200
    assert hook.bodies() == ["x"]


def test_a_closed_standard_output_ends_it_and_no_message_comes_twice(world: World, hook: Hook) -> None:
    world.subscribe()
    process = world.start(hook.url, "--json")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    world.send("1")
    process.wait(PATIENCE_S)
    assert (hook.bodies(), world.left()) == (["1"], 0)


def test_a_paused_or_filtered_subscription_is_told_before_nothing_comes(world: World, hook: Hook) -> None:
    world.subscribe(filter_policy={"kind": ["reminder"]})
    world.client.pause("orders", world.name)
    process = world.start(hook.url, "--json")
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())["ready"]
    assert (ready["state"], ready["filter_policy"]) == ("PAUSED", '{"kind":["reminder"]}')
    assert f"tidewheel subscriptions resume orders {world.name}" in ready["notes"][1]
    assert "match its filter" in ready["notes"][2]
    assert interrupted(process) == ("", "Stopped. Messages: none.\n")


# ---- what is refused


def listen(target: Target, *options: str) -> str:
    result = CliRunner().invoke(app, ["listen", *options], obj=target)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert result.stderr.startswith("tidewheel: ") and result.stderr.count("\n") == 1
    return result.stderr


HERE = Target(stack="toy", endpoint_url="http://127.0.0.1:1")
URL = ("--forward-to", "http://localhost:3000/hook")


@pytest.mark.parametrize(
    "endpoint", [None, "https://sqs.eu-central-1.amazonaws.com", "http://localhost.example:4566", "http://127.0.0.2"]
)
def test_messages_of_a_deployed_stack_are_taken_only_with_take(endpoint: str | None) -> None:
    target = Target(stack="toy", endpoint_url=endpoint, region="nowhere")
    said = listen(target, "orders/billing", *URL)
    assert "stack 'toy' is not on this machine" in said and "Give --take" in said


def test_with_take_a_stack_elsewhere_is_listened_to(stack: LocalTidewheel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "here", False)
    target = Target(stack="toy", endpoint_url=stack.endpoint_url, region="us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    said = listen(target, "orders/none", *URL, "--take")
    assert "topic 'orders' has no subscription 'none'" in said


@pytest.mark.parametrize(
    "url",
    [
        "localhost:3000/hook",
        "ftp://localhost/",
        "http://",
        "http://localhost:99999/",
        "http://localhost:0/",
        "http://[bad/",
    ],
)
def test_a_url_that_cannot_be_posted_to_is_told_before_a_message_is_taken(url: str) -> None:
    assert "give a URL that starts with http:// or https://" in listen(HERE, "orders/billing", "--forward-to", url)


@pytest.mark.parametrize("timeout", ["0", "nan", "inf", "39601"])
def test_a_time_out_that_is_none_is_told(timeout: str) -> None:
    assert "give seconds from 0.1 to 39600" in listen(HERE, "orders/billing", *URL, "--timeout", timeout)


@pytest.mark.parametrize("source", ["orders", "/billing", "orders/", "a/b/c", "a b/c"])
def test_a_source_that_is_none_is_told(source: str, stack: LocalTidewheel) -> None:
    target = Target(stack="toy", endpoint_url=stack.endpoint_url, region="us-east-1")
    said = listen(target, source, *URL)
    assert "give both names" in said or "use 1 to 48 letters" in said
