"""Amazon SNS's filter policies over a message's attributes."""

from __future__ import annotations

import json
import time
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.errors import InvalidValue
from tidewheel.model.filter_policy import MAX_BYTES, FilterPolicy

OTHER = {"other": "here"}


def takes(conditions: list[Any], value: str | None) -> bool:
    """Applies a policy on the attribute `a` to a message with another attribute beside `a`."""
    attributes = OTHER if value is None else {**OTHER, "a": value}
    return FilterPolicy.parse({"a": conditions}).matches(attributes)


# ---- the group


def takes_group(conditions: list[Any], group: str | None, attributes: dict[str, str] | None = None) -> bool:
    return FilterPolicy.parse({"tidewheel.group": conditions}).matches(attributes, group)


@pytest.mark.parametrize(
    ("conditions", "taken", "left"),
    [
        (["tenant-7", "tenant-8"], ["tenant-7", "tenant-8"], ["tenant-77", None]),
        ([{"prefix": "tenant-"}], ["tenant-7"], ["Tenant-7", None]),
        ([{"suffix": "-7"}], ["tenant-7"], ["tenant-8", None]),
        ([{"equals-ignore-case": "tenant-a"}], ["tenant-a", "TENANT-A"], ["tenant-b", None]),
        ([{"anything-but": ["tenant-7"]}], ["tenant-8"], ["tenant-7", None]),
        ([{"anything-but": {"prefix": "test-"}}], ["tenant-7"], ["test-1", None]),
        ([{"exists": True}], ["tenant-7"], [None]),
        ([{"exists": False}], [None], ["tenant-7"]),
        ([{"numeric": [">", 5]}], ["7"], ["4", "tenant-7", None]),
    ],
)
def test_tidewheel_group_is_the_messages_group_with_and_without_attributes(
    conditions: list[Any], taken: list[str | None], left: list[str | None]
) -> None:
    for attributes in (None, {}, OTHER):
        assert [group for group in taken + left if takes_group(conditions, group, attributes)] == taken


def test_a_senders_attributes_are_not_the_group() -> None:
    assert not takes_group(["a"], None, {"tidewheel.group": "a", "group": "a"})
    assert takes_group([{"exists": False}], None, {"tidewheel.group": "a"})
    by_attribute = FilterPolicy.parse({"group": ["a"]})
    assert by_attribute.matches({"group": "a"}, "b") and not by_attribute.matches({"group": "b"}, "a")


def test_a_group_and_attributes_are_tested_together_and_within_or() -> None:
    both = FilterPolicy.parse({"tidewheel.group": ["a"], "color": ["red"]})
    assert both.matches({"color": "red"}, "a")
    assert not both.matches({"color": "red"}, "b") and not both.matches(None, "a")
    either = FilterPolicy.parse({"$or": [{"tidewheel.group": ["a"]}, {"color": ["red"]}]})
    assert either.matches(None, "a") and either.matches({"color": "red"}, None) and not either.matches(None, "b")


def test_a_message_with_a_group_and_no_attributes_has_none_for_a_policy_on_attributes() -> None:
    policy = FilterPolicy.parse({"color": [{"exists": False}]})
    assert not policy.matches({}, "a") and policy.matches(OTHER, "a")


# ---- conditions


