"""A local stack inside a process, with isolation, the HTTP endpoint, threads and real time."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import moto.core.utils
import moto.sqs.models
import pytest
import typer
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.local.toy import Toy
from tidewheel import InvalidValue
from tidewheel.cli import dev
from tidewheel.local import LocalTidewheel
from tidewheel.model.schedule_expressions import Every, Once, parse


def test_two_stacks_one_after_the_other_share_nothing(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.send("left behind", delay_s=10)
        toy.schedule("left-behind", "at(2026-01-02T00:00:00)")
        toy.table.put_item(TableName="table", Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
        first = toy.module("worker")
    with Toy(tmp_path) as toy:
        assert toy.module("worker") is not first
        assert toy.count() == (0, 0, 0) and toy.schedules() == []
        assert toy.table.scan(TableName="table")["Count"] == 0
        assert not toy.stack.requests["sqs.SendMessage"]


def test_a_second_stack_at_the_same_time_is_refused(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        with pytest.raises(RuntimeError, match="another LocalTidewheel is open"):
            LocalTidewheel().open()
        assert toy.count() == (0, 0, 0)


def test_moto_mocks_of_the_caller_are_not_emptied() -> None:
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="theirs")
        with pytest.raises(RuntimeError, match="mock_aws is active"):
            LocalTidewheel().open()
        assert boto3.client("s3").list_buckets()["Buckets"][0]["Name"] == "theirs"


def test_a_mock_of_the_caller_does_not_empty_an_open_stack(tmp_path: Path) -> None:
    before = _surroundings()
    with Toy(tmp_path) as toy:
        with pytest.raises(RuntimeError, match="would empty it"), mock_aws():
            raise AssertionError("mock_aws began")
        with pytest.raises(RuntimeError, match="would empty it"):
            mock_aws(lambda: None)()
        assert toy.count() == (0, 0, 0)  # its functions and queues are there
    assert _is_left_as(before)
    with mock_aws():
        assert boto3.client("s3", region_name="us-east-1").list_buckets()["Buckets"] == []


def _surroundings() -> dict[str, Any]:
    return {
        "environment": dict(os.environ),
        "session": boto3.DEFAULT_SESSION,
        "threads": set(threading.enumerate()),
        "modules": {name for name in sys.modules if name.startswith("_tidewheel_local")},
        "queue": dict(vars(moto.sqs.models.SQSBackend)),
        "time": vars(moto.sqs.models)["unix_time_millis"],
        "utcnow": moto.core.utils.utcnow,
    }


def _is_left_as(before: dict[str, Any]) -> bool:
    """Whether nothing is left. Threads of earlier tests may have ended, and one that has just answered ends soon."""
    for thread in set(threading.enumerate()) - before["threads"]:
        thread.join(10)
    after = _surroundings()
    assert after["threads"] <= before["threads"], after["threads"] - before["threads"]
    return after | {"threads": None} == before | {"threads": None}


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_nothing_is_left_behind_even_after_an_exception(tmp_path: Path, clock: str) -> None:
    before = _surroundings()
    with pytest.raises(KeyboardInterrupt), Toy(tmp_path, clock=clock) as toy:
        _plain(toy.stack.endpoint_url, "sqs").list_queues()
        raise KeyboardInterrupt
    assert _is_left_as(before)


def test_a_handler_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    before = _surroundings()
    with pytest.raises(ZeroDivisionError), Toy(tmp_path, "1 / 0", clock="real"):
        pass
    assert _is_left_as(before)


def test_a_runtime_that_failed_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Toy(tmp_path, clock="real") as toy:
        toy.stack.check()
        monkeypatch.setattr(type(toy.stack._pump), "run_next", lambda *_: 1 // 0)
        with pytest.raises(RuntimeError, match="failed"):
            toy.stack.skip(hours=1)
        with pytest.raises(RuntimeError, match="failed"):
            toy.stack.check()
        with pytest.raises(typer.Exit):
            dev._watch(toy.stack, threading.Event())


def test_the_callers_own_time_and_boto3_are_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with Toy(tmp_path) as toy:
        assert abs(dt.datetime.now(dt.UTC).timestamp() - toy.stack.now().timestamp()) > 3600
        assert boto3.DEFAULT_SESSION is None
        own = boto3.Session(aws_access_key_id="own", aws_secret_access_key="own", region_name="us-east-1")
        client = own.client("sqs", endpoint_url="http://127.0.0.1:1")
        with pytest.raises(Exception, match="Could not connect"):
            client.list_queues()


def test_clients_of_a_closed_stack_say_so(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        sqs = toy.sqs
    with pytest.raises(RuntimeError, match="closed"):
        sqs.list_queues()
    with pytest.raises(RuntimeError, match="not open"):
        toy.stack.advance(seconds=1)


def _plain(endpoint_url: str, service: str) -> Any:
    session: Any = boto3.Session(aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1")
    return session.client(service, endpoint_url=endpoint_url)


def test_the_endpoint_serves_a_plain_client_with_the_same_state(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        sqs = _plain(toy.stack.endpoint_url, "sqs")
        url = sqs.get_queue_url(QueueName="work")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="over the wire", DelaySeconds=5)
        assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20).get("Messages") is None
        assert toy.count() == (0, 1, 0)
        toy.stack.advance(seconds=5)
        assert toy.bodies() == [["over the wire"]]
        s3 = _plain(toy.stack.endpoint_url, "s3")
        s3.create_bucket(Bucket="shared")
        toy.stack.session.client("s3").put_object(
            Bucket="shared", Key="a b/ü%2F", Body=b"0123456789", Metadata={"a-b": "c"}
        )
        found = s3.get_object(Bucket="shared", Key="a b/ü%2F", Range="bytes=2-4")
        assert found["Body"].read() == b"234" and found["Metadata"] == {"a-b": "c"}


@pytest.mark.parametrize("wire", ["in process", "http"])
def test_of_racing_transactions_one_wins(tmp_path: Path, wire: str) -> None:
    with Toy(tmp_path) as toy:
        table: Any = toy.table if wire == "in process" else _plain(toy.stack.endpoint_url, "dynamodb")
        key = {"pk": {"S": "f"}, "sk": {"S": "f"}}

        def race(number: int) -> bool:
            update = {
                "TableName": "table",
                "Key": key,
                "UpdateExpression": "SET winner = :me",
                "ConditionExpression": "attribute_not_exists(winner)",
                "ExpressionAttributeValues": {":me": {"N": str(number)}},
            }
            own = {"TableName": "table", "Item": {"pk": {"S": "own"}, "sk": {"S": str(number)}}}
            try:
                table.transact_write_items(TransactItems=[{"Put": own}, {"Update": update}])
            except ClientError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(race, range(40)))
        assert won.count(True) == 1
        assert toy.table.scan(TableName="table")["Count"] == 2


def test_handlers_get_their_environment_and_log_to_standard_error_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = """
import os, json, boto3
from aws_lambda_powertools import Logger
table = os.environ["TIDEWHEEL_TABLE"]
assert boto3.Session().client("sqs").list_queues()["QueueUrls"] == boto3.client("sqs").list_queues()["QueueUrls"]
logger = Logger()
left_ms = []
@logger.inject_lambda_context
def handler(event, context):
    left_ms.append(context.get_remaining_time_in_millis())
    logger.info("hello")
