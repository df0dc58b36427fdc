"""Tests the reading of plain messages by docs/vectors.json, by which any other program can be checked too."""

from __future__ import annotations

import json
import time
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.docs.recipe import ROOT
from tidewheel.cli.main import app
from tidewheel.cli.messages import body_of
from tidewheel.errors import BadMessage, InvalidValue
from tidewheel.flows.delivery.refusing import bad_alone
from tidewheel.model.message import IdSource, Message
from tidewheel.model.plain import read_plain
from tidewheel.model.received import QueuedMessage
from tidewheel.model.untrusted import exact_json_of, json_of, json_text
from tidewheel.model.validation import check_message

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


def test_explain_shows_topic_options_and_attributes_as_text() -> None:
    [vector] = [each for each in VECTORS if each["name"] == "an envelope whose shared options count where they can"]
    attributes = {"kind": {"DataType": "String", "StringValue": "new"}}
    done = CliRunner().invoke(app, ["explain", json.dumps(vector["message"] | {"MessageAttributes": attributes})])
    columns, first, *_ = (line.split() for line in done.stdout.splitlines())
    options = ["key", "replace", "max_wait_ms", "expires_at_ms", "attributes"]
    assert columns == ["does", "topic", "due", "id", *options, "body"]
    assert (first[1], first[5], first[6], *first[8:]) == ("orders", "True", "7,200,000", "{'kind':", "'new'}", "x")


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


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=100, deadline=None)
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


@pytest.mark.parametrize("shared", [{}, {"key": "k", "replace": True, "max_wait": "1h"}])
def test_an_envelope_sends_and_cancels_a_thousand_keys(shared: dict[str, Any]) -> None:
    some = [{"key": str(i), **({"cancel": True} if i % 2 and not shared else {"body": "x"})} for i in range(999)]
    document = {"tidewheel": {"topic": "orders", **shared}, "messages": [*some, *[{"body": "x"} | shared] * 3]}
    read = read_plain(queued(json.dumps(document), {}), None)
    assert [each.place for each in read.bad] == ([1_000, 1_001] if shared else [])
    assert (len(read.messages), len(read.cancellations)) == ((1_000, 0) if shared else (503, 499))


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


_NUMBERS = ["12345678901234567890.10", "1.50", "1E5", "1e999", "-0", "-0.0", "7" * 5000, "0.1", "3"]


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_number_of_a_body_or_an_attribute_stays_as_it_was_sent(number: str) -> None:
    options = '"tidewheel": {"topic": "orders"}'
    part = f'"body": {{"amount": [{number}]}}, "attributes": {{"n": {number}}}'
    for envelope in (f"{{{options}, {part}}}", f'{{{options}, "messages": [{{{part}}}, {{{part}, "delay": "soon"}}]}}'):
        message = queued(envelope, {})
        read = read_plain(message, None)
        assert (read.messages[0].text, read.messages[0].attributes) == (f'{{"amount":[{number}]}}', {"n": number})
        if read.bad:
            assert f'"amount":[{number}]' in bad_alone(message, read.bad)[0].body


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_json_body_of_the_command_line_keeps_its_numbers(number: str) -> None:
    body = body_of(f'{{"amount": [{number}]}}', None)
    assert check_message(Message(body=body), IdSource(), 0).text == f'{{"amount":[{number}]}}'


def test_explain_takes_null_for_what_is_not_set() -> None:
    nulls = dict.fromkeys(["MessageId", "SentTimestamp", "MessageGroupId"])
    topic = {"tidewheel.topic": {"DataType": "String", "StringValue": "orders", "BinaryValue": None}}
    for message in ({"MessageAttributes": topic}, {"MessageAttributes": None}):
        done = CliRunner().invoke(app, ["explain", json.dumps({"MessageBody": "x"} | nulls | message)])
        assert done.exit_code == (message["MessageAttributes"] is None)
        assert ("name the topic" in done.stderr) == bool(done.exit_code)


def test_a_log_line_that_was_cut_off_is_read_in_one_pass() -> None:
    body = '{"log": "' + r"\"[{" * 40_000  # a search that begins anew behind each quote takes minutes
    began_s = time.process_time()
    assert read_plain(queued(body, {}), "orders").topic == "orders"
    assert time.process_time() - began_s < 10


@pytest.mark.parametrize("depth", [501, 990, 100_000])
def test_an_envelope_that_nests_too_deep_is_refused_from_any_depth_of_the_stack(depth: int) -> None:
    envelopes = [
        f'{{"tidewheel": {{"topic": "orders"}}, "{name}": {"[" * depth}1e999{"]" * depth}}}'
        for name in ("body", "attributes", "messages", "dely")
    ]
    refused: list[str] = []

    def read() -> None:
        for envelope in envelopes:
            try:
                read_plain(queued(envelope, {}), None)
            except BadMessage as error:
                refused.append(str(error))

    thread = Thread(target=read)  # begins a stack
    thread.start()
    thread.join()
    assert len(refused) == 4 and all("nested too deeply" in each for each in refused)


_TOKENS = st.sampled_from([*'{}[]",:\\ ', "NaN", "1e999", "-0", "7" * 5000, '"\\ud800"', "\ud800", "\ufeff", "[" * 600])


@settings(max_examples=100, deadline=None)
@given(st.lists(_TOKENS | _JSON.map(json.dumps), max_size=12).map("".join))
def test_any_text_is_json_or_refused_by_a_value_error_and_written_with_the_same_numbers(text: str) -> None:
    for given_ in (text, text.encode("utf-8", "surrogatepass"), text.encode("utf-16", "surrogatepass")):
        try:
            json_of(given_)
        except ValueError:
            continue
    try:
        found = exact_json_of(text)
    except ValueError:
        return
    assert json.loads(json_text(found), parse_int=str, parse_float=str) == json.loads(
        text, parse_int=str, parse_float=str
    )


@settings(max_examples=100, deadline=None)
@given(name=_NAMES | st.sampled_from(["body", "attributes", "messages"]), value=_TOKENS | _JSON.map(json.dumps))
def test_an_envelope_of_any_text_is_read_or_refused_and_never_fails(name: str, value: str) -> None:
    for body in (
        f'{{"tidewheel": {{"topic": "orders"}}, "{name}": {value}}}',
        f'{{"tidewheel": {{"topic": "orders", "{name}": {value}}}, "messages": [{{"body": 1, "{name}": {value}}}]}}',
    ):
        try:
            read = read_plain(queued(body, {}), None)
        except BadMessage:
            continue
        assert read.messages or read.cancellations
