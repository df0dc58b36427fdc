"""CloudFormation's contract: one answer to each request, whatever happens."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from tidewheel.aws.custom_resource import (
    ATTEMPTS,
    PUT_TIMEOUT_S,
    RESERVE_S,
    AnsweredAlready,
    Check,
    Request,
    Work,
    answered,
    put_answer,
)
from tidewheel.client.connection import Connection
from tidewheel.errors import InvalidValue, UnknownTopic

EVENT = {
    "RequestType": "Create",
    "ResponseURL": "https://answers/1?Signature=secret",
    "StackId": "stack",
    "RequestId": "request",
    "LogicalResourceId": "Orders",
    "ResourceType": "Custom::TidewheelTopic",
    "ResourceProperties": {"Topic": "orders"},
}


@dataclass
class Answers:
    """What was put, and a timer that goes off when the test says so."""

    put: list[dict[str, Any]] = field(default_factory=list)
    largest: int = 0
    seconds: float | None = None
    cancelled: bool = False
    go_off: Callable[[], None] = lambda: None

    def take(self, url: str, body: bytes) -> None:
        assert url == EVENT["ResponseURL"]
        self.put.append(json.loads(body))
        self.largest = max(self.largest, len(body))

    def timer(self, seconds: float, call: Callable[[], None]) -> Answers:
        self.seconds, self.go_off = seconds, call
        return self

    def start(self) -> None:
        assert self.seconds is not None

    def cancel(self) -> None:
        self.cancelled = True


def ask(work: Work, answers: Answers, **changes: Any) -> str | None:
    request = Request.from_event({**EVENT, **changes})
    return answered(request, work, remaining_s=60, where="the log", put=answers.take, timer=answers.timer)


def fail(error: Exception) -> Work:
    def work(_: Request, __: Check) -> str:
        raise error

    return work


def test_what_is_done_is_answered_with_its_id() -> None:
    answers = Answers()
    assert ask(lambda request, _: f"made {request.properties['Topic']}", answers) is None
    assert answers.put == [
        {
            "Status": "SUCCESS",
            "Reason": "",
            "PhysicalResourceId": "made orders",
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "Orders",
        }
    ]
    assert answers.cancelled and answers.seconds == 60 - RESERVE_S


def test_our_own_errors_are_told_as_they_are_and_others_with_the_place_of_the_log() -> None:
    answers = Answers()
    assert ask(fail(UnknownTopic("orders")), answers) == str(UnknownTopic("orders"))
    ask(fail(KeyError("x")), answers)
    assert [each["Status"] for each in answers.put] == ["FAILED"] * 2
    assert answers.put[1]["Reason"] == "KeyError: 'x' (see the log)"
    assert answers.cancelled


def test_a_creation_that_failed_has_an_id_and_an_update_keeps_the_one_that_it_had() -> None:
    answers = Answers()
    ask(fail(KeyError("x")), answers)
    ask(fail(KeyError("x")), answers, RequestType="Update", PhysicalResourceId="made")
    assert [each["PhysicalResourceId"] for each in answers.put] == ["request", "made"]


def test_the_timer_answers_before_lambda_ends_the_function_and_nothing_is_answered_twice() -> None:
    answers = Answers()

    def slow(_: Request, __: Check) -> str:
        answers.go_off()
        return "made"

    reason = "not done within 50 s; deploy again, which goes on from there (see the log)"
    assert ask(slow, answers) == reason
    assert [(each["Status"], each["Reason"]) for each in answers.put] == [("FAILED", reason)]


def test_work_that_the_timer_has_answered_for_stops_before_its_next_step() -> None:
    answers = Answers()
    steps: list[str] = []

    def slow(_: Request, check: Check) -> str:
        for step in ("first", "second", "third"):
            check()
            steps.append(step)
            if step == "second":
                answers.go_off()
        return "made"

    reason = ask(slow, answers)
    assert steps == ["first", "second"]
    assert reason is not None and reason.startswith("not done within 50 s")
    assert [(each["Status"], each["Reason"]) for each in answers.put] == [("FAILED", reason)]


def test_a_request_to_aws_is_not_repeated_once_the_answer_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    nobody = f"http://127.0.0.1:{port}"  # refuses connections, which is tried again
    connection = Connection("x", session=session, settings=None, endpoint_url=nobody)
    asked = []

    def check() -> None:
        asked.append(True)
        if len(asked) == 3:  # the call, its first attempt, its second one
            raise AnsweredAlready

    with connection.checked(check), pytest.raises(AnsweredAlready):
        connection.sqs.list_queues()
    with pytest.raises(EndpointConnectionError):
        connection.sqs.list_queues()  # after that nobody checks
    assert len(asked) == 3


def test_work_goes_on_after_a_timer_that_could_not_answer() -> None:
    answers = Answers()

    def put(url: str, body: bytes) -> None:
        if b"FAILED" in body:
            raise OSError("no network")
        answers.take(url, body)

    def slow(_: Request, check: Check) -> str:
        with pytest.raises(OSError, match="no network"):
            answers.go_off()
        check()
        return "made"

    request = Request.from_event(EVENT)
    assert answered(request, slow, remaining_s=60, where="", put=put, timer=answers.timer) is None
    assert [each["PhysicalResourceId"] for each in answers.put] == ["made"]


def test_the_reserve_is_enough_for_every_attempt_to_answer() -> None:
    assert ATTEMPTS * PUT_TIMEOUT_S < RESERVE_S


def test_a_timer_that_could_not_answer_leaves_it_to_the_work() -> None:
    answers = Answers()
    tries = iter([OSError("no network")])

    def put(url: str, body: bytes) -> None:
        for error in tries:
            raise error
        answers.take(url, body)

    def slow(_: Request, __: Check) -> str:
        with pytest.raises(OSError, match="no network"):
            answers.go_off()
        return "made"

    request = Request.from_event(EVENT)
    assert answered(request, slow, remaining_s=60, where="", put=put, timer=answers.timer) is None
    assert [each["Status"] for each in answers.put] == ["SUCCESS"]


def test_an_answer_fits_into_what_cloudformation_takes() -> None:
    answers = Answers()
    ask(fail(InvalidValue("x", 1, "\u4e16" * 5_000)), answers, StackId="s" * 300, PhysicalResourceId="p" * 110)
    reason = answers.put[0]["Reason"]
    assert reason.endswith("...")
    assert answers.largest <= 4_096


@pytest.mark.parametrize("event", [{}, {**EVENT, "RequestType": "Look"}, {"RequestType": "Create"}])
def test_what_is_no_request_is_refused_for_there_is_nobody_to_answer(event: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="only CloudFormation calls this function"):
        Request.from_event(event)


def test_a_request_does_not_show_its_url() -> None:
    assert "secret" not in repr(Request.from_event(EVENT))


class Receiver(BaseHTTPRequestHandler):
    """Takes what is put, after as many refusals as the server has left."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.headers["Content-Type"], body))  # type: ignore[attr-defined]
        refused = self.server.refusals > 0  # type: ignore[attr-defined]
        self.server.refusals -= refused  # type: ignore[attr-defined]
        self.send_response(503 if refused else 200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.mark.parametrize(("refusals", "heard"), [(0, 1), (ATTEMPTS - 1, ATTEMPTS), (ATTEMPTS, ATTEMPTS)])
def test_an_answer_is_put_until_it_is_taken_and_not_for_ever(refusals: int, heard: int) -> None:
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.bodies, server.refusals = [], refusals  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/answer"
        if refusals < ATTEMPTS:
            put_answer(url, b"{}")
        else:
            with pytest.raises(OSError, match="503"):
                put_answer(url, b"{}")
        server.shutdown()
    # The URL is signed for no content type.
    assert server.bodies == [("", b"{}")] * heard  # type: ignore[attr-defined]
