"""Tests the fields of a retry from its sender to the consumer's header, and the rows for each subscription."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel import Consumer, InvalidValue, ReceivedMessage, Tidewheel
from tidewheel.client.worker.retries import sent_again
from tidewheel.flows.delivery.due_rows import has_addressed, rows_for
from tidewheel.flows.delivery.sending import queue_messages
from tidewheel.flows.waiting.find import found_messages
from tidewheel.ledger.rows import pack_rows
from tidewheel.model.message import HEADER_ATTRIBUTE, HEADER_BYTES, Encoding, IdSource, id_text
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.received import header_extras, header_text, parse_received
from tidewheel.model.settings import TopicSettings
from tidewheel.model.validation import Options, OutgoingMessage

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,48}", fullmatch=True)
KEYS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=256)
TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs"), max_codepoint=0xFFFD), min_size=1, max_size=50)
NOW_MS = 1_800_000_000_000
IDS = IdSource()


def received(**changes: Any) -> ReceivedMessage:
    """A received message, with changes of its header."""
    header = {"id": id_text(IDS.next(NOW_MS)), "enc": 0, "sent": NOW_MS, **changes}
    raw = {
        "Body": "x",
        "MessageId": "sqs",
        "ReceiptHandle": "handle",
        "MessageAttributes": {HEADER_ATTRIBUTE: {"StringValue": json.dumps(header)}},
    }
    return parse_received(raw)


def rows_of(*messages: OutgoingMessage) -> pa.Table:
    """Messages as rows of ingest, by way of a pack."""
    [(_, data)] = list(packs("orders", "generation", NOW_MS, messages))
    return pack_rows(decode_pack(data, NOW_MS))


def checked(text: str, *, attributes: dict[str, str] | None = None, **options: Any) -> OutgoingMessage:
    return OutgoingMessage(
        id=IDS.next(NOW_MS + 1000, keyed="key" in options),
        text=text,
        encoding=Encoding.TEXT,
        attributes=attributes or {},
        options=Options(**options) if options else None,
    )


def delivered(rows: pa.Table) -> list[ReceivedMessage]:
    """Rows as received by a consumer."""
    return [
        parse_received(
            {
                "Body": release.text,
                "MessageId": "sqs",
                "ReceiptHandle": "handle",
                "MessageAttributes": {
                    name: {"StringValue": value}
                    for name, value in {HEADER_ATTRIBUTE: release.header, **(release.attributes or {})}.items()
                },
            }
        )
        for release in queue_messages(rows, TopicSettings())
    ]


def texts(rows: pa.Table) -> list[str]:
    return sorted(each.text for each in queue_messages(rows, TopicSettings()))


# ---- what a retry carries


@given(
    body=TEXTS,
    attributes=st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), TEXTS, max_size=3),
    key=st.none() | KEYS,
    seq=st.integers(1, 1 << 40),
    subscription=NAMES,
    expires_in_ms=st.none() | st.integers(1, 1 << 40),
)
def test_a_retry_of_a_retry_carries_the_first_ones_body_attributes_key_version_and_id(
    body: str, attributes: dict[str, str], key: str | None, seq: int, subscription: str, expires_in_ms: int | None
) -> None:
    attributes.pop(HEADER_ATTRIBUTE, None)
    options = {} if key is None else {"key": key, "seq": seq}
    [first] = delivered(rows_of(checked(body, attributes=attributes, **options)))
    due_ms = NOW_MS + 5000
    expires_at_ms = None if expires_in_ms is None else due_ms + expires_in_ms
    message = first
    for attempt in (1, 2):
        again = sent_again(message, IDS, due_ms, subscription, attempt, expires_at_ms=expires_at_ms)
        rows = rows_of(again)
        assert rows.column("key").to_pylist() == [None]  # no key of its own
        [found] = found_messages(rows, "ledger")
        assert found.checked == again
        [message] = delivered(rows)
        assert (message.attempt, message.original_id, message.only) == (attempt, first.id, subscription)
        assert (message.body, message.attributes, message.key) == (body, attributes, key)
        assert message.id == id_text(again.id) != first.id
        if key is not None:
            assert message.version == first.version == (NOW_MS, seq)


def test_the_longest_header_of_a_retry_has_room_beside_the_largest_message() -> None:
    options = Options(
        expires_at_ms=10**13 - 1,
        attempt=9999,
        original_id=id_text(IDS.next(NOW_MS)),
        only="x" * 48,
        first_version=("", 10**13 - 1, 10**10 - 1),
    )
    header = header_text(
        id_text(IDS.next(NOW_MS)),
        Encoding.BYTES,
        10**13 - 1,
        expires_at_ms=options.expires_at_ms,
        extras=header_extras(options),
    )
    # The key's text is counted with the message.
    assert len(HEADER_ATTRIBUTE) + len("String") + len(header) <= HEADER_BYTES
    key = "k" * 256
    with_key = checked("x", first_version=(key, 1, 1)).size
    assert with_key - checked("x").size == len(json.dumps(key))


@pytest.mark.parametrize(
    "wrong",
    [
        {"only": "no name!"},
        {"only": 5},
        {"only": ""},
        {"first_version": ["k", 1]},
        {"first_version": ["", 1, 1]},
        {"first_version": ["k", -1, 1]},
        {"first_version": ["k", 1, 1 << 53]},
        {"first_version": ["k", True, 1]},
        {"first_version": "k11"},
        {"first_version": {"k": 1}},
        {"first_version": ["k", 1, 1], "key": "k", "seq": 1},
    ],
)
def test_options_of_a_retry_that_nobody_could_have_sent_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Options.of_document(wrong, "orders", NOW_MS)


# ---- which rows a subscription gets


def test_a_row_with_an_addressee_goes_to_it_alone_whatever_its_filter_says() -> None:
    rows = rows_of(
        checked("for billing", only="billing", attributes={"kind": "y"}),
        checked("for audit", only="audit", attributes={"kind": "x"}),
        checked("for all", attributes={"kind": "x"}),
    )
    assert has_addressed(rows)
    assert texts(rows_for(rows, "billing", None)) == ["for all", "for billing"]
    assert texts(rows_for(rows, "billing", '{"kind": ["x"]}')) == ["for all", "for billing"]
    assert texts(rows_for(rows, "billing", '{"kind": ["z"]}')) == ["for billing"]
    assert texts(rows_for(rows, "others", None)) == ["for all"]
    assert rows_for(rows, "billing", None).schema == rows.schema


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=20))
def test_each_row_reaches_exactly_those_whom_it_is_for_in_order(kinds: list[tuple[str | None, bool]]) -> None:
    messages = [
        checked(str(i), attributes={"n": "v"} if tagged else None, **({} if only is None else {"only": only}))
        for i, (only, tagged) in enumerate(kinds)
    ]
    rows = pa.concat_tables([rows_of(each) for each in messages])  # as many chunks as rows
    for name in ("a", "b", "d"):
        wanted = [str(i) for i, (only, _) in enumerate(kinds) if only in (None, name)]
        assert [each.text for each in queue_messages(rows_for(rows, name, None), TopicSettings())] == wanted


# ---- the consumer


def test_only_what_was_received_can_be_sent_again() -> None:
    message: Any = {"Body": "x"}
    with pytest.raises(InvalidValue, match="that receive returned"):
        Consumer(Tidewheel(), "orders", "billing").retry_later(message)
