"""Tests the client's packs in the ingest queues, and refusals of a small fake SQS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tidewheel.client.connection import Connection
from tidewheel.client.core import Core
from tidewheel.client.sender import ATTEMPTS, Sender
from tidewheel.clock import Clock, ManualClock
from tidewheel.errors import QueueUnavailable, SendFailed
from tidewheel.model.message import SQS_MAX_BYTES, IdSource, Message, Receipt, id_text
from tidewheel.model.pack import Pack, decode_pack
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState, new_topic_state
from tidewheel.model.validation import check_message, moved

NOW_MS = 1_800_000_000_000
HOUR_S = 3600


@dataclass
class Sqs:
    """Keeps all sent entries. `answer` may refuse a call or some of its entries."""

    answer: Callable[[str, list[Any]], dict[str, Any] | None] = lambda queue_url, entries: None
    calls: list[tuple[str, list[Any]]] = field(default_factory=list)
    taken: list[tuple[str, Any]] = field(default_factory=list)

    def send_message_batch(self, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:
        self.calls.append((QueueUrl, Entries))
        size = sum(
            len(e["MessageBody"]) + len(e["MessageAttributes"]["pack"]["BinaryValue"]) + len("packBinary")
            for e in Entries
        )
        assert len(Entries) <= 10
        assert size <= SQS_MAX_BYTES
        answer = self.answer(QueueUrl, Entries) or {"Successful": [{"Id": e["Id"]} for e in Entries], "Failed": []}
        done = {each["Id"] for each in answer["Successful"]}
        self.taken += [(QueueUrl, e) for e in Entries if e["Id"] in done]
        return answer

    def packs(self, queue_url: str) -> list[Pack]:
        sent = [entry["MessageAttributes"]["pack"]["BinaryValue"] for url, entry in self.taken if url == queue_url]
        return [decode_pack(data, NOW_MS) for data in sent]


def sender(sqs: Sqs, clock: Clock | None = None, pauses: list[float] | None = None) -> Sender:
    settings = SimpleNamespace(ingest_queues=lambda topic: ("urgent", "bulk"))
    connection = cast(Connection, SimpleNamespace(sqs=sqs, settings=settings))
    state: TopicState = new_topic_state("orders", "g1", TopicSettings(), NOW_MS)
    pause = (pauses if pauses is not None else []).append
    clock = clock or ManualClock(NOW_MS)
    return Sender(Core(connection=connection, clock=clock), state, pause)


def bodies(packs: list[Pack]) -> list[str]:
    return [text for pack in packs for text in pack.texts]


def test_many_messages_make_one_pack_and_their_receipts_name_them_in_order() -> None:
    sqs = Sqs()
    receipts = sender(sqs).send(Message(body=str(i), delay=i % 7) for i in range(1000))
    [pack] = sqs.packs("urgent")
    assert list(pack.texts) == [str(i) for i in range(1000)]
    ids = [id_text(pack.ids[16 * i : 16 * i + 16]) for i in range(1000)]
    sealed_ms = NOW_MS - 480_000  # of the slot that begins at NOW_MS
    assert receipts == [
        Receipt(id=ids[i], topic="orders", deliver_at_ms=NOW_MS + i % 7 * 1000, cancellable_until_ms=sealed_ms)
        for i in range(1000)
    ]
    assert (pack.topic, pack.generation, pack.sent_at_ms) == ("orders", "g1", NOW_MS)


def test_an_entry_has_a_line_for_people_and_its_topic_as_a_group_in_each_queue() -> None:
    sqs = Sqs()
    sender(sqs).send([Message(body="soon", delay=1), Message(body="soon"), Message(body="later", delay="3h")])
    assert {(url, entry["MessageGroupId"], entry["MessageBody"]) for url, entry in sqs.taken} == {
        ("urgent", "orders", '{"topic": "orders", "messages": 2}'),
        ("bulk", "orders", '{"topic": "orders", "messages": 1}'),
    }


@pytest.mark.parametrize(("within_s", "key"), [(HOUR_S // 2, None), (HOUR_S, "k")])
def test_what_is_due_within_half_an_hour_goes_urgent_with_a_key_within_an_hour_and_the_rest_bulk(
    within_s: int, key: str | None
) -> None:
    sqs = Sqs()
    delays = [within_s + 0.001, 0, within_s, "3d"]
    receipts = sender(sqs).send([Message(body=str(delay), delay=delay, key=key) for delay in delays])
    assert bodies(sqs.packs("urgent")) == ["0", str(within_s)]
    assert bodies(sqs.packs("bulk")) == [f"{within_s}.001", "3d"]
    assert [r.deliver_at_ms - NOW_MS for r in receipts] == [within_s * 1000 + 1, 0, within_s * 1000, 3 * 86_400_000]


def test_what_takes_another_message_s_place_goes_urgent_within_an_hour() -> None:
    ids, sqs = IdSource(), Sqs()
    old, new = (check_message(Message(body="x"), ids, NOW_MS) for _ in range(2))
    moves = [moved(new, ids, NOW_MS + delay_ms, old.id) for delay_ms in (HOUR_S * 1000, HOUR_S * 1000 + 1)]
    sender(sqs).send_checked(moves)
    assert [len(sqs.packs(queue)) for queue in ("urgent", "bulk")] == [1, 1]


def test_a_pack_of_urgent_messages_is_small_enough_to_be_sent_at_once_and_one_of_others_is_large() -> None:
    sqs = Sqs()
    sender(sqs).send([Message(body="x", delay=delay) for delay in ("1s", "3d") for _ in range(2500)])
    assert [len(pack) for pack in sqs.packs("urgent")] == [1000, 1000, 500]
    assert [len(pack) for pack in sqs.packs("bulk")] == [2500]


def test_small_packs_share_a_call_and_large_ones_do_not_pass_one_mebibyte() -> None:
    sqs = Sqs()
    large = [Message(body=bytes(i * j % 251 for j in range(200_000)) + bytes([i])) for i in range(12)]
    sender(sqs).send(large)
    assert len(bodies(sqs.packs("urgent"))) == 12
    assert len(sqs.calls) < len(sqs.taken)


def test_a_stream_is_sent_chunk_by_chunk_while_it_is_read() -> None:
    sqs = Sqs()
    calls_seen: list[int] = []

    def stream() -> Iterator[Message]:
        for i in range(25_000):
            calls_seen.append(len(sqs.calls))
            yield Message(body="x", delay=i % 100)

    assert len(sender(sqs).send(stream())) == 25_000
    assert calls_seen[-1] >= 2


def test_a_slow_stream_does_not_hold_messages_back() -> None:
    sqs, clock = Sqs(), ManualClock(NOW_MS)

    def stream() -> Iterator[Message]:
        yield Message(body="first")
        clock.advance_ms(600)
        yield Message(body="second")
        assert bodies(sqs.packs("urgent")) == ["first", "second"]
        yield Message(body="third")

    receipts = sender(sqs, clock).send(stream())
    assert [r.deliver_at_ms - NOW_MS for r in receipts] == [0, 600, 600]


def test_an_entry_that_sqs_fails_is_sent_again() -> None:
    pauses: list[float] = []
    answers = [{"Successful": [], "Failed": [{"Id": "0", "SenderFault": False, "Code": "InternalError"}]}, None]
    sqs = Sqs(answer=lambda queue_url, entries: answers.pop(0))
    assert len(sender(sqs, pauses=pauses).send([Message(body="x")])) == 1
    assert len(sqs.calls) == 2
    assert len(pauses) == 1


def test_an_entry_without_an_answer_is_sent_again() -> None:
    answers = [{"Successful": [], "Failed": []}, None]
    sqs = Sqs(answer=lambda queue_url, entries: answers.pop(0))
    sender(sqs).send([Message(body="x")])
    assert len(sqs.calls) == 2


def test_a_failure_that_stays_is_reported_after_several_tries() -> None:
    failed = {"Successful": [], "Failed": [{"Id": "0", "SenderFault": False, "Code": "InternalError", "Message": "m"}]}
    sqs = Sqs(answer=lambda queue_url, entries: failed if queue_url == "bulk" else None)
    with pytest.raises(SendFailed, match="message 1: queue bulk does not accept messages: InternalError: m") as caught:
        sender(sqs).send([Message(body="now"), Message(body="later", delay="1d")])
    assert list(caught.value.failures) == [1]
    assert isinstance(caught.value.failures[1], QueueUnavailable)
    assert len([url for url, _ in sqs.calls if url == "bulk"]) == ATTEMPTS


def test_the_senders_own_fault_is_not_tried_again() -> None:
    failed = {"Successful": [], "Failed": [{"Id": "0", "SenderFault": True, "Code": "InvalidMessageContents"}]}
    sqs = Sqs(answer=lambda queue_url, entries: failed)
    with pytest.raises(SendFailed, match="InvalidMessageContents"):
        sender(sqs).send([Message(body="x")])
    assert len(sqs.calls) == 1


def test_a_queue_that_refuses_a_whole_call_is_not_called_again_and_the_other_queue_is() -> None:
    def answer(queue_url: str, entries: list[Any]) -> None:
        if queue_url == "urgent":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "SendMessageBatch")

    sqs = Sqs(answer=answer)
    messages = [Message(body="x", delay="1d" if i % 2 else 0) for i in range(25_000)]
    with pytest.raises(SendFailed, match="12500 of 25000") as caught:
        sender(sqs).send(messages)
    assert len([url for url, _ in sqs.calls if url == "urgent"]) == 1
    assert len(bodies(sqs.packs("bulk"))) == 12_500
    assert isinstance(caught.value.failures[0].__cause__, ClientError)
    assert all(receipt is not None for receipt in caught.value.receipts[1::2])


def test_a_broken_network_is_reported_for_each_message() -> None:
    def answer(queue_url: str, entries: list[Any]) -> None:
        raise EndpointConnectionError(endpoint_url="https://sqs")

    with pytest.raises(SendFailed, match="Could not connect"):
        sender(Sqs(answer=answer)).send([Message(body="x")])


def test_an_error_of_the_iterable_fails_its_own_index_and_what_came_before_goes() -> None:
    def stream() -> Iterator[Message]:
        yield Message(body="x")
        raise RuntimeError("the file ended")

    sqs = Sqs()
    with pytest.raises(SendFailed, match="message 1: the file ended") as caught:
        sender(sqs).send(stream())
    assert bodies(sqs.packs("urgent")) == ["x"]
    assert [receipt is None for receipt in caught.value.receipts] == [False, True]