"""
    with Toy(tmp_path, handler, log_level="INFO", environment={"EXTRA": "1"}) as toy:
        toy.send("x")
        toy.stack.advance()
        assert toy.module("worker")["table"] == "table"
        assert toy.module("worker")["left_ms"] == [30_000]
        assert toy.stack.failures == [] and "TIDEWHEEL_TABLE" not in os.environ
    printed = capsys.readouterr()
    assert printed.out == "" and '"message":"hello"' in printed.err


def test_the_real_clock_runs_by_itself_and_advance_waits(tmp_path: Path) -> None:
    with Toy(tmp_path, clock="real") as toy:
        # Before the message: the background thread may handle it at once.
        toy.answer("worker", RuntimeError("recorded"))
        began = time.monotonic()
        toy.send("now")
        toy.send("soon", delay_s=1)
        toy.stack.advance(seconds=0.1)
        assert toy.bodies()[0] == ["now"]
        assert [str(failure.error) for failure in toy.stack.failures] == ["recorded"]
        toy.stack.advance(seconds=1)
        assert toy.bodies() == [["now"], ["soon"]]
        assert time.monotonic() - began < 12


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_requests_at_the_endpoint_are_counted_with_the_real_clock(tmp_path: Path, clock: str) -> None:
    with Toy(tmp_path, clock=clock) as toy:
        config = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
        before, units = dict(toy.stack.requests), toy.stack.requests.units["sqs.request"]
        for name in ("sqs", "s3"):
            client: Any = boto3.client(name, endpoint_url=toy.stack.endpoint_url, **config)  # type: ignore[call-overload]
            if name == "sqs":
                url = client.create_queue(QueueName="mine")["QueueUrl"]
                client.send_message(QueueUrl=url, MessageBody="x" * 100_000)
            else:
                client.create_bucket(Bucket="mine")
                client.put_object(Bucket="mine", Key="a", Body=b"b")
        counted = {name: count for name, count in toy.stack.requests.items() if count != before.get(name, 0)}
        expected = ("s3.CreateBucket", "s3.PutObject", "sqs.CreateQueue", "sqs.SendMessage")
        assert counted == dict.fromkeys(expected, 1) if clock == "real" else counted == {}
        assert toy.stack.requests.units["sqs.request"] - units == (3 if clock == "real" else 0)


def test_a_start_loads_nothing_that_takes_long_and_is_not_needed(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom tidewheel.local import LocalTidewheel\n"
        "with LocalTidewheel(clock='real', slot_s=1, lookahead_s=4) as stack: stack.endpoint_url\n"
        "slow = {'moto.cloudformation', 'moto.ec2.models', 'moto.kms', 'flask', 'matplotlib', 'docker'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_skipped_time_brings_all_that_is_due_on_the_way_in_its_order(tmp_path: Path) -> None:
    with Toy(tmp_path, clock="real") as toy:
        began = toy.stack.now()
        toy.send("second", delay_s=900)
        toy.send("first", delay_s=600)
        toy.stack.skip(days=3)
        assert toy.bodies() == [["first"], ["second"]]
        assert dt.timedelta(days=3) <= toy.stack.now() - began < dt.timedelta(days=3, minutes=1)
        with pytest.raises(InvalidValue, match="time does not go back"):
            toy.stack.skip(days=-1)


def test_skips_at_the_same_time_are_added(tmp_path: Path) -> None:
    with Toy(tmp_path, clock="real") as toy, ThreadPoolExecutor(4) as pool:
        began = toy.stack.now()
        list(pool.map(lambda _: toy.stack.skip(hours=1), range(4)))
        assert dt.timedelta(hours=4) <= toy.stack.now() - began < dt.timedelta(hours=4, minutes=1)


def test_a_long_poll_ends_when_skipped_time_brings_a_message(tmp_path: Path) -> None:
    with Toy(tmp_path, clock="real") as toy:
        url = toy.sqs.create_queue(QueueName="other")["QueueUrl"]
        toy.send("later", queue=url, delay_s=900)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(toy.sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
            time.sleep(0.1)
            toy.stack.skip(minutes=15)
            assert [message["Body"] for message in waiting.result(timeout=15)["Messages"]] == ["later"]


def test_virtual_time_is_skipped_as_it_is_advanced(tmp_path: Path) -> None:
    with Toy(tmp_path) as toy:
        toy.send("x", delay_s=60)
        toy.stack.skip(minutes=1)
        assert toy.bodies() == [["x"]]


def test_the_shells_aws_settings_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with Toy(tmp_path) as toy:
        toy.send("x")
        toy.stack.advance()
        assert toy.bodies() == [["x"]]


def test_unusable_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="virtual"):
        LocalTidewheel(clock="fast")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="real time starts now"):
        LocalTidewheel(clock="real", start="2026-01-01")
    with pytest.raises(InvalidValue, match="slots=5: a topic has no such setting"):
        LocalTidewheel(slots=5)


def test_expressions_are_read_with_their_time_zone() -> None:
    assert parse("at(2026-07-01T12:00:00)", "Europe/Berlin") == Once(at_ms=1782900000000)
    five_minutes = Every(interval_ms=300_000)
    assert parse("rate(5 minutes)") == five_minutes
    ticks = [five_minutes.first_at_or_after_ms(1000, at_ms) for at_ms in (0, 301_000, 301_001)]
    assert ticks == [301_000, 301_000, 601_000]
    for wrong in ("rate(1 minutes)", "rate(0 minutes)", "cron(* * * * ? *)", "at(2026-01-01)"):
        with pytest.raises(ValueError, match="invalid schedule expression"):
            parse(wrong)


def test_importing_the_pytest_plugin_imports_nothing_heavy() -> None:
    import subprocess

    code = "import sys, tidewheel.local.pytest_plugin; print({'moto', 'boto3', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
