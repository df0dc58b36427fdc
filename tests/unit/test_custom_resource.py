"""CloudFormation gets exactly one answer to each request."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest

from tests.service_settings import service_settings
from tests.slow_endpoint import Mode, SlowEndpoint
from tidewheel import deadline
from tidewheel.aws.custom_resource import PUT_S, PUT_TIMEOUT_S, RESERVE_S, Request, Work, answered, put_answer
from tidewheel.aws.tries import Tries
from tidewheel.client.connection import Connection
from tidewheel.client.operations.declared import fulfil
from tidewheel.clock import SystemClock
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
    """The answers put to CloudFormation, a timer fired by the test, and the function's remaining time."""

    put: list[dict[str, Any]] = field(default_factory=list)
    largest: int = 0
    seconds: float | None = None
    cancelled: bool = False
    call: Callable[[], None] = lambda: None
    left_s: float = 60

    def go_off(self) -> None:
        self.left_s = RESERVE_S
        self.call()

    def take(self, url: str, body: bytes) -> None:
        assert url == EVENT["ResponseURL"]
        self.put.append(json.loads(body))
        self.largest = max(self.largest, len(body))

    def timer(self, seconds: float, call: Callable[[], None]) -> Answers:
        self.seconds, self.call = seconds, call
        return self

    def start(self) -> None:
        assert self.seconds is not None

    def cancel(self) -> None:
        self.cancelled = True


def ask(work: Work, answers: Answers, **changes: Any) -> str | None:
    request = Request.from_event({**EVENT, **changes})
    return answered(
        request, work, remaining_s=lambda: answers.left_s, where="the log", put=answers.take, timer=answers.timer
    )


def fail(error: Exception) -> Work:
    def work(_: Request) -> str:
        raise error

    return work


def test_what_is_done_is_answered_with_its_id() -> None:
    answers = Answers()
    assert ask(lambda request: f"made {request.properties['Topic']}", answers) is None
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


def test_work_that_the_timer_has_answered_for_stops_before_its_next_step() -> None:
    answers = Answers()
    steps: list[str] = []

    def slow(_: Request) -> str:
        for step in ("first", "second", "third"):
            deadline.check()
            steps.append(step)
            if step == "second":
                answers.go_off()
        return "made"

    reason = ask(slow, answers)
    assert steps == ["first", "second"]
    assert reason is not None and reason.startswith("not done within 50 s")
    assert [(each["Status"], each["Reason"]) for each in answers.put] == [("FAILED", reason)]


def test_the_reserve_is_enough_for_every_attempt_to_answer() -> None:
    assert PUT_S + 3 * PUT_TIMEOUT_S <= RESERVE_S  # connection, TLS, answer
    assert PUT_S > 3 * PUT_TIMEOUT_S  # more than one attempt


@pytest.mark.parametrize("needs_more", [False, True])
def test_a_timer_that_could_not_answer_leaves_it_to_the_work_which_fails_if_it_needs_more_requests(
    needs_more: bool,
) -> None:
    answers = Answers()
    tries = iter([OSError("no network")])

    def put(url: str, body: bytes) -> None:
        for error in tries:
            raise error
        answers.take(url, body)

    def slow(_: Request) -> str:
        with pytest.raises(OSError, match="no network"):
            answers.go_off()
        if needs_more:
            deadline.check()
        return "made"

    request = Request.from_event(EVENT)
    reason = answered(request, slow, remaining_s=lambda: answers.left_s, where="", put=put, timer=answers.timer)
    assert (reason or "").startswith("not done within 50 s" if needs_more else "")
    assert [each["Status"] for each in answers.put] == ["FAILED" if needs_more else "SUCCESS"]


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
    """Accepts PUT requests after the server's remaining refusals."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.headers["Content-Type"], body))  # type: ignore[attr-defined]
        refused = self.server.refusals > 0  # type: ignore[attr-defined]
        self.server.refusals -= refused  # type: ignore[attr-defined]
        self.send_response(503 if refused else 200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


@pytest.mark.parametrize("refusals", [0, 1, 3])
def test_an_answer_is_put_until_it_is_taken(refusals: int) -> None:
    with receiver(refusals) as (url, bodies):
        put_answer(url, b"{}")
    assert bodies == [("", b"{}")] * (refusals + 1)  # the URL is signed for no content type


def test_an_answer_is_not_put_for_ever() -> None:
    with receiver(1_000) as (url, bodies), pytest.raises(OSError, match="503"):
        put_answer(url, b"{}", seconds=0.3)
    assert 2 <= len(bodies) < 10


@contextmanager
def receiver(refusals: int) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.bodies, server.refusals = [], refusals  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/answer", server.bodies  # type: ignore[attr-defined]
        server.shutdown()


def declared(endpoint: SlowEndpoint, url: str, left_s: float) -> str | None:
    """Creates a topic as the function does, with a number of seconds until Lambda's timeout."""
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    connection = Connection("tw", session=session, settings=service_settings(), endpoint_url=endpoint.url)
    end_s = time.monotonic() + left_s
    return answered(
        Request.from_event({**EVENT, "ResponseURL": url}),
        partial(fulfil, connection, SystemClock()),
        remaining_s=lambda: end_s - time.monotonic(),
        where="the log",
    )


@pytest.mark.parametrize("mode", [Mode.HANG, Mode.THROTTLE, Mode.REFUSE])
def test_cloudformation_gets_its_answer_before_the_function_ends_whatever_aws_does(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewheel.client.connection.SDK", Tries(connect_s=5, read_s=0.2, silent=2, refused=6))
    with SlowEndpoint(mode=mode) as aws, receiver(0) as (url, bodies):
        begin_s = time.monotonic()
        reason = declared(aws, url, left_s=RESERVE_S + 5.5)  # for one try of each request
        took_s = time.monotonic() - begin_s
    assert reason is not None
    [(_, body)] = bodies
    assert json.loads(body)["Status"] == "FAILED"
    assert took_s < RESERVE_S + 5.5


def test_a_declaration_without_time_for_a_request_says_so_and_asks_for_nothing() -> None:
    with SlowEndpoint(mode=Mode.HANG) as aws, receiver(0) as (url, bodies):
        reason = declared(aws, url, left_s=RESERVE_S + 1)
    assert reason == "not done within 1 s; deploy again, which goes on from there (see the log)"
    assert (len(bodies), aws.asked) == (1, [])
