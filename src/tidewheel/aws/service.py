"""Makes all AWS ports of the deployed service, once at cold start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import boto3
from botocore.config import Config

from tidewheel import __version__, deadline
from tidewheel import clock as clocks
from tidewheel.aws.dynamodb.storage import DynamoStorage
from tidewheel.aws.runs import AwsRuns
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.aws.scheduler_wheel import SchedulerWheel
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.clock import Clock
from tidewheel.flows.ports.parallel import Parallel, in_order
from tidewheel.flows.ports.queues import Queues
from tidewheel.flows.ports.wheel import Wheel
from tidewheel.model.settings import ServiceSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_T = TypeVar("_T")

USER_AGENT = f"tidewheel/{__version__}"
"""The header, with Botocore's version behind. Without this, botocore makes a longer one anew for each request."""


class Service(DynamoStorage):
    """Implements the port `Ports` on AWS."""

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Clock,
        dynamodb: DynamoDBClient,
        *,
        objects: S3Objects,
        queues: Queues,
        wheel: Wheel,
        runs: AwsRuns,
        parallel: Parallel,
    ) -> None:
        super().__init__(dynamodb, table=settings.table, objects=objects)
        self.settings = settings
        self.clock = clock
        self.queues: Queues = queues
        self.wheel: Wheel = wheel
        self.runs = runs
        self.parallel = parallel

    @property
    def max_skew_ms(self) -> int:
        """Maximum difference between SQS's clock and the local clock."""
        return self.settings.max_skew_ms

    @classmethod
    def cold_start(
        cls,
        session: boto3.session.Session | None = None,
        environ: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
    ) -> Service:
        """Makes the service from the environment's settings, with a clock, by default the current clock.

        Raises:
            NotConfigured: a variable is missing.
        """
        settings = ServiceSettings.from_environment(environ)
        return cls.of(settings, session or boto3.session.Session(), clock or clocks.current())

    @classmethod
    def of(
        cls, settings: ServiceSettings, session: boto3.session.Session, clock: Clock, *, endpoint_url: str | None = None
    ) -> Service:
        """Makes the service from settings. The session selects the AWS endpoints, unless an endpoint is given."""
        client = partial(
            bounded_client, session, config=client_config(settings.send_threads), endpoint_url=endpoint_url
        )
        return cls(
            settings,
            clock,
            client("dynamodb"),
            objects=S3Objects(client("s3", config=object_config(settings.send_threads)), s3_bucket=settings.s3_bucket),
            queues=SqsQueues(
                client("sqs"),
                work_queue_url=settings.work_queue_url,
                refused_queue_url=settings.refused_queue_url,
            ),
            wheel=SchedulerWheel(
                client("scheduler", config=hint_config()),
                clock,
                group=settings.schedule_group,
                dispatch_arn=settings.dispatch_arn,
                role_arn=settings.schedule_role_arn,
                dead_letter_arn=settings.schedule_dead_letter_arn,
            ),
            runs=AwsRuns(
                # Made on first use: few calls start a run, and Glue's API description is among botocore's largest.
                once(lambda: client("lambda")),
                once(lambda: client("glue")),
                dispatch_function=settings.dispatch_arn,
                compact_function=settings.compact_function,
                merge_job=settings.merge_job,
            ),
            parallel=parallel_of(settings.send_threads),
        )


def once(make: Callable[[], _T]) -> Callable[[], _T]:
    """Returns a function that calls `make` at most once and shares the result between threads."""
    lock = Lock()
    made: list[_T] = []

    def get() -> _T:
        with lock:
            if not made:
                made.append(make())
        return made[0]

    return get


def bounded_client(session: boto3.session.Session, service: str, **settings: Any) -> Any:
    """Returns a client whose calls begin no try without time. See `tidewheel.deadline`."""
    client: Any = session.client(cast(Any, service), **settings)
    for event in ("before-call", "before-send"):  # before-send comes for each try; emulators never send it
        client.meta.events.register_first(event, _check_time)
    return client


def _check_time(**_: Any) -> None:
    deadline.check()


def client_config(send_threads: int) -> Config:
    """Returns the connection and retry settings of the functions' clients: two tries of at most 5 s.

    What fails then comes again, is parked or held, and `Table` repeats what lost a race or was throttled.
    """
    return Config(
        retries={"mode": "standard", "total_max_attempts": 2},
        connect_timeout=2,
        read_timeout=3,
        tcp_keepalive=True,
        max_pool_connections=max(10, send_threads),
        user_agent=USER_AGENT,
        # Our own code builds all requests. Validation took a fifth of the client's CPU for ten (0.16 of 0.85 ms).
        parameter_validation=False,
    )


def object_config(send_threads: int) -> Config:
    """Returns the settings of the S3 client, which has more time: S3 answers a large object's PUT later."""
    return client_config(send_threads).merge(Config(read_timeout=deadline.TRY_S - 2))


def hint_config() -> Config:
    """Returns the settings of the scheduler's client: one short attempt, since the sweep does without schedules."""
    return Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2, user_agent=USER_AGENT)


def parallel_of(threads: int) -> Parallel:
    """Returns a mapper that runs calls on several threads, or in order for a single thread."""
    if threads <= 1:
        return in_order
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="tidewheel")

    def run(call: Callable[[int], None], arguments: Iterable[int], /) -> Iterable[None]:
        return pool.map(deadline.carried(call), arguments)

    return run