@pytest.mark.parametrize(
    ("conditions", "taken", "left"),
    [
        (["rugby", "tennis"], ["rugby", "tennis"], ["Rugby", "rugby ", "baseball", ""]),
        ([{"prefix": "bas"}], ["baseball", "bas", "basket"], ["Baseball", "abas", "ba"]),
        ([{"suffix": "ball"}], ["baseball", "ball"], ["balls", "BALL"]),
        ([{"equals-ignore-case": "TenNis"}], ["tennis", "TENNIS", "tEnNiS"], ["tenni", "tennis "]),
        ([{"anything-but": "rugby"}], ["tennis", "Rugby", "rugb"], ["rugby"]),
        ([{"anything-but": ["rugby", "tennis"]}], ["baseball"], ["rugby", "tennis"]),
        ([{"anything-but": {"prefix": "order-"}}], ["data-entry", "order"], ["order-1", "order-"]),
        ([{"anything-but": {"suffix": ".tmp"}}], ["a.txt", ".tmp.x"], ["a.tmp"]),
        ([{"wildcard": "*ball"}], ["baseball", "ball", "a\nball"], ["balls", "Ball", "5"]),
        ([{"wildcard": "log*run*"}], ["log-run", "logrun-7", "log-run-run"], ["log", "run-log", "lo-run"]),
        ([{"wildcard": "a*b*c*d"}], ["abcd", "a1b2c3d", "abbccdd"], ["abcde", "acbd", "abd"]),
        ([{"wildcard": "[a]?*"}], ["[a]?", "[a]?!"], ["a1", "[a]1"]),
        ([{"wildcard": "whole"}], ["whole"], ["whole ", "the whole"]),
        ([{"wildcard": "*"}], ["", "x"], []),
        ([{"anything-but": {"wildcard": "*ball"}}], ["hockey", "balls"], ["baseball", "ball"]),
        ([{"cidr": "10.0.0.0/24"}], ["10.0.0.0", "10.0.0.255"], ["10.1.1.0", "10.0.0.256", "10.0.0.0/24", "x", "1"]),
        ([{"cidr": "10.0.0.7"}], ["10.0.0.7"], ["10.0.0.8", "::ffff:10.0.0.7", "10.0.0.07", "167772167"]),
        ([{"cidr": "2001:db8::/32"}], ["2001:db8::1", "2001:DB8:0:0::"], ["2001:db9::1", "10.0.0.1", "2001:db8::/32"]),
        (["rugby", {"prefix": "bas"}], ["rugby", "basket"], ["tennis"]),
        (['say "hi" \\', "é🌊"], ['say "hi" \\', "é🌊"], ["é"]),
        # JSON numbers, as numbers to five decimals
        ([{"numeric": ["=", 301.5]}], ["301.5", "3.015e2", "301.500", "301.5000004"], ["301.6", "-301.5", "x"]),
        ([{"numeric": ["<", 0]}], ["-1", "-0.00001", "-1e300"], ["0", "-0", "-0.000001", "1"]),
        ([{"numeric": ["<=", 0]}], ["-1", "0", "-0"], ["0.00001"]),
        ([{"numeric": [">", 0, "<=", 150]}], ["0.5", "150", "1.5e2"], ["0", "150.1", "-1", "1e999"]),
        ([{"numeric": [">=", 1, "<", 2]}], ["1", "1.99999"], ["2", "0.99"]),
        ([{"numeric": [">", 5]}], ["2000000000", "1e308"], ["5", "1e400"]),
        ([5], ["5", "5.0", "5e0", "0.5E+1"], ["05", "+5", " 5", "5.", "\u0665", "5_0", "0x5", "nan", "inf"]),
        (["5"], ["5"], ["5.0"]),
        ([{"anything-but": [100, 500]}], ["101", "100.1", "text"], ["100", "1e2", "500.0"]),
        ([{"anything-but": 100}], ["99"], ["100"]),
        ([{"anything-but": [100, "red"]}], ["blue", "7"], ["red", "100.0"]),
        ([{"anything-but": ["100"]}], ["100.0"], ["100"]),
        # keywords of their own
        ([True], ["true", "[true]", "[1, true]"], ["false", "True", "1", "[1]", '["true"]']),
        ([False, None], ["false", "null", "[null]"], ["true", "0", "", "[0]"]),
        (["true"], ["true", '["true"]'], ["[true]"]),
        ([1], ["1", "[1.0]"], ["true", "[true]"]),
        # JSON arrays: one element, and for anything-but all of them
        (["rugby"], ['["rugby", "tennis"]', ' [ "tennis","rugby" ]'], ['["baseball"]', "[]", '["rugby"', "[rugby]"]),
        ([{"prefix": "rug"}], ['["tennis", "rugby"]'], ['["tennis"]', '["a rug"]']),
        ([{"anything-but": ["rugby", "x"]}], ['["tennis"]', "[5]"], ['["rugby", "tennis"]', '["rugby"]', "[]"]),
        ([{"anything-but": {"prefix": "r"}}], ['["tennis", "a"]'], ['["rugby", "tennis"]']),
        ([{"cidr": "10.0.0.0/8"}], ['["a", "10.9.9.9"]'], ["[10]", '["11.0.0.0"]']),
        ([{"wildcard": "*g*"}], ['["tennis", "rugby"]'], ['["tennis"]', "[5]"]),
        ([{"numeric": [">", 9]}], ["[10, 1]"], ['["10"]', "[9]", f"[{'9' * 400}]", f"[{'9' * 5000}]"]),
        ([{"prefix": "["}], ["[NaN]", "[[1]]", '[{"a": 1}]', "[1", "[" * 100_000], ["[1]"]),
    ],
)
def test_a_condition_takes_what_it_takes_in_sns(conditions: list[Any], taken: list[str], left: list[str]) -> None:
    assert [value for value in taken + left if takes(conditions, value)] == taken


