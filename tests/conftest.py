"""Fixtures and helpers of tests on the whole service, with a local stack, a topic and real messages."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

# All tests together are 90,000 lines, which take 15 CPU seconds to compile. Where nothing writes bytecode beside the
# sources, a folder of the environment keeps the bytecode, also that of workers and of other processes.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(sys.prefix) / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

import boto3
import hypothesis
import pytest

from tests.dead_worker import pytest_handlecrashitem as pytest_handlecrashitem
from tests.together import place_of
from tests.together import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler

if TYPE_CHECKING:
    from types import ModuleType

    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.local import LocalTidewheel
    from tidewheel.local.replay import Sample
    from tidewheel.model.received import ReceivedMessage

# Machines are noisy: how long an example takes proves nothing.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# A worker holds moto, botocore's models and the CDK: to look through them for garbage at Python's pace took a third of
# the suite's time.
gc.set_threshold(25_000, 20, 20)

REPOSITORY = Path(__file__).resolve().parent.parent
LONG = (
    "tests/artifact/test_function",
    "tests/behaviour/test_half_well_",
    "tests/behaviour/test_steady_weeks",
    "tests/flows/test_idle_topics",
    "tests/flows/test_retention",
    "tests/fuzz/",
    "tests/independent/test_race",
    "tests/infra/test_bundling",
    "tests/infra/test_enforcement",
    "tests/integrations/test_celery",
    "tests/jobs/test_import_bad_input",
    "tests/jobs/test_import_ended",
    "tests/local/test_cost_of_a_stream",
    "tests/local/test_no_payload",
    "tests/local/state/test_restarts",
    "tests/local/test_demo",
    "tests/packaging/",
    "tests/simulation/test_command",
    "tests/simulation/test_guards",
    "tests/simulation/test_oracle",
    "tests/spark/test_enforcement",
    "tests/spark/test_import",
    "tests/spark/test_ledger_s",
    "tests/spark/test_local_stack",
    "tests/spark/test_merge_engines",
    "tests/spark/test_merge_ended",
    "tests/spark/test_rebuild",
    "tests/spark/test_session",
    "tests/unit/test_benchmark",
    "tests/unit/test_dead_worker",
)
"""Files of minutes, and of what seldom happens. Their tests have the mark `long`."""
QUICK = ("tests/unit/", "tests/contract/")
TOPIC = "orders"
SKEW = {"TIDEWHEEL_MAX_SKEW_MS": "100"}
"""As deployed: the local runtime has one clock and would leave no room for skew."""
PROMISE_MS = 1000 + 100
"""The latest that SQS may make a message receivable after it was due: a second and the skew."""


@pytest.fixture(autouse=True)
def undisturbed() -> None:
    """Resets leftovers of earlier tests in a worker, namely SIGINT's handler, silenced loggers and boto3's session."""
    boto3.DEFAULT_SESSION = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.disable(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "tidewheel":
            logger = logging.getLogger(name)
            logger.disabled, logger.propagate = False, True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out long files, which need not be imported, where no test with the mark `long` runs."""
    path = str(collection_path.relative_to(REPOSITORY)) if collection_path.is_relative_to(REPOSITORY) else ""
    return True if "not long" in config.option.markexpr and path.startswith(LONG) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of long files, and of the night.

    Puts these first, the longest groups before all, so that no worker starts one of them last. Then come those that
    soon show a mistake.
    """
    for item in items:
        if item.nodeid.startswith(LONG) or item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.long)
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: (item.path not in long, place_of(item.nodeid), not item.nodeid.startswith(QUICK)))


def pytest_collection_finish() -> None:
    """Excludes all objects imported by tests from later garbage collections, and makes the commands' tree once."""
    if "typer.testing" in sys.modules:
        runner: Any = sys.modules["typer.testing"]
        runner._get_command = cache(runner._get_command)  # it takes 40 ms
    gc.freeze()


class Orders:
    """A local stack with the production skew and a topic, with helpers for tests.

    Attributes:
        stack, client: the stack and its SDK client.
    """

    def __init__(self, stack: LocalTidewheel, client: Tidewheel) -> None:
        self.stack, self.client = stack, client

    def take(self, subscription: str = "billing", topic: str = TOPIC) -> list[ReceivedMessage]:
        """Receives all available messages, and checks that each arrived in time."""
        messages = self.stack.receive(topic, subscription)
        for message in messages:
            assert 0 <= late_ms(message) <= PROMISE_MS, message
        return messages

    def ids(self, subscription: str = "billing", topic: str = TOPIC) -> Counter[str]:
        """Counts the available copies of each message."""
        return Counter(message.id for message in self.take(subscription, topic))

    def function(self, name: str) -> ModuleType:
        """Returns the module of a function's handler, for injected faults."""
        return self._handler(name).module

    def invoke(self, name: str) -> Any:
        """Invokes a function with an empty event, regardless of schedules."""
        return self._handler(name).invoke({})

    def queue_url(self, logical_id: str) -> str:
        """Returns the URL of the stack's queue with this logical id plus a hash."""
        resources = self.stack.session.client("cloudformation").list_stack_resources(StackName=self.stack.stack_name)[
            "StackResourceSummaries"
        ]
        [url] = [
            each["PhysicalResourceId"]
            for each in resources
            if each["ResourceType"] == "AWS::SQS::Queue" and each["LogicalResourceId"][:-8] == logical_id
        ]
        return str(url)

    def bodies(self, queue_url: str) -> list[str]:
        """Returns the bodies of all messages in a queue, without receiving them."""
        return sorted(message.body for message in self.stack.queue(queue_url).everything)

    def _handler(self, name: str) -> Any:
        [handler] = [each for each in self.stack._handlers if each.spec.folder == name]
        return handler


@contextmanager
def orders(*subscriptions: str, **settings: Any) -> Iterator[Orders]:
    """Opens a stack with the topic "orders" and subscriptions, by default "billing"."""
    from tidewheel.local import LocalTidewheel

    with LocalTidewheel(environment=SKEW) as stack:
        client = stack.client()
        client.create_topic(TOPIC, **settings)
        for name in subscriptions or ("billing",):
            client.create_subscription(TOPIC, name)
        yield Orders(stack, client)


def once(ids: Iterable[str]) -> Counter[str]:
    """Counts ids, and fails on duplicates."""
    counts = Counter(ids)
    assert set(counts.values()) <= {1}
    return counts


def late_ms(message: ReceivedMessage) -> int:
    """Returns the milliseconds between a message's due time and its visibility in SQS."""
    assert message.visible_at is not None
    return round((message.visible_at - message.deliver_at).total_seconds() * 1000)


def real_messages() -> list[Sample]:
    """Returns 14,488 real messages over 60 days, or a sample if the shared file is missing."""
    from tidewheel.local.replay import packaged_samples, read_samples

    shared = REPOSITORY.parent / "shared" / "data" / "commits.jsonl.gz"
    return read_samples(shared if shared.is_file() else packaged_samples())
