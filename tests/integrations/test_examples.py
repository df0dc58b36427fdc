"""The documents' examples of task frameworks, with their real workers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from queue import SimpleQueue

import dramatiq
import pytest
from celery.contrib.testing.worker import start_worker

from tests.docs.recipe import ROOT, load
from tidewheel import clock
from tidewheel.local import LocalTidewheel

PATIENCE_S = 60


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTidewheel]:
    """A local stack found by boto3 like AWS."""
    with LocalTidewheel(start=datetime.now(UTC).replace(microsecond=0)) as opened, clock.use(opened.clock):
        monkeypatch.setenv("AWS_ENDPOINT_URL", opened.endpoint_url)
        for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "us-east-1")
        yield opened
        assert opened.failures == []


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """The lines printed by the examples, in any thread."""
    lines: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr("builtins.print", lines.put)
    return lines


def test_the_dramatiq_example_reminds_once_after_three_days(stack: LocalTidewheel, printed: SimpleQueue[str]) -> None:
    example = load("dramatiq_tasks", ROOT / "examples")
    example.deploy()
    example.sign_up("Grüße ✓")
    where = example.sign_up_until_cancelled("c-2")
    stack.advance(days=2, hours=23)
    assert stack.queue("default").next_ready_ms() is None
    assert example.sign_off(*where)
    stack.advance(hours=2)
    worker = dramatiq.Worker(example.broker, worker_timeout=100, worker_threads=1)
    worker.start()
    try:
        assert printed.get(timeout=PATIENCE_S) == "a reminder for Grüße ✓"
        example.remind.send("now")
        assert printed.get(timeout=PATIENCE_S) == "a reminder for now"
    finally:
        worker.stop()
    assert printed.empty() and stack.queue("default").everything == []


def test_the_celery_example_reminds_once_after_three_days(stack: LocalTidewheel, printed: SimpleQueue[str]) -> None:
    example = load("celery_tasks", ROOT / "examples")
    example.app.conf.broker_transport_options |= {"wait_time_seconds": 0, "polling_interval": 0.05}
    example.app.conf.worker_enable_remote_control = False
    example.deploy()
    example.sign_up("Grüße ✓")
    task_id = example.sign_up("c-2")
    stack.advance(days=2, hours=23)
    assert stack.queue("celery").next_ready_ms() is None
    assert example.sign_off(task_id)
    stack.advance(hours=2)  # a countdown begins by the machine's clock
    with start_worker(example.app, pool="solo", perform_ping_check=False, shutdown_timeout=PATIENCE_S):
        assert printed.get(timeout=PATIENCE_S) == "a reminder for Grüße ✓"
        example.remind.delay("now")
        assert printed.get(timeout=PATIENCE_S) == "a reminder for now"
    assert printed.empty() and stack.queue("celery").everything == []