@pytest.mark.parametrize("value", ["x", "5", "null", "[1]"])
def test_exists_asks_for_the_name_alone(value: str) -> None:
    assert takes([{"exists": True}], value)
    assert not takes([{"exists": False}], value)
    assert takes([{"exists": False}], None)
    assert not takes([{"exists": True}], None)


def test_an_empty_array_counts_as_no_attribute() -> None:
    assert takes([{"exists": False}], "[]")
    assert not takes([{"exists": True}], "[]")


@pytest.mark.parametrize(
    "conditions",
    [["a"], [None], [5], [{"anything-but": "a"}], [{"anything-but": {"prefix": "a"}}], [{"numeric": ["<", 9]}]],
)
def test_only_exists_false_matches_a_missing_attribute(conditions: list[Any]) -> None:
    assert not takes(conditions, None)
    assert takes([*conditions, {"exists": False}], None)


@pytest.mark.parametrize("attributes", [None, {}])
@pytest.mark.parametrize("condition", [{"exists": False}, {"anything-but": "x"}, "x"])
def test_a_message_without_attributes_is_never_taken(attributes: dict[str, str] | None, condition: Any) -> None:
    assert FilterPolicy.parse({"a": [condition]}).matches(attributes) is False


# ---- policies


def test_or_takes_what_one_of_its_policies_takes() -> None:
    policy = FilterPolicy.parse(
        {
            "source": ["aws.cloudwatch"],
            "$or": [
                {"metricName": ["CPUUtilization", "ReadLatency"]},
                {"$or": [{"metricType": ["MetricType"]}, {"namespace": ["AWS/EC2"], "size": [{"numeric": [">", 1]}]}]},
            ],
        }
    )
    source = {"source": "aws.cloudwatch"}
    assert policy.matches(source | {"metricName": "ReadLatency"})
    assert policy.matches(source | {"metricType": "MetricType"})
    assert policy.matches(source | {"namespace": "AWS/EC2", "size": "2"})
    assert not policy.matches(source | {"namespace": "AWS/EC2", "size": "1"})
    assert not policy.matches({"metricName": "ReadLatency"})
    assert not policy.matches(source)


def test_policies_that_say_the_same_are_equal_and_have_the_same_json() -> None:
    one = FilterPolicy.parse('{"b": [5.0, "x", "x"], "a": [{"anything-but": "z"}], "$or": [{"q": [2]}, {"p": [1]}]}')
    two = FilterPolicy.parse({"a": [{"anything-but": ["z"]}], "$or": [{"p": [1]}, {"q": [2]}], "b": ["x", 5]})
    assert one == two
    assert hash(one) == hash(two)
    assert one.to_json() == two.to_json()
    assert one.to_json() == '{"$or":[{"p":[1]},{"q":[2]}],"a":[{"anything-but":["z"]}],"b":["x",5]}'
    assert one != FilterPolicy.parse({"b": ["x"]})


