"""Runs the functions against an emulated AWS, as `LocalTidewheel`."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import boto3
import botocore.session

from tidewheel.clock import MovedClock
from tidewheel.errors import InvalidValue
from tidewheel.local import deployment
from tidewheel.local.background import BackgroundPump
from tidewheel.local.declarations import CustomResources
from tidewheel.local.emulated_triggers import EmulatedTriggers
from tidewheel.local.emulator import Command, Emulator
from tidewheel.local.event_source import EventSource
from tidewheel.local.handlers import Handler, MappingSpec, runner
from tidewheel.local.jobs import JobRunner, Jobs, run_here
from tidewheel.local.meter import Requests
from tidewheel.local.pump import Pump
from tidewheel.local.stack import Stack, clock_from, milliseconds_of
from tidewheel.memory.sqs_queue import MemoryQueue
from tidewheel.model.settings import TOPIC_DEFAULTS, NewTopicSettings, parameter_name
from tidewheel.shipped import FUNCTIONS, shipped

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.local.state import State

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_ONE_CLOCK = {"TIDEWHEEL_MAX_SKEW_MS": "0"}
"""Sets the reserve for clock skew to zero, since functions and queues have the same clock here.

A message due at a whole second with a whole-second delay is then receivable at exactly that second.
"""


class LocalTidewheel(Stack):
    """Runs Tidewheel's own functions against an emulated AWS, in this process.

    With the virtual clock (the default) time moves only in `advance`, from event to event: a year takes seconds, and a
    run is repeatable. With `clock="real"` a background thread handles due events, `advance` waits, and `skip` moves
    time. A process has one stack at a time, and each stack starts empty. The rest of the process is not affected: other
    boto3 clients, `time` and `os.environ` stay as they are, except while a function is loaded: in `open`, or in virtual
    time without a port at the function's first call.

    Args:
        start: start of virtual time: ISO 8601 (UTC if it names no zone) or a datetime.
        clock: "virtual" or "real".
        stack_name: the CloudFormation stack's name, by which the SDK finds it.
        template: CloudFormation template to deploy, as the CDK writes it, or the path of its JSON file; None: the
            packaged
            template. If its service has a name of its own, give that as stack_name.
        functions: folder of the functions' handlers; None: the packaged handlers.
        log_level: the lowest level that the functions log (to standard error).
        environment: variables that replace those of the template in every function; the local runtime itself sets
            TIDEWHEEL_MAX_SKEW_MS=0, since there is one clock only.
        port: where `endpoint_url` listens; 0 for any free port.
        job_runner: runs the stack's Glue jobs; this process by default.
        state: folder that keeps everything over restarts, with clock="real"; None: nothing is kept. One process uses it
            at a time. If it cannot be written, the process ends with a message on standard error.
        bulk_window_s: how long messages that are not due soon are collected at most; None: as the template says.
        topic_settings: settings that `create_topic` takes, such as slot_s or lookahead_s; every client of the stack
            uses them as defaults for new topics.

    Attributes:
        commands: functions that a POST to their path at the endpoint calls with the body. They return the answer.
        requests: requests to AWS so far, by "service.Operation"; `requests.units` estimates billed units.
        failures: every invocation of a function, and every job run, that raised.
        drop_schedules: if True, one-time schedules vanish instead of firing; the sweep must repair this.
    """

    def __init__(
        self,
        *,
        start: str | dt.datetime | None = None,
        clock: Literal["virtual", "real"] = "virtual",
        stack_name: str = "tidewheel",
        template: dict[str, Any] | str | Path | None = None,
        functions: Path | None = None,
        log_level: str = "CRITICAL",
        environment: Mapping[str, str] | None = None,
        port: int = 0,
        job_runner: JobRunner = run_here,
        bulk_window_s: float | None = None,
        state: Path | str | None = None,
        **topic_settings: Unpack[NewTopicSettings],
    ) -> None:
        if clock not in ("virtual", "real"):
            raise InvalidValue("clock", clock, "give 'virtual' or 'real'")
        if log_level.upper() not in _LEVELS:
            raise InvalidValue("log_level", log_level, f"give one of: {', '.join(_LEVELS)}")
        if clock == "real" and start is not None:
            raise InvalidValue("start", start, "leave start out: real time starts now")
        self.virtual = clock == "virtual"
        super().__init__(clock_from(start) if self.virtual else MovedClock(), stack_name, topic_settings)
        self._environment = {**_ONE_CLOCK, **(environment or {})}
        self._template, self._functions, self._log_level, self._job_runner = template, functions, log_level, job_runner
        self._bulk_window_s = math.inf if bulk_window_s is None else bulk_window_s
        self.commands: dict[str, Command] = {}
        self._emulator = Emulator(self.clock, virtual=self.virtual, port=port, commands=self.commands)
        self.requests = Requests(self._emulator.item_bytes)
        self._port = port
        if not self.virtual:
            self._emulator.wire.endpoint_observer = self.requests.observe
        self._state = None if state is None else self._state_in(Path(state))
        self._handlers: list[Handler] = []
        self._jobs: Jobs | None = None
        self._background: BackgroundPump | None = None
        self._session: boto3.Session | None = None

    def open(self) -> Self:
        """Deploys the stack and loads its functions.

        Raises:
            RuntimeError: another stack (or moto's mock_aws) is open in this process.
            InvalidValue: the template cannot be read.
            DeclarationFailed: a topic or a subscription that the template declares was refused.
            StateInUse: another process uses the state's folder.
            StateUnusable: the state is damaged, of another version or of another stack.
        """
        self._emulator.open()
        try:
            if self._state is not None:
                self._state.open()
            template = deployment.template_of(self._template)
            deployed = deployment.read(self._emulator.deploy(self.stack_name, template))
            self._session = self._emulator.wire.session(self.requests.observe)
            self._set_topic_defaults()
            again = self._state is not None and self._state.restore(self._emulator, deployed.table_name)
            root = self._functions or shipped(FUNCTIONS)
            for bare in deployed.functions:
                spec = replace(bare, environment={**bare.environment, **self._environment})
                core_session = partial(self._function_session, spec.role_arn)
                handler = Handler(spec, root, core_session, self.clock, self._log_level)
                self._handlers.append(handler)
                if not self.virtual or self._port is not None:  # other threads run
                    handler.warm()
            handlers = {handler.spec.arn: handler for handler in self._handlers}
            self._jobs = Jobs(
                deployed.jobs,
                self._job_runner,
                stack_name=self.stack_name,
                endpoint_of=self._job_endpoint,
                clock=self.clock,
            )
            triggers = EmulatedTriggers(
                self._emulator, self.clock, handlers, self._jobs, deployed.rules, deployed.table_name, self.requests
            )
            self._pump = Pump(
                self.clock,
                triggers,
                [self._source(spec, handlers[spec.function_arn]) for spec in deployed.mappings],
                [handler.spec.folder for handler in self._handlers],
                count_poll=lambda received, deleted: self.requests.invoked(received=received, deleted=deleted),
                commit=self._emulator.commit,
            )
            if again:
                self._resume(deployed, triggers)
            if deployed.custom:
                CustomResources(self._emulator.wire.session(), self.endpoint_url).create(deployed.custom, handlers)
            if isinstance(self.clock, MovedClock):
                self._background = BackgroundPump(self._pump, self._emulator.changed, self.clock)
                self._background.start()
        except BaseException:
            self.close()
            raise
        return self

    def _resume(self, deployed: deployment.Deployment, triggers: EmulatedTriggers) -> None:
        """Goes on where an earlier process ended. What its functions had received or leased, they get again."""
        for mapping in deployed.mappings:
            self._emulator.queue(mapping.queue_arn).end_receives()
        if self._state is not None and deployed.table_name is not None:
            self._state.end_leases(deployed.table_name)
        for invocation in triggers.ticks():
            self._running().call_again(self.clock.now_ms(), invocation)

    def close(self) -> None:
        """Stops everything. Without a state's folder, all is deleted. Harmless when called twice."""
        try:
            if self._background is not None:
                self._background.stop()
                self._background = None
        finally:
            for handler in self._handlers:
                handler.close()
            self._handlers.clear()
            self._pump = None
            self._jobs = None
            self._session = None
            self._consumer = None
            self._emulator.close()
            if self._state is not None:
                self._state.close()

    def client(self) -> Tidewheel:
        """Returns the ordinary SDK client, on the emulated AWS and the stack's clock.

        The client's requests are counted.
        """
        from tidewheel.client.tidewheel import Tidewheel

        return Tidewheel(self.stack_name, session=self.session, clock=self.clock)

    def _make_consumer(self) -> Tidewheel:
        from tidewheel.client.tidewheel import Tidewheel

        return Tidewheel(self.stack_name, session=self._emulator.wire.session(), clock=self.clock)

    @property
    def session(self) -> boto3.Session:
        """A boto3 session on the emulated AWS, inside the process. Its requests are counted."""
        if self._session is None:
            raise RuntimeError("this local Tidewheel stack is not open")
        return self._session

    @property
    def endpoint_url(self) -> str:
        """An HTTP endpoint on 127.0.0.1 for other AWS clients, with the same state.

        The server starts when this property is first read. Any credentials will do. With the virtual clock, requests
        through the endpoint are not counted in `requests`.
        """
        self._running()
        return self._emulator.wire.endpoint_url

    def _advance_to(self, until_ms: int) -> None:
        if self._background is None:
            super()._advance_to(until_ms)
        else:
            self._background.wait_until(until_ms)

    def skip(self, **duration: float) -> None:
        """Moves time forward without waiting, and handles all events due on the way. Also with the real clock.

        The stack's time is then ahead of the machine's.

        Args:
            duration: as for `advance`.

        Raises:
            InvalidValue: as for `advance`.
        """
        self._running()
        if self._background is None:
            self.advance(**duration)
        else:
            self._background.skip(milliseconds_of(duration))

    def check(self) -> None:
        """Raises RuntimeError if the runtime itself failed, so that nothing is delivered any more."""
        if self._background is not None:
            self._background.check()

    def run_job(self, job: str, **arguments: str | int | bool) -> Any:
        """Runs a Glue job of the stack on this machine's Spark. Returns the job's report.

        Args:
            job: merge_buckets, rebuild_index or import_messages.
            arguments: the job's, such as topic="orders" or dry_run=True.

        Raises:
            ExtraMissing: pyspark is not installed.
            JavaMissing: Spark runs on Java, and there is none.
        """
        self._running()
        assert self._jobs is not None  # made with the pump
        given = {
            f"--{name.replace('_', '-')}": "true" if value is True else str(value)
            for name, value in arguments.items()
            if value is not False
        }
        return self._jobs.run_by_hand(job, given)

    def queue(self, url: str) -> MemoryQueue:
        """Returns the emulated queue with a URL, name or ARN, to inspect its contents.

        Raises:
            SqsError: there is no such queue.
        """
        self._running()
        return self._emulator.queue(url)

    def _source(self, spec: MappingSpec, handler: Handler) -> EventSource:
        return EventSource(
            self._emulator.queue(spec.queue_arn),
            self.clock,
            function=handler.spec.folder,
            run=runner(spec, handler),
            batch_size=spec.batch_size,
            window_ms=round(min(spec.window_ms, self._bulk_window_s * 1000)),
        )

    def _set_topic_defaults(self) -> None:
        """Gives the topic settings to all clients of the stack, by the stack's SSM parameter."""
        if self.topic_settings:
            parameter = self._emulator.parameter(parameter_name(self.stack_name))
            parameter.value = json.dumps({**json.loads(parameter.value), TOPIC_DEFAULTS: self.topic_settings})

    # Here every role may do everything. Tests of IAM replace the next two methods, see `tests/iam`.
    def _function_session(self, role_arn: str | None) -> botocore.session.Session:  # noqa: ARG002
        return self._emulator.wire.core_session(self.requests.observe)

    def _job_endpoint(self, role_arn: str | None) -> str:  # noqa: ARG002
        return self._emulator.wire.endpoint_url

    def _state_in(self, folder: Path) -> State:
        if not isinstance(self.clock, MovedClock):
            raise InvalidValue("state", str(folder), "give clock='real' too: virtual time would begin anew")
        from tidewheel.local.state import State  # of POSIX only

        return State(folder, self.stack_name, self.clock)
