"""Tests the wiring of the deployed service, and the cost of its import."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable
from contextlib import suppress

import boto3
import botocore
import pytest

from tests.conftest import REPOSITORY
from tests.contract.aws_resources import REGION
from tidewheel.aws.service import Service, parallel_of
from tidewheel.client.connection import Connection
from tidewheel.clock import ManualClock, current, use
from tidewheel.errors import NotConfigured
from tidewheel.flows.ports import Ports
from tidewheel.model.settings import ServiceSettings

ENVIRONMENT = {
    f"TIDEWHEEL_{name}": f"the-{name.lower()}"
    for name in (
        "STACK", "TABLE", "S3_BUCKET", "URGENT_QUEUE_URL", "BULK_QUEUE_URL", "WORK_QUEUE_URL", "REFUSED_QUEUE_URL",
        "SCHEDULE_GROUP", "SCHEDULE_ROLE_ARN", "DISPATCH_ARN", "SCHEDULE_DEAD_LETTER_ARN", "COMPACT_FUNCTION",
        "MERGE_JOB",
    )
}  # fmt: skip


def test_the_service_has_the_environments_settings_and_its_clock(monkeypatch: pytest.MonkeyPatch, aws: None) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    clock = ManualClock(5)
    with use(clock):
        own = {"TIDEWHEEL_MAX_SKEW_MS": "250", "TIDEWHEEL_SEND_THREADS": "20"}
        settings = ServiceSettings.from_environment(ENVIRONMENT | own)
        service = Service.of(settings, boto3.session.Session(), current())
    ports: Ports = service
    assert ports.clock is clock
    assert ports.max_skew_ms == 250
    assert service.settings.table == "the-table"


def test_an_environment_without_settings_names_what_is_missing() -> None:
    with pytest.raises(NotConfigured, match="TIDEWHEEL_DISPATCH_ARN"):
        ServiceSettings.from_environment({name: value for name, value in ENVIRONMENT.items() if "DISPATCH" not in name})


def test_every_request_has_the_same_short_user_agent_with_the_version(
    monkeypatch: pytest.MonkeyPatch, aws: None
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    session, sent = boto3.session.Session(), []
    session.events.register_first("before-send", lambda request, **_: sent.append(request.headers["User-Agent"]))
    service = Service.of(ServiceSettings.from_environment(ENVIRONMENT), session, current())
    sdk = Connection("tidewheel", session=session, settings=None, endpoint_url=None)
    calls: list[Callable[[], object]] = [
        sdk.sqs.list_queues,
        lambda: service.topic_states.read("orders"),
        lambda: service.topic_states.read("orders"),
        lambda: service.objects.put("a", b""),
        lambda: service.queues.enqueue_catch_up("orders", "billing", "g"),
        lambda: service.wheel.schedule("orders", 1, 0),
    ]
    for call in calls:
        with suppress(Exception):  # none of the resources exists
            call()
    assert len(sent) == len(calls)
    [agent] = set(sent)  # Powertools adds its own version, where it is loaded
    assert agent.startswith(f"tidewheel/{project['version']} Botocore/{botocore.__version__}".encode())
    assert b"lang/python" not in agent


@pytest.mark.parametrize("threads", [1, 4])
def test_calls_are_made_for_every_argument_and_failures_come_out(threads: int) -> None:
    done: set[int] = set()
    lock = threading.Lock()

    def call(number: int) -> None:
        if number == 99:
            raise ValueError("99")
        with lock:
            done.add(number)

    parallel = parallel_of(threads)
    parallel(call, range(30))
    assert done == set(range(30))
    with pytest.raises(ValueError, match="99"):
        parallel(call, [1, 99, 2])


def test_four_threads_run_four_calls_at_once() -> None:
    barrier = threading.Barrier(4, timeout=10)

    def meet(_: int) -> None:
        barrier.wait()

    parallel_of(4)(meet, range(4))
    assert barrier.n_waiting == 0


@pytest.mark.timeout(60)
def test_calls_that_a_call_makes_side_by_side_wait_for_no_other_thread() -> None:
    parallel, done = parallel_of(2), []

    def outer(number: int) -> None:
        parallel(lambda inner: done.append((number, inner)), range(3))

    parallel(outer, range(4))
    assert sorted(done) == [(number, inner) for number in range(4) for inner in range(3)]
