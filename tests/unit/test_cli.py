"""Tests the command line over a client in memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.damaged_delivery import put_damaged
from tidewheel.cli import run
from tidewheel.cli.main import app
from tidewheel.cli.target import Target
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import InvalidValue
from tidewheel.local import MemoryTidewheel
from tidewheel.model.message import HEADER_ATTRIBUTE, Encoding, id_text
from tidewheel.model.pack import decode_pack
from tidewheel.model.received import header_text


@dataclass(frozen=True, kw_only=True)
class Here(Target):
    """A target whose client is given."""

    made: Tidewheel

    def client(self) -> Tidewheel:
        return self.made


class Shell:
    """Runs commands against the service in memory."""

    def __init__(self) -> None:
        self.stack = MemoryTidewheel()
        client = self.stack.client()
        self.target, self.sqs = Here(made=client), self.stack.sqs
        settings = client.core.connection.settings
        self.urgent, self.bulk, self.refused = (
            settings.urgent_queue_url,
            settings.bulk_queue_url,
            settings.refused_queue_url,
        )

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        return CliRunner().invoke(app, list(arguments), obj=self.target, input=stdin)

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        result = self(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def ingested(self, queue_url: str) -> list[Any]:
        """Returns (texts, encodings, attributes) of the packs in a queue."""
        answer = self.sqs.receive_message(QueueUrl=queue_url, MessageAttributeNames=["All"], MaxNumberOfMessages=10)
        data = [raw["MessageAttributes"]["pack"]["BinaryValue"] for raw in answer.get("Messages", [])]
        return [
            (list(p.texts), list(p.encodings), p.attributes)
            for p in (decode_pack(d, self.stack.clock.now_ms()) for d in data)
        ]

    def deliver(self, queue_url: str, body: str) -> str:
        """Puts a message into a queue as the deliver function does."""
        now_ms = self.stack.clock.now_ms()
        message_id = id_text(now_ms.to_bytes(6) + body.encode()[-10:].rjust(10, b"\0"))
        header = header_text(message_id, Encoding.TEXT, now_ms)
        self.sqs.send_message(
            QueueUrl=queue_url,
            MessageBody=body,
            MessageAttributes={HEADER_ATTRIBUTE: {"DataType": "String", "StringValue": header}},
        )
        return message_id


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture
def orders(shell: Shell) -> Shell:
    """A shell with the topic `orders`."""
    shell.json("topics", "create", "orders")
    return shell


# ---- topics and subscriptions


def test_a_created_topic_is_listed_with_its_settings(shell: Shell) -> None:
    assert "no topics" in shell("topics", "list").stdout
    created = shell.json("topics", "create", "orders", "--slot-s", "60", "--part-rows", "9")
    assert created[0].keys() == {"name", "settings", "created_at", "waiting", "recurring"}
    settings = created[0]["settings"]
    assert (created[0]["name"], settings["slot_s"], settings["part_rows"]) == ("orders", 60, 9)
    assert shell.json("topics", "list") == created
    assert "orders" in shell("topics", "list").stdout


def test_a_subscription_with_a_queue_of_the_users_own_tells_where_the_policy_is_that_the_queue_needs(
    orders: Shell,
) -> None:
    url = orders.sqs.create_queue(QueueName="own")["QueueUrl"]
    created = orders("subscriptions", "create", "orders", "billing", "--queue-url", url)
    assert f"tidewheel policy queue {url}" in created.stderr
    assert url in created.stdout
    assert "policy" not in orders("subscriptions", "create", "orders", "audit").stderr
    fifo = orders("subscriptions", "create", "orders", "fifo", "--queue-url", url + ".fifo")
    assert fifo.exit_code == 1 and "FIFO" in fifo.stderr


# ---- damaged data


def test_what_is_damaged_is_listed_retried_and_given_up(orders: Shell) -> None:
    assert "nothing is damaged" in orders("damaged", "list", "orders").stdout
    put_damaged(orders.stack.service, "orders", "billing", 7)
    put_damaged(orders.stack.service, "orders", "billing", 8, tries=1)
    listed = orders("damaged", "list", "orders").stdout
    assert all(text in listed for text in ("billing:7", "billing:8", "damaged", "tried again"))

    early = orders("damaged", "give-up", "orders", "billing:8", "--reason", "gone", "--yes")
    assert early.exit_code == 1 and "the service still tries" in early.stderr
    assert orders("damaged", "retry", "orders", "billing:8").exit_code == 0

    silent = orders("damaged", "give-up", "orders", "billing:7", "--reason", "", "--yes")
    assert silent.exit_code == 1 and "say why" in silent.stderr
    asked = orders("damaged", "give-up", "orders", "billing:7", "--reason", "gone", stdin=b"n\n")
    assert asked.exit_code == 1 and "about 3 messages" in asked.stderr
    assert len(orders.json("damaged", "list", "orders")) == 2
    assert orders("damaged", "give-up", "orders", "billing:7", "--reason", "gone", stdin=b"y\n").exit_code == 0
    assert [each["id"] for each in orders.json("damaged", "list", "orders")] == ["billing:8"]
    [record] = orders.sqs.receive_message(QueueUrl=orders.refused)["Messages"]
    assert json.loads(record["Body"])["reason"] == "gone"


@pytest.mark.parametrize("command", [("retry",), ("restore",), ("give-up", "--reason", "gone")])
def test_a_damaged_part_that_is_not_there_is_said_without_a_question(orders: Shell, command: tuple[str, ...]) -> None:
    name, *options = command
    gone = orders("damaged", name, "orders", "billing:9", *options)
    assert gone.exit_code == 1
    assert gone.stderr.startswith("tidewheel: topic 'orders' has no unreadable messages with id 'billing:9'")


# ---- sending


def test_a_message_is_sent_with_delay_and_attributes(orders: Shell) -> None:
    sent = orders.json("send", "orders", "hello", "--delay", "3d 4h", "--attribute", "kind=a=b")
    assert datetime.fromisoformat(sent[0]["deliver_at"]) == orders.stack.now() + timedelta(hours=76)
    assert len(sent[0]["id"]) == 26
    assert orders.ingested(orders.bulk) == [(["hello"], [0], [{"kind": "a=b"}])]


def test_each_line_of_standard_input_is_a_message(orders: Shell) -> None:
    sent = orders.json("send", "orders", "-", "--delay", "5m", stdin="one\r\nzwö\nthree".encode())
    assert len(sent) == 3
    assert orders.ingested(orders.urgent) == [(["one", "zwö", "three"], [0, 0, 0], None)]


def test_bad_lines_are_reported_and_the_others_are_sent(orders: Shell) -> None:
    result = orders("send", "orders", "-", "--json", stdin=b"one\n\n\xff\nfour\n")
    assert result.exit_code == 1
    second, third, how = result.stderr.splitlines()
    assert second.startswith("tidewheel: line 2: body=''") and third.startswith("tidewheel: line 3: body=")
    assert how == "tidewheel: 2 of 4 lines were not sent; all others were sent"
    assert len(json.loads(result.stdout)) == 2
    assert orders.ingested(orders.urgent) == [(["one", "four"], [0, 0], None)]


def test_a_line_that_is_not_json_fails_alone(orders: Shell) -> None:
    result = orders("send", "orders", "-", "--json-body", stdin=b'1\n{\n3\n\n"five"\n')
    assert result.exit_code == 1
    assert [line.split(": ")[1] for line in result.stderr.splitlines()[:2]] == ["line 2", "line 4"]
    assert orders.ingested(orders.urgent) == [(["1", "3", "five"], [1, 1, 0], None)]
    nothing = orders("send", "orders", "-", "--json-body", stdin=b"{")
    assert nothing.exit_code == 1 and "1 of 1 lines were not sent" in nothing.stderr


def test_an_empty_standard_input_is_one_clear_line(orders: Shell) -> None:
    result = orders("send", "orders", "-")
    assert (result.exit_code, result.stderr) == (1, "tidewheel: BODY='-': standard input has no lines\n")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["x", "--delay", "soon"], "delay='soon'"),
        (["x", "--delay", "-5"], "cannot be negative"),
        (["x", "--deliver-at", "tomorrow"], "--deliver-at='tomorrow'"),
        (
            ["x", "--deliver-at", "2027-01-16T10:00:00"],
            "--deliver-at='2027-01-16T10:00:00': give an ISO 8601 time with a time zone",
        ),
        (["x", "--delay", "1s", "--deliver-at", "2027-01-16T10:00:00Z"], "give only one of these arguments"),
        (["x", "--attribute", "kind"], "give NAME=VALUE"),
        ([""], "SQS takes no empty body"),
    ],
)
def test_what_cannot_be_sent_is_one_clear_line(orders: Shell, arguments: list[str], wrong: str) -> None:
    result = orders("send", "orders", *arguments)
    assert result.exit_code == 1
    assert wrong in result.stderr
    assert result.stderr.count("\n") == 1
    assert orders.ingested(orders.urgent) == []


# ---- receiving and stats


def test_received_messages_are_printed_and_acknowledged(orders: Shell) -> None:
    [made] = orders.json("subscriptions", "create", "orders", "billing")
    sent = {orders.deliver(made["queue_url"], f"body {i}") for i in range(3)}
    found = orders.json("receive", "orders", "billing", "--max", "5")
    assert {each["id"] for each in found} == sent
    assert (found[0]["encoding"], found[0]["receive_count"]) == ("text", 1)
    [line] = orders.json("stats", "orders")["subscriptions"]
    assert line["queue"] == {"visible": 0, "delayed": 0, "in_flight": 0}
    assert "nothing to receive" in orders("receive", "orders", "billing").stdout


DECEIVING = "\x1b[2J\x9b31m\u202egnp.exe\x7f\r\u2066"
PLAIN = {
    name: {"DataType": "String", "StringValue": value}
    for name, value in {"tidewheel.topic": "orders", "tidewheel.key": DECEIVING}.items()
}


@pytest.mark.parametrize(
    "command",
    [
        ("receive", "orders", "billing", "--keep"),
        ("receive", "orders", "billing", "--keep", "--json"),
        ("send", "orders", "x", "--attribute", f"{DECEIVING}=1"),
        ("explain", json.dumps({"MessageBody": DECEIVING[5:], "MessageAttributes": PLAIN})),
    ],
    ids=lambda command: " ".join(command[:1] + command[4:]).partition("=")[0][:20],
)
def test_no_text_of_others_reaches_the_terminal_raw(orders: Shell, command: tuple[str, ...]) -> None:
    [made] = orders.json("subscriptions", "create", "orders", "billing")
    orders.deliver(made["queue_url"], DECEIVING[1:])  # SQS takes no escape
    result = orders(*command)
    assert "202e" in result.output
    assert {each for each in result.output if not each.isprintable()} <= {"\n"}
    if "--json" in command:
        assert json.loads(result.stdout)[0]["body"] == DECEIVING[1:]


@pytest.mark.parametrize("pair", [["orders", "billing"], ["orders/billing"], ["orders:billing"], ["orders billing"]])
def test_a_topic_and_its_subscription_are_a_pair_however_they_are_written(orders: Shell, pair: list[str]) -> None:
    [made] = orders.json("subscriptions", "create", *pair, "--visibility-timeout-s", "70")
    assert made["name"] == "billing"
    orders.deliver(made["queue_url"], "hello")
    assert [each["body"] for each in orders.json("receive", "--max", "5", *pair)] == ["hello"]
    [changed] = orders.json("subscriptions", "filter", *pair, '{"a": ["b:c/d"]}')
    assert changed["filter_policy"] == '{"a":["b:c/d"]}'
    assert orders.json("subscriptions", "pause", *pair)[0]["state"] == "PAUSED"
    assert orders.json("subscriptions", "delete", "--yes", *pair)[0]["name"] == "billing"


def test_what_selects_nothing_names_the_options_of_the_shell(orders: Shell) -> None:
    for command in (("find", "orders"), ("cancel", "orders", "--key-prefix", "")):
        said = orders(*command).stderr
        assert "give --everything" in said and "everything=True" not in said and said.count("\n") == 1


def test_a_message_that_could_not_be_printed_is_not_acknowledged(
    orders: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    [made] = orders.json("subscriptions", "create", "orders", "billing")
    orders.deliver(made["queue_url"], "body")

    def closed(value: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("tidewheel.cli.output.print_json", closed)
    assert orders("receive", "orders", "billing", "--json").exit_code == 1
    assert orders.json("stats", "orders")["subscriptions"][0]["queue"]["in_flight"] == 1


# ---- subscriptions' states
def states(orders: Shell) -> list[tuple[str, str | None]]:
    return [(each["state"], each["filter_policy"]) for each in orders.json("subscriptions", "list", "orders")]


def test_a_filter_is_given_changed_and_taken_away(orders: Shell) -> None:
    orders("subscriptions", "create", "orders", "billing", "--filter-policy", '{"color": ["red"]}')
    assert states(orders) == [("ACTIVE", '{"color":["red"]}')]
    assert '{"color":["red"]}' in orders("subscriptions", "list", "orders").stdout
    orders("subscriptions", "filter", "orders", "billing", '{"color": ["blue"]}')
    assert states(orders) == [("ACTIVE", '{"color":["blue"]}')]
    orders("subscriptions", "filter", "orders", "billing", "--all")
    assert states(orders) == [("ACTIVE", None)]


@pytest.mark.parametrize("arguments", [[], ['{"color": ["red"]}', "--all"], ["no json"], ["{}"]])
def test_a_filter_that_is_none_or_two_is_said(orders: Shell, arguments: list[str]) -> None:
    orders("subscriptions", "create", "orders", "billing")
    result = orders("subscriptions", "filter", "orders", "billing", *arguments)
    assert result.exit_code == 1 and result.stderr.startswith("tidewheel: ")
    assert states(orders) == [("ACTIVE", None)]


def test_a_subscription_is_deleted_after_asking_and_its_queues_only_if_told_so(orders: Shell) -> None:
    orders("subscriptions", "create", "orders", "billing")
    asked = orders("subscriptions", "delete", "orders", "billing", stdin=b"n\n")
    assert asked.exit_code == 1 and "Delete subscription billing" in asked.stderr
    assert len(states(orders)) == 1
    orders("subscriptions", "delete", "orders", "billing", stdin=b"y\n")
    assert states(orders) == []
    assert orders.sqs.get_queue_url(QueueName="tidewheel-orders-billing")
    orders("subscriptions", "create", "orders", "billing")
    orders("subscriptions", "delete", "orders", "billing", "--delete-queue", "--yes")
    urls = orders.sqs.list_queues().get("QueueUrls", [])
    assert not [url for url in urls if "billing" in url]


# ---- history


def test_a_purge_asks_first_and_leaves_what_is_due_outside_its_range(orders: Shell) -> None:
    orders("subscriptions", "create", "orders", "billing")
    for day in ("02", "04"):
        orders("send", "orders", day, "--deliver-at", f"2026-01-{day}T12:00:00Z")
    orders.stack.advance(hours=1)
    purge = ("purge", "orders", "--from", "2026-01-03T00:00:00Z", "--until", "2026-01-05T00:00:00Z")
    refused = orders(*purge, stdin=b"n\n")
    assert refused.exit_code == 1 and "in this range of topic orders?" in refused.stderr
    done = orders(*purge, "--yes")
    assert done.exit_code == 0 and "messages (estimated)" in done.stdout
    orders.stack.advance(days=6)
    assert [each.body for each in orders.stack.receive("orders", "billing")] == ["02"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("purge", "orders", "--yes", "--from", "tomorrow"),
            "--from='tomorrow': give an ISO 8601 time with a time zone",
        ),
        (
            ("replay", "orders", "billing", "--until", "2026-01-01T00:00:00"),
            "--until='2026-01-01T00:00:00': give an ISO 8601 time with a time zone",
        ),
        (("replay", "orders", "nobody"), "has no subscription 'nobody'"),
        (("redrive", "orders"), "give a topic and a subscription, or --service"),
        (("redrive", "orders", "--service"), "give a topic and a subscription, or --service"),
        (("topics", "update", "orders"), "give at least one setting"),
        (("topics", "create", "mail", "--part-rows", "many"), "^tidewheel: --part-rows='many'"),
        (("topics", "create", "mail", "--part-rows", "none"), "^tidewheel: --part-rows="),
        (("topics", "create", "mail", "--lookahead-s", "9000"), "^tidewheel: slot_s, lookahead_s="),
        (("topics", "update", "orders", "--delay-levels", "often"), "delay_levels, level 1="),
        (("topics", "delete", "mail", "--yes"), "topic 'mail' does not exist"),
    ],
)
def test_bad_arguments_are_one_clear_line(orders: Shell, arguments: tuple[str, ...], says: str) -> None:
    orders("subscriptions", "create", "orders", "billing")
    result = orders(*arguments)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert re.search(says, result.stderr)


# ---- the program


WITHOUT_JSON = {
    "docs": "prints Markdown",
    "worker": "prints what its functions print",
    "topics delete": "prints nothing",
    "recurring cancel": "prints nothing",
    "damaged retry": "prints a sentence",
    "damaged restore": "prints a sentence",
    "damaged give-up": "prints nothing",
}


def test_every_command_that_prints_data_prints_json_if_asked() -> None:
    def without(command: Any, name: str) -> Iterator[str]:
        if not hasattr(command, "commands"):
            options = {option for each in command.params for option in each.opts}
            yield from () if "--json" in options else (name,)
        for each, inner in getattr(command, "commands", {}).items():
            yield from without(inner, f"{name} {each}".strip())

    assert set(without(get_command(app), "")) == WITHOUT_JSON.keys()


def test_an_interrupted_command_exits_with_130_and_says_nothing(orders: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tidewheel, "receive", interrupt)
    result = orders("receive", "orders", "billing")
    assert (result.exit_code, result.stderr) == (130, "")


def test_an_interrupt_while_loading_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidewheel.cli.main.app", interrupt)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as caught:
            run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught.value.code == 130


def test_a_defect_keeps_its_traceback(orders: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tidewheel, "stats", lambda self, topic: 1 / 0)
    assert isinstance(orders("stats", "orders").exception, ZeroDivisionError)


@pytest.mark.parametrize("command", [("dev", "--port", "0", "--console-port", "0"), ("demo",)], ids=" ".join)
def test_without_the_local_extra_its_commands_say_what_to_install(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith(("tidewheel.local.emul", "tidewheel.cli.demo"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "moto", None)
    result = CliRunner().invoke(app, list(command))
    assert result.exit_code == 1
    assert "pip install 'tidewheel[local]'" in result.stderr


def test_what_dev_cannot_use_is_refused_at_once() -> None:
    for arguments, said in (
        (["--slot-s", "60"], "slot_s=60: give --topic too"),
        (["--topic", "orders:"], "--topic='orders:': give the subscriptions after the colon"),
    ):
        result = CliRunner().invoke(app, ["dev", *arguments])
        assert result.exit_code == 1
        assert said in result.stderr


# ---- the target


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.usefixtures("no_credentials")
def test_the_local_runtime_needs_no_credentials() -> None:
    session = Target(endpoint_url="http://localhost:4566").session()
    assert session.get_credentials().access_key == "local"
    assert session.region_name == "us-east-1"
    assert Target(endpoint_url="https://elsewhere.example").session().get_credentials() is None


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--endpoint-url", "localhost:4566"], "give a URL that starts with http"),
        (["--endpoint-url", "http://localhost:1"], "nothing listens at http://localhost:1; start the service with"),
        (["--endpoint-url", "http://127.0.0.2:1", "--region", "us-east-1"], "Unable to locate credentials; run aws"),
        (["--endpoint-url", "http://[bad"], "--endpoint-url='http://[bad': give a URL that starts with http"),
        ([], "region=None: give a region such as eu-central-1, with --region, AWS_DEFAULT_REGION"),
        (["--region", "Frankfurt"], "region='Frankfurt': give a region such as eu-central-1"),
        (["--region", "us-east-1"], "Unable to locate credentials; run aws configure or aws sso login, give --profile"),
        (["--profile", "nobody"], "profile (nobody) could not be found; list the profiles with: aws configure list"),
        (["--profile", "corp"], "does not exist; sign in: aws sso login --profile corp"),
        (["--stack", "a/b"], "stack_name='a/b'"),
    ],
)
def test_a_target_that_cannot_be_reached_is_one_clear_line(
    options: list[str], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(os.environ["AWS_CONFIG_FILE"]).write_text(
        "[profile corp]\nregion=us-east-1\nsso_start_url=https://corp.example\nsso_region=us-east-1\n"
        "sso_account_id=123456789012\nsso_role_name=dev\n"
    )
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("tidewheel.aws.tries._BACKOFF_S", 0.01)
    result = CliRunner().invoke(app, [*options, "topics", "list"])
    assert result.exit_code == 1
    assert wrong in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("ExpiredTokenException", "renew the credentials, such as with: aws sso login"),
        ("UnrecognizedClientException", "check the credentials, and that they are for this endpoint"),
        ("SignatureDoesNotMatch", "check the credentials, and that they are for this endpoint"),
        ("AccessDeniedException", "see what a program needs: tidewheel docs permissions"),
        ("ParameterNotFound", "no stack 'tidewheel' in region us-east-1"),
        ("501", "https://elsewhere.example answers with status 501, and is not AWS; correct --endpoint-url"),
    ],
)
def test_what_aws_refuses_is_told_with_what_to_do(code: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    ssm = session.client("ssm")
    monkeypatch.setattr(Target, "session", lambda _: session)
    monkeypatch.setattr(session, "client", lambda *_, **__: ssm)
    target = Target(endpoint_url="https://elsewhere.example")
    with Stubber(ssm) as stubber:
        stubber.add_client_error("get_parameter", code, "told by AWS")
        result = CliRunner().invoke(app, ["topics", "list"], obj=target)
    assert result.exit_code == 1 and advice in result.stderr and result.stderr.count("\n") == 1
    assert "told by AWS" in result.stderr or code in ("ParameterNotFound", "501")


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(InvalidValue, match="--endpoint-url"):
        Target(endpoint_url="ftp://x").client()
    for endpoint in ("ftp://x", "localhost:4566", "http://localhost:port"):
        with pytest.raises(InvalidValue, match="endpoint_url="):
            Tidewheel(endpoint_url=endpoint)


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("AWS_ENDPOINT_URL_SSM", "nonsense", "the AWS settings for ssm cannot be used: Invalid endpoint: nonsense"),
        ("AWS_DEFAULTS_MODE", "wild", "invalid defaults mode: wild"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token", "No such file or directory: '/nowhere/token'"),
        ("AWS_ENDPOINT_URL", "here", "--endpoint-url='here'"),
        ("AWS_ACCESS_KEY_ID", "a", "missing: AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_variable_that_cannot_be_used_is_one_clear_line(
    name: str, value: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/x")
    monkeypatch.setenv(name, value)
    result = CliRunner().invoke(app, ["topics", "list"])
    assert result.exit_code == 1 and wrong in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("tidewheel docs > /dev/full", (1, "tidewheel: [Errno 28] No space left on device\n")),
        ("tidewheel docs | true; exit ${PIPESTATUS[0]}", (1, "")),
        ("tidewheel docs cost | head -n 1 > /dev/null", (0, "")),
        ("tidewheel docs >&-", (0, "")),
        ("tidewheel docs 2>&-", (0, "")),
        ("PYTHONIOENCODING=ascii tidewheel docs cost > /dev/null", (0, "")),
        (
            "tidewheel --endpoint-url http://127.0.0.1:1 topics delete orders <&-",
            (1, "Delete topic orders, its subscriptions and all waiting messages? [y/N]:Aborted.\n"),
        ),
    ],
)
def test_a_stream_that_is_closed_or_full_ends_a_command_without_a_traceback(
    command: str, expected: tuple[int, str]
) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == expected


def test_a_log_level_that_is_none_is_one_clear_line() -> None:
    result = CliRunner().invoke(app, ["dev", "--port", "0", "--console-port", "0", "--log-level", "LOUD"])
    assert result.exit_code == 1
    assert "tidewheel: log_level='LOUD': give one of: DEBUG, INFO, WARNING, ERROR, CRITICAL\n" in result.stderr