def test_any_mapping_is_a_policy() -> None:
    policy = MappingProxyType({"a": [MappingProxyType({"prefix": "é"})]})
    assert FilterPolicy.parse(policy).to_json() == '{"a":[{"prefix":"é"}]}'


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.one_of(st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9))
WORDS = TEXTS.filter(bool)
CONDITIONS = st.one_of(
    TEXTS,
    NUMBERS,
    st.sampled_from([True, False, None, {"exists": True}, {"exists": False}]),
    st.builds(lambda name, text: {name: text}, st.sampled_from(["prefix", "suffix", "equals-ignore-case"]), WORDS),
    st.builds(lambda refused: {"anything-but": refused}, st.lists(st.one_of(TEXTS, NUMBERS), min_size=1, max_size=3)),
    st.builds(lambda name, text: {"anything-but": {name: text}}, st.sampled_from(["prefix", "suffix"]), WORDS),
    st.builds(lambda sign, n: {"numeric": [sign, n]}, st.sampled_from(["=", "<", "<=", ">", ">="]), NUMBERS),
)
NAMES = st.sampled_from("abcde")
POLICIES = st.dictionaries(NAMES, st.lists(CONDITIONS, min_size=1, max_size=2), min_size=1, max_size=5)
VALUES = st.one_of(TEXTS, NUMBERS.map(str), st.lists(st.one_of(TEXTS, NUMBERS, st.none())).map(json.dumps))
ATTRIBUTES = st.dictionaries(NAMES, VALUES)


@given(POLICIES, st.lists(ATTRIBUTES, max_size=5))
def test_a_policy_read_back_from_its_json_is_the_same(policy: dict[str, Any], messages: list[dict[str, str]]) -> None:
    first = FilterPolicy.parse(policy)
    again = FilterPolicy.parse(first.to_json())
    assert again == first
    assert [again.matches(each) for each in messages] == [first.matches(each) for each in messages]


@given(POLICIES, ATTRIBUTES)
def test_names_are_and_and_conditions_are_or(policy: dict[str, Any], attributes: dict[str, str]) -> None:
    parts = [
        any(FilterPolicy.parse({name: [each]}).matches(attributes) for each in conditions)
        for name, conditions in policy.items()
    ]
    assert FilterPolicy.parse(policy).matches(attributes) == all(parts)


# ---- what is refused


