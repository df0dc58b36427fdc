"""Tests the tasks of the work queue, as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.errors import InvalidValue, NewerRelease
from tidewheel.model.park import ParkKey
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.task import CatchUpTask, DrainTask, PartTask, Task, task_body, task_of

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,48}", fullmatch=True)
OWNERS = st.fixed_dictionaries({"topic": NAMES, "subscription": NAMES, "generation": NAMES})
NUMBERS = st.integers(0, 10**12 - 1)
JOBS = st.one_of(
    st.builds(lambda o, plan, part: PartTask(key=DeliveryKey(**o, plan=plan), part=part), OWNERS, NUMBERS, NUMBERS),
    st.builds(lambda o, id: DrainTask(key=ParkKey(**o, id=id)), OWNERS, NAMES),
    st.builds(lambda o: CatchUpTask(**o), OWNERS),
)
OWNER = '"topic": "t", "subscription": "s", "generation": "g"'


@given(JOBS)
def test_a_job_is_read_as_it_was_written(task: Task) -> None:
    assert task_of(task_body(task)) == task


def test_a_part_s_message_is_five_fields_of_json() -> None:
    key = DeliveryKey(topic="orders", subscription="billing", generation="s1", plan=100)
    assert json.loads(task_body(PartTask(key=key, part=3))) == {
        "topic": "orders",
        "subscription": "billing",
        "generation": "s1",
        "plan": 100,
        "part": 3,
    }


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no json",
        "[]",
        "{}",
        f'{{{OWNER}, "plan": 1}}',
        f'{{{OWNER}, "plan": 1, "part": 0, "park": "p"}}',
        f'{{{OWNER}, "plan": 1, "part": "0"}}',
        f'{{{OWNER}, "plan": 1, "part": -1}}',
        f'{{{OWNER}, "plan": true, "part": 0}}',
        f'{{{OWNER}, "park": 7}}',
        f'{{{OWNER}, "park": "p#q"}}',
        f'{{{OWNER}, "plan": 1, "part": 0, "replay": "../r"}}',
        f'{{{OWNER}, "plan": 1000000000000, "part": 0}}',
        "[" * 100_000,
        '{"topic": null, "subscription": "s", "generation": "g", "plan": 1, "part": 0}',
        '{"topic": "t", "subscription": "s"}',
    ],
)
def test_what_is_not_a_job_is_an_invalid_value(body: str) -> None:
    with pytest.raises(InvalidValue, match="work queue message"):
        task_of(body)


@pytest.mark.parametrize("more", ["", '"plan": 1, "part": 0, '])
def test_a_job_of_a_newer_release_is_told_from_what_is_no_job(more: str) -> None:
    with pytest.raises(NewerRelease, match="upgrade"):
        task_of(f'{{{OWNER}, {more}"kind": "newer"}}')


@given(JOBS)
def test_fields_that_a_newer_release_adds_to_a_job_are_passed_over(task: Task) -> None:
    assert task_of(json.dumps(json.loads(task_body(task)) | {"hint": {"priority": 7}})) == task
