"""Tests the reading of plain messages by docs/vectors.json, by which any other program can be checked too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.docs.recipe import ROOT
from tidewheel.cli.main import app
from tidewheel.errors import BadMessage, InvalidValue
from tidewheel.model.plain import read_plain
from tidewheel.model.refused import QueuedMessage

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "docs" / "vectors.json").read_text())["messages"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_vector_is_read_or_refused_as_it_says(vector: dict[str, Any]) -> None:
    own = ["--topic", vector["topic_of_queue"]] if "topic_of_queue" in vector else []
    done = CliRunner().invoke(app, ["explain", json.dumps(vector["message"]), "--json", *own])
    if "refused" in vector:
        assert done.exit_code == 1 and done.stderr == f"tidewheel: {' '.join(vector['refused'].split())}\n"
    else:
        found = json.loads(done.stdout)
        assert done.exit_code == bool(found["refused"])
        assert {name: value for name, value in found.items() if value or name != "refused"} == vector["read"]


@pytest.mark.parametrize("vector", [each for each in VECTORS if "refused" in each], ids=lambda each: each["name"])
def test_a_refusal_has_the_error_that_quotes_the_value_as_its_cause_so_that_no_log_shows_the_value(vector: Any) -> None:
    message = vector["message"]
    given = message.get("MessageAttributes", {})
    with pytest.raises(BadMessage) as caught:
        read_plain(queued(message["MessageBody"], given), vector.get("topic_of_queue"))
    assert isinstance(caught.value.__cause__, InvalidValue)


def queued(body: str, attributes: Any, sent_at_ms: int = 1_796_115_600_123) -> QueuedMessage:
    return QueuedMessage(
        id="m", body=body, attributes=attributes, sent_at_ms=sent_at_ms, receives=1, queue_arn="arn:aws:sqs:r:1:q"
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=12), each, max_size=3),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    ["topic", "delay", "deliver_at", "key", "replace", "expires_in", "window", "max_wait", "cancel", "group"]
)


@settings(max_examples=300, deadline=None)
@given(shared=st.dictionaries(_NAMES, _JSON), own=st.dictionaries(_NAMES | st.text(max_size=6), _JSON), body=_JSON)
def test_an_envelope_of_any_values_is_read_or_refused_and_never_fails(shared: Any, own: Any, body: Any) -> None:
    document = {"tidewheel": {"topic": "orders"} | shared, "messages": [{"body": body} | own, {"body": "good"}]}
    try:
        read = read_plain(queued(json.dumps(document), {}), None)
    except BadMessage:
        return
    assert len(read.messages) + len(read.cancellations) + len(read.bad) == 2
    # The first bit behind the time is 1 in ids of occurrences of recurring messages.
    assert all(len(each.id) == 16 and not each.id[6] & 0x80 for each in read.messages)


@settings(max_examples=300, deadline=None)
@given(
    wishes=st.dictionaries(_NAMES.map("tidewheel.{}".format) | st.text(min_size=1, max_size=9), st.text(min_size=1)),
    body=st.text(min_size=1),
)
def test_any_attributes_are_read_or_refused_and_never_fail(wishes: dict[str, str], body: str) -> None:
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in wishes.items()}
    try:
        read_plain(queued(body, attributes), "orders")
    except BadMessage:
        return


def test_ids_of_an_envelope_differ_and_a_redelivery_makes_the_same() -> None:
    body = json.dumps({"tidewheel": {"topic": "orders"}, "messages": [{"body": str(i)} for i in range(10_000)]})
    first, second = (read_plain(queued(body, {}), None) for _ in range(2))
    assert len({each.id for each in first.messages}) == 10_000
    assert first == second


def test_a_version_grows_within_an_envelope() -> None:
    messages = [{"body": "x", "key": "k"} for _ in range(10_000)]
    read = read_plain(queued(json.dumps({"tidewheel": {"topic": "orders"}, "messages": messages}), {}), None)
    counts = [each.options.seq for each in read.messages if each.options is not None]
    assert counts == sorted(set(counts)) and max(count or 0 for count in counts) < 1 << 53


def test_a_user_may_call_an_attribute_as_a_later_option() -> None:
    assert read_plain(queued("x", {"max_wait": {"DataType": "String", "StringValue": "1"}}), "orders").messages


def test_shared_options_and_attributes_are_no_bombs() -> None:
    messages = [{"body": "x"}] * 10_000
    document = {"tidewheel": {"topic": "orders", "delay": "1s" * 200_000}, "messages": messages}
    with pytest.raises(BadMessage, match="at most 1024 characters"):
        read_plain(queued(json.dumps(document), {}), None)
    document = {"tidewheel": {"topic": "orders"}, "messages": messages}
    with pytest.raises(BadMessage, match="put long attributes into the messages"):
        read_plain(queued(json.dumps(document), {"a": {"DataType": "String", "StringValue": "x" * 1000}}), None)


def test_an_envelope_cancels_a_thousand_keys() -> None:
    cancels = [{"key": str(i), "cancel": True} for i in range(1_002)]
    read = read_plain(queued(json.dumps({"tidewheel": {"topic": "orders"}, "messages": cancels}), {}), None)
    assert (len(read.cancellations), [each.place for each in read.bad]) == (1_000, [1_000, 1_001])


def test_an_envelope_that_is_no_json_is_refused_wherever_its_name_is() -> None:
    body = '{"messages": [{"body": "' + "x" * 500 + '", "score": NaN}], "tidewheel": {"delay": "3d"}}'
    with pytest.raises(BadMessage, match="NaN is not JSON"):
        read_plain(queued(body, {}), "orders")


@pytest.mark.parametrize(
    "wrong", [{"SentTimestamp": "abc"}, {"SentTimestamp": -5}, {"SentTimestamp": 1e30}, {"MessageId": 5}]
)
def test_explain_names_what_is_no_message(wrong: dict[str, Any]) -> None:
    done = CliRunner().invoke(app, ["explain", json.dumps({"MessageBody": "x"} | wrong), "--topic", "orders"])
    assert (done.exit_code, done.stderr[:20]) == (1, "tidewheel: message='")


def test_ten_thousand_and_one_messages_are_refused() -> None:
    body = json.dumps({"tidewheel": {"topic": "orders"}, "messages": [{"body": "x"}] * 10_001})
    with pytest.raises(BadMessage, match="1 to 10000"):
        read_plain(queued(body, {}), None)


def test_json_that_nests_a_million_deep_is_refused() -> None:
    with pytest.raises(BadMessage, match="nested too deeply"):
        read_plain(queued('{"tidewheel": {"topic": "orders"}, "body": ' + "[" * 1_000_000, {}), None)