@pytest.mark.parametrize(
    ("policy", "field", "advice"),
    [
        ("", "filter_policy", "not JSON"),
        ('{"a": [NaN]}', "filter_policy", "NaN is not JSON"),
        ({"a": {1, 2}}, "filter_policy", "set is not JSON"),
        pytest.param(f'{{"a": [{"9" * 5000}]}}', "filter_policy", "not JSON", id="5000 digits"),
        pytest.param('{"a":' * 100_000, "filter_policy", "characters", id="long"),
        pytest.param('{"a":' * 50_000, "filter_policy", "nested too deeply", id="deep"),
        ('["a"]', "filter_policy", "give an object"),
        (None, "filter_policy", "give a JSON object"),
        ({}, "filter_policy", "empty policy"),
        ('{"a": ["b"], "a": ["c"]}', "filter_policy", "twice"),
        ('{"a": ["\\ud800"]}', "filter_policy", "surrogate"),
        ({"": ["x"]}, "filter_policy", "1 to 256 characters"),
        ({"a": "b"}, "filter_policy a", "list of at least one"),
        ({"a": {"b": ["c"]}}, "filter_policy a", "not nested"),
        ({"a": ["x", ["y"]]}, "filter_policy a[1]", "give text, a number"),
        ({"a": [{}]}, "filter_policy a[0]", "one operator"),
        ({"a": [{"prefix": "x", "suffix": "y"}]}, "filter_policy a[0]", "one operator"),
        ({"a": ["x", {"like": "y"}]}, "filter_policy a[1]", "unknown operator; use anything-but,"),
        ({"a": [{"prefix": ""}]}, "filter_policy a[0] prefix", "at least one character"),
        ({"a": [{"exists": "true"}]}, "filter_policy a[0] exists", "true or false"),
        ({"a": [{"anything-but": []}]}, "filter_policy a[0] anything-but", "at least one value"),
        ({"a": [{"anything-but": [True]}]}, "filter_policy a[0] anything-but", "give text, a number"),
        ({"a": [{"anything-but": {"exists": True}}]}, "filter_policy a[0] anything-but", "prefix"),
        ({"a": [{"wildcard": "*a*b*c*"}]}, "filter_policy a[0] wildcard", "at most 3 wildcards"),
        ({"a": [{"wildcard": "a\\*"}]}, "filter_policy a[0] wildcard", "no backslash"),
        ({"a": [{"anything-but": {"wildcard": "****"}}]}, "filter_policy a[0] anything-but wildcard", "at most 3"),
        ({"a": [{"cidr": "not a network"}]}, "filter_policy a[0] cidr", 'such as "10.0.0.0/24"'),
        ({"a": [{"numeric": 5}]}, "filter_policy a[0] numeric", "one comparison"),
        ({"a": [{"numeric": ["==", 5]}]}, "filter_policy a[0] numeric", "use one of = < <= > >="),
        ({"a": [{"numeric": ["=", "5"]}]}, "filter_policy a[0] numeric", "without quotation marks"),
        ({"a": [{"numeric": ["=", True]}]}, "filter_policy a[0] numeric", "without quotation marks"),
        ({"a": [{"numeric": ["<", 5, ">", 0]}]}, "filter_policy a[0] numeric", "lower bound"),
        ({"a": [{"numeric": [">", 5, "<", 5]}]}, "filter_policy a[0] numeric", "nothing would match"),
        ({"a": [10**9 + 1]}, "filter_policy a[0]", "from -1000000000"),
        ({"$or": [{"a": ["b"]}]}, "filter_policy $or", "at least two policies"),
        ({"$or": [{"a": ["b"]}, {}]}, "filter_policy $or[1]", "empty policy"),
        ({"$or": [{"numeric": ["b"]}, {"a": ["b"]}]}, "filter_policy $or[0]", "'numeric' is an operator"),
        ({"$or": [{"a": ["b"]}, {"b": [{"x": 1}]}]}, "filter_policy $or[1] b[0]", "unknown operator"),
        ({name: ["x"] for name in "abcdef"}, "filter_policy", "6 names"),
        ({name: [f"{name}{i}" for i in range(6)] for name in "abc"}, "filter_policy", "216 combinations"),
        ({"a": ["x" * MAX_BYTES]}, "filter_policy", "at most 262144 bytes"),
        pytest.param('{"a": ["' + "é" * (MAX_BYTES // 2) + '"]}', "filter_policy", "at most 262144", id="bytes"),
    ],
)
def test_what_is_no_policy_is_refused_by_its_part(policy: Any, field: str, advice: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        FilterPolicy.parse(policy)
    assert raised.value.field == field
    assert advice in str(raised.value)


def test_networks_are_kept_in_their_shortest_notation() -> None:
    policies = [{"a": [{"cidr": text}]} for text in ("10.0.0.9/24", "10.0.0.0/24", "10.0.0.0/255.255.255.0")]
    assert {FilterPolicy.parse(each).to_json() for each in policies} == {'{"a":[{"cidr":"10.0.0.0/24"}]}'}


def test_wildcards_take_time_proportional_to_the_text() -> None:
    policy = FilterPolicy.parse({"a": [{"wildcard": "a*a*a*b"}]})
    text = "a" * 200_000
    began_s = time.process_time()
    assert not policy.matches({"a": text})
    assert time.process_time() - began_s < 1  # cubic time would be centuries


def test_the_limit_is_of_utf8_bytes_however_the_policy_came() -> None:
    text = "🌊" * (MAX_BYTES // 4 - 10)
    assert FilterPolicy.parse({"a": [text]}).matches({"a": text})


def test_a_policy_may_have_five_names_and_150_combinations() -> None:
    policy: dict[str, Any] = {
        "a": [f"{i}" for i in range(15)],
        "b": ["1", "2"],
        "$or": [{"c": [1, 2]}, {"d": [1, 2, 3]}],
    }
    assert FilterPolicy.parse({**policy, "e": ["x"]}).matches({"a": "3", "b": "1", "d": "3", "e": "x"})
    with pytest.raises(InvalidValue, match="165 combinations"):
        FilterPolicy.parse({"a": [f"{i}" for i in range(33)], "$or": policy["$or"]})
