"""Tests a clock checked against AWS's answers. Large errors raise doubts, and small errors pass."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from tidewheel.aws.service import watch_dates
from tidewheel.clock import ManualClock
from tidewheel.errors import ClockDoubted
from tidewheel.model.checked_clock import CheckedClock, begin_invocation, unchecked_ms

TRUE_MS = 1_769_817_600_000  # 2026-01-31T00:00:00Z


class Machine:
    """A machine whose clock is ahead, and whose calls take a while."""

    def __init__(self, ahead_ms: int = 0, *, into_the_second_ms: int = 0, takes_ms: int = 0) -> None:
        self.local = ManualClock(TRUE_MS + into_the_second_ms + ahead_ms)
        self.ahead_ms = ahead_ms
        self.takes_ms = takes_ms
        self.asked = 0
        self.clock = CheckedClock(self.local, self.ask)

    def ask(self) -> None:
        self.asked += 1
        self.call(takes_ms=20)

    def call(self, takes_ms: int | None = None, date_ms: int = 0) -> None:
        before_ms = self.local.now_ms()
        self.local.advance_ms(self.takes_ms if takes_ms is None else takes_ms)
        true_ms = self.local.now_ms() - self.ahead_ms
        self.clock.observe(before_ms, self.local.now_ms(), date_ms or true_ms // 1000 * 1000)


@pytest.mark.parametrize("into_ms", [0, 1, 500, 999])
@pytest.mark.parametrize("takes_ms", [0, 30, 800])
@pytest.mark.parametrize("ahead_ms", [3_801, 240_000, 2_592_000_000, -3_801, -240_000])
def test_an_error_of_three_seconds_and_the_length_of_a_call_is_doubted_after_the_call(
    ahead_ms: int, takes_ms: int, into_ms: int
) -> None:
    machine = Machine(ahead_ms, into_the_second_ms=into_ms, takes_ms=takes_ms)
    machine.call()
    with pytest.raises(ClockDoubted, match="AWS says 2026-01-31T00:00:0"):
        machine.clock.now_ms()


@pytest.mark.parametrize("into_ms", [0, 1, 500, 999])
@pytest.mark.parametrize("takes_ms", [0, 30, 800, 20_000])
@pytest.mark.parametrize("ahead_ms", [0, 1_900, -1_900])
def test_an_error_below_two_seconds_is_never_doubted(ahead_ms: int, takes_ms: int, into_ms: int) -> None:
    machine = Machine(ahead_ms, into_the_second_ms=into_ms, takes_ms=takes_ms)
    for _ in range(30):
        machine.call()
        assert machine.clock.now_ms() == machine.local.now_ms()
        machine.local.advance_ms(137)


def test_who_has_called_nothing_or_only_slowly_asks_again_and_no_more_than_three_times() -> None:
    machine = Machine(takes_ms=0)
    machine.clock.now_ms()
    machine.clock.now_ms()
    assert machine.asked == 1
    slow = Machine(takes_ms=5_000)
    slow.call()
    slow.clock.now_ms()
    assert slow.asked == 1
    slower = Machine()
    slower.clock.ask = lambda: slower.call(takes_ms=9_000 + slower.asked)
    slower.clock.now_ms()
    assert (slower.local.now_ms() - TRUE_MS) // 9_000 == 3


def test_answers_without_a_time_are_no_evidence_and_are_asked_for_once() -> None:
    asked: list[int] = []
    clock = CheckedClock(ManualClock(TRUE_MS), lambda: asked.append(1))
    assert clock.now_ms() == clock.now_ms() == TRUE_MS
    assert len(asked) == 1


def test_a_read_that_fails_is_no_failure_of_the_clock() -> None:
    def refuse() -> None:
        raise OSError("the table is down")

    assert CheckedClock(ManualClock(TRUE_MS), refuse).now_ms() == TRUE_MS


def test_a_clock_that_jumps_within_a_call_is_doubted_until_the_next_call_begins() -> None:
    machine = Machine(-1_500)
    machine.call()
    machine.local.advance_ms(3_400)
    machine.ahead_ms = 1_900
    machine.call()
    with pytest.raises(ClockDoubted):
        machine.clock.now_ms()
    assert unchecked_ms(machine.clock) == machine.local.now_ms()
    machine.ahead_ms = 0
    begin_invocation(machine.clock)
    machine.call()
    machine.clock.now_ms()


@pytest.mark.parametrize("off_ms", [-1_900, -1_000, 1_000, 1_900])
def test_a_front_end_that_is_off_by_less_than_two_seconds_is_believed_beside_the_others(off_ms: int) -> None:
    machine = Machine(into_the_second_ms=10)
    for _ in range(30):
        machine.call()
        machine.call(date_ms=(machine.local.now_ms() + off_ms) // 1000 * 1000)
        assert machine.clock.doubt() is None
        machine.local.advance_ms(137)


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("date", ["Sat, 31 Jan 2026 00:00:00 GMT", None, "yesterday"])
def test_the_date_of_each_answer_reaches_the_clock_refusals_included(date: str | None, status: int) -> None:
    clock = CheckedClock(ManualClock(TRUE_MS + 240_000))
    session = boto3.session.Session("a", "b", region_name="eu-west-1")
    watch_dates(session.events, clock)
    client: Any = session.client("dynamodb")

    def answer(request: Any, **_: Any) -> AWSResponse:
        headers = {} if date is None else {"Date": date}
        return AWSResponse(request.url, status, headers, _Body())  # type: ignore[arg-type]

    client.meta.events.register("before-send.dynamodb.GetItem", answer)
    try:
        client.get_item(TableName="t", Key={"pk": {"S": "T#"}})
    except client.exceptions.ClientError:
        assert status == 403
    assert (clock.doubt() is not None) == (date is not None and date.endswith("GMT"))


class _Body:
    def stream(self, **_: object) -> Any:
        yield b"{}"

    def read(self, *_: object) -> bytes:
        return b"{}"
