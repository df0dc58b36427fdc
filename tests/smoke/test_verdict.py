"""Each check of a record fails when it must."""

from __future__ import annotations

import datetime as dt

import pytest

from smoke.record import Record
from smoke.skew import Skew, measure_skew
from smoke.verdict import DIRECT, LATE_P99_MS, LEDGER, copies, percentile, precision, verdict
from tidewheel.clock import ManualClock
from tidewheel.local import LocalTidewheel
from tidewheel.message import Encoding, IdSource, MessageId, Receipt, id_text
from tidewheel.received import ReceivedMessage

DUE_MS = 1_800_000_000_000
IDS = IdSource()


def sent(record: Record, *, body: str = "hello", group: str | None = LEDGER, readers: tuple[str, ...] = ("a",)) -> str:
    message_id = id_text(IDS.next(DUE_MS))
    receipt = Receipt(id=message_id, topic="t", deliver_at_ms=DUE_MS)
    record.sent(receipt, body, readers=readers, group=group)
    return message_id


def arrives(record: Record, message_id: str, late_ms: int = 500, *, body: str = "hello", reader: str = "a") -> None:
    due = dt.datetime.fromtimestamp(DUE_MS / 1000, dt.UTC)
    message = ReceivedMessage(
        id=MessageId(message_id),
        body=body,
        encoding=Encoding.TEXT,
        attributes={},
        deliver_at=due,
        sent_at=due,
        sqs_message_id="m",
        receipt_handle="r",
    )
    record.arrived(("t", reader), message, DUE_MS + late_ms)


def compared(offset_ms: int = 0, uncertainty_ms: int = 0) -> Record:
    record = Record()
    record.skew = Skew(offset_ms=offset_ms, uncertainty_ms=uncertainty_ms)
    return record


def failures(record: Record) -> list[str]:
    return [check.name for check in verdict(record) if not check.passed]


def test_what_arrives_whole_and_in_time_passes() -> None:
    record = compared()
    for _ in range(3):
        arrives(record, sent(record))
    assert failures(record) == []


def test_a_message_that_one_of_two_subscriptions_lacks_is_lost() -> None:
    record = compared()
    arrives(record, sent(record, readers=("a", "b")))
    assert failures(record) == ["every message arrives"]


def test_a_trial_that_sent_nothing_proves_nothing() -> None:
    assert "every message arrives" in failures(compared())


def test_a_withdrawn_message_must_not_arrive() -> None:
    record = compared()
    arrives(record, sent(record))
    withdrawn = sent(record)
    record.withdrawn(withdrawn)
    assert failures(record) == []
    arrives(record, withdrawn)
    assert failures(record) == ["nothing arrives that must not"]


@pytest.mark.parametrize("stranger", [True, False])
def test_nothing_arrives_that_was_not_sent_or_not_to_this_subscription(stranger: bool) -> None:
    record = compared()
    message_id = sent(record)
    arrives(record, message_id)
    if stranger:
        arrives(record, id_text(IDS.next(DUE_MS)))
    else:
        arrives(record, message_id, reader="b")
    assert failures(record) == ["nothing arrives that must not"]


def test_early_is_what_the_skew_cannot_explain() -> None:
    record = compared(offset_ms=0, uncertainty_ms=10)
    arrives(record, sent(record), -10)
    assert failures(record) == []
    arrives(record, sent(record), -11)
    assert failures(record) == ["nothing is early"]


def test_a_slow_clock_here_makes_nothing_early() -> None:
    record = compared(offset_ms=2_000)
    arrives(record, sent(record), -1_500)
    assert failures(record) == []
    [group] = precision(record)
    assert group.least_ms == group.most_ms == 500


def test_without_a_comparison_of_the_clocks_nothing_is_said_to_be_in_time() -> None:
    record = Record()
    arrives(record, sent(record))
    assert failures(record) == ["nothing is early"]


def test_a_changed_body_is_found() -> None:
    record = compared()
    arrives(record, sent(record), body="jello")
    assert failures(record) == ["bodies arrive as they were sent"]


def test_late_messages_from_ledgers_fail_and_direct_ones_are_only_measured() -> None:
    record = compared()
    arrives(record, sent(record, group=DIRECT), LATE_P99_MS * 10)
    arrives(record, sent(record), LATE_P99_MS)
    assert failures(record) == []
    arrives(record, sent(record), LATE_P99_MS + 1)
    assert len(failures(record)) == 1
    assert {each.group: each.most_ms for each in precision(record)} == {
        DIRECT: LATE_P99_MS * 10,
        LEDGER: LATE_P99_MS + 1,
    }


def test_what_is_late_on_purpose_is_not_measured() -> None:
    record = compared()
    record.late_readers.add(("t", "b"))
    message_id = sent(record, readers=("a", "b"))
    arrives(record, message_id)
    arrives(record, message_id, 500_000, reader="b")
    arrives(record, sent(record, group=None), 600_000)
    assert failures(record) == []
    assert [(each.messages, each.most_ms) for each in precision(record)] == [(1, 500)]


def test_a_repetition_is_counted_and_harmless() -> None:
    record = compared()
    message_id = sent(record)
    arrives(record, message_id, 700)
    arrives(record, message_id, 90_000)
    assert failures(record) == [] and copies(record) == 1
    assert precision(record)[0].most_ms == 700


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7], 0.99, 7),
        ([1, 2], 0.5, 1),
        ([1, 2, 3], 0.5, 2),
        (list(range(1, 101)), 0.99, 99),
        ([*range(200)], 0.99, 197),
    ],
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(
    values: list[int], share: float, expected: int
) -> None:
    assert percentile(values, share) == expected


@pytest.mark.parametrize("wrong_ms", [-5_000, 0, 90_000])
def test_the_skew_is_what_this_clock_is_wrong_by(wrong_ms: int) -> None:
    with LocalTidewheel() as stack:
        sqs = stack.session.client("sqs")
        url = sqs.create_queue(QueueName="clock")["QueueUrl"]
        here = ManualClock(stack.clock.now_ms() + wrong_ms)
        skew = measure_skew(sqs, url, here)
    assert abs(skew.offset_ms + wrong_ms) <= skew.uncertainty_ms == 1
    assert abs(skew.sqs_ms(here.now_ms()) - stack.clock.now_ms()) <= 1
