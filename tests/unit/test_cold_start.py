"""What a function's cold start loads: only what its handler needs before anything is asked of it. Nothing is timed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import fields

import pytest

from tests.conftest import REPOSITORY
from tests.flows.world import DAY, HOUR, MINUTE, START_MS, TOPIC, World
from tidewheel.flows.dispatch import dispatch
from tidewheel.settings import ServiceSettings

PROGRAM = """
import importlib, json, sys

loaded = {}
for name in sys.argv[1:]:
    importlib.import_module(f"functions.{name}.handler")
    loaded[name] = sorted(sys.modules)
print(json.dumps(loaded))
"""
PATIENCE_S = 120
ROWS = ("numpy", "pyarrow", "tidewheel.ledger", "tidewheel.ledger_rows", "tidewheel.ledger_writer")
"""What rows are read and written with."""
NEVER = (
    "aws_cdk",
    "aws_lambda_powertools.event_handler",
    "aws_lambda_powertools.utilities.parser",
    "moto",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.flight",
    "pyspark",
    "rich",
    "sqlite3",
    "tidewheel.cdk",
    "tidewheel.cli",
    "tidewheel.local",
    "tidewheel.memory",
    "tidewheel.spark",
    "typer",
)
"""What is in no bundle, or far too large for what a function might want of it."""


def loaded_by(*functions: str) -> dict[str, set[str]]:
    """Imports handlers, one after the other, in one new process: function -> the modules that are loaded by then."""
    values = {"max_skew_ms": "100", "send_threads": "8", "topic_queues": "{}"}
    variables = {
        f"TIDEWHEEL_{field.name.upper()}": values.get(field.name, "arn:aws:sqs:eu-central-1:1:q")
        for field in fields(ServiceSettings)
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *functions],
        cwd=REPOSITORY,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            # Where it is on Lambda; tracing is off elsewhere.
            "LAMBDA_TASK_ROOT": "/var/task",
            "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: set(modules) for name, modules in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def without_rows() -> dict[str, set[str]]:
    """What is loaded after each function that handles no rows when it starts."""
    return loaded_by("sweep", "declare", "dispatch")


@pytest.fixture(scope="module")
def with_rows() -> dict[str, set[str]]:
    """What is loaded after each function whose every call handles rows."""
    return loaded_by("deliver", "ingest", "compact")


@pytest.mark.parametrize("function", ["sweep", "declare", "dispatch"])
def test_what_rows_are_read_with_is_not_loaded_before_there_are_any(
    without_rows: dict[str, set[str]], function: str
) -> None:
    assert without_rows[function] & set(ROWS) == set()


@pytest.mark.parametrize("function", ["deliver", "ingest", "compact"])
def test_functions_whose_every_call_handles_rows_load_it_at_once(with_rows: dict[str, set[str]], function: str) -> None:
    assert {"numpy", "pyarrow", "tidewheel.ledger_rows"} <= with_rows[function]


def test_requests_to_aws_are_traced_and_nothing_else_is(without_rows: dict[str, set[str]]) -> None:
    libraries = {name.split(".")[2] for name in without_rows["dispatch"] if name.startswith("aws_xray_sdk.ext.")}
    assert libraries - {"boto_utils", "util"} == {"botocore"}


def test_no_function_loads_what_it_never_needs(
    without_rows: dict[str, set[str]], with_rows: dict[str, set[str]]
) -> None:
    assert (without_rows["dispatch"] | with_rows["compact"]) & set(NEVER) == set()


@pytest.mark.parametrize("name", [*ROWS, *NEVER])
def test_what_must_not_be_loaded_exists_under_this_name(name: str) -> None:
    """Or else its absence says nothing."""
    assert importlib.util.find_spec(name) is not None


def test_a_dispatch_that_leaves_its_rows_to_the_work_queue_needs_nothing_to_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World("billing", "audit", inline_rows=50, part_rows=40)
    world.ingest(world.pack(*[HOUR + n for n in range(300)]))
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    for name in ("tidewheel.flows.deliver", "tidewheel.flows.occurrences"):
        monkeypatch.setitem(sys.modules, name, None)
    done = dispatch(world.ports, TOPIC)
    assert done is not None and done.enqueued_parts == 2 * 8


def test_a_dispatch_that_finds_nothing_due_needs_nothing_to_read_rows_with(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ingest(world.pack(DAY))
    for name in ("tidewheel.flows.deliver", "tidewheel.flows.occurrences"):
        monkeypatch.setitem(sys.modules, name, None)
    done = dispatch(world.ports, TOPIC)
    assert done is not None and done.planned_rows == 0 and done.next_slot == world.fence.wake_slot


def test_a_small_plan_is_read_where_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ingest(world.pack(HOUR))
    world.clock.set_ms(START_MS + HOUR - 8 * MINUTE)
    monkeypatch.setitem(sys.modules, "tidewheel.flows.deliver", None)
    with pytest.raises(ModuleNotFoundError, match=r"tidewheel\.flows\.deliver"):
        dispatch(world.ports, TOPIC)
