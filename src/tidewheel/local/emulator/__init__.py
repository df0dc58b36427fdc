"""Makes moto behave like the AWS that Tidewheel runs on. Every workaround is in this package, with its reason.

| module | moto 5.2.5 | workaround |
|---|---|---|
| wire | is reached by HTTP or by patching every client | clients of our sessions reach moto directly, under one lock |
| | raises Python errors for unknown operations and values of wrong types | AWS's code, by botocore's model |
| patching | takes the time from the machine | its time functions ask our clock |
| | makes random request ids, and lists the methods of its classes at each request | counted, remembered |
| queues | walks all messages at each operation, cannot move dead letters back | `MemoryTidewheel`'s queues |
| tables | copies and sorts whole tables | `MemoryTidewheel`'s table |
| schedule_backend | accepts any schedule, fires none | checks, and an ordered book |
| starts | invokes functions by Docker, runs no job | queued for the pump to run |
| wire_calls | has no name for a request | reads service and operation |
| cloudformation, resources | imports forty services, starts Docker | our own, with a few of moto's models |
| ssm | imports EC2 | EC2 when it is asked for |

All workarounds are in force only while an `Emulator` is open. `close` undoes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Condition, RLock
from types import MappingProxyType
from typing import Any

from moto.core.base_backend import AccountSpecificBackend, BackendDict
from moto.core.common_models import BaseModel
from moto.core.model_instances import reset_model_data
from moto.core.models import DEFAULT_ACCOUNT_ID, MockAWS

from tidewheel.clock import Clock, utc
from tidewheel.errors import NotConfigured
from tidewheel.local.emulator.cloudformation import Stack
from tidewheel.local.emulator.patching import MotoTime, Patches
from tidewheel.local.emulator.queues import EmulatedSqs
from tidewheel.local.emulator.resources import Resource
from tidewheel.local.emulator.schedule_backend import ScheduleBook
from tidewheel.local.emulator.ssm import Parameter, ssm_backends
from tidewheel.local.emulator.starts import Starts
from tidewheel.local.emulator.tables import EmulatedTables
from tidewheel.local.emulator.wire import ACCESS_KEY, REGION, Command, Wire
from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.memory.sqs_queue import MemoryQueue

__all__ = ["ACCESS_KEY", "REGION", "Command", "Emulator", "Resource"]

_open: list[Emulator] = []


class Emulator:
    """Opens moto's backends for this process.

    The backends are empty when opened. Only one emulator can be open, since moto's backends are global.

    Attributes:
        keep: called under the lock after each request, before its answer leaves, and after each step of the pump.
        patches: everything that is replaced in moto, until `close`.
        wire: makes the sessions and the endpoint of the backends.
    """

    def __init__(
        self, clock: Clock, *, virtual: bool, port: int = 0, commands: Mapping[str, Command] = MappingProxyType({})
    ) -> None:
        self._clock = clock
        self.patches = Patches()
        self.keep: Callable[[], None] = lambda: None
        self._time = MotoTime(clock)
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self.sqs = EmulatedSqs(clock, self.changed, virtual=virtual)
        self.schedules = ScheduleBook(clock, self.changed)
        self.starts = Starts(clock, self.changed)
        self.tables = EmulatedTables()
        self._own = {**self.starts.operations, **self.tables.operations}
        self.wire = Wire(self.lock, self._own, clock, self.commit, port, commands)

    def open(self) -> None:
        """Empties moto's backends and applies every workaround.

        Raises:
            RuntimeError: another local stack, or moto's `mock_aws`, is in force in this process.
        """
        if _open:
            raise RuntimeError(
                "another LocalTidewheel is open in this process: close it first (moto's state is global)"
            )
        if MockAWS._nested_count:  # noqa: SLF001  # moto has no other
            raise RuntimeError("moto's mock_aws is active in this process: LocalTidewheel would empty its state")
        _open.append(self)
        try:
            _reset()
            self.patches.set(MockAWS, "start", _refuse_mock_aws)
            self._time.install()
            # moto's own session would read all of botocore's models and the shell's settings.
            moto_session = self.wire.session()
            self.patches.set(AccountSpecificBackend, "get_session", lambda: moto_session)
            # moto keeps every model that it ever made, for its dashboard. With millions of messages this is a leak.
            self.patches.set(BaseModel, "__new__", staticmethod(_untracked))
            self.patches.speed_up_moto()
            self.tables.install(self.patches)
            self.sqs.install(self.patches)
            self.schedules.install(self.patches)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stops the endpoint, undoes every workaround and empties moto's backends.

        Harmless when called twice.
        """
        if self not in _open:
            return
        try:
            self.wire.close()
            self.commit()
            with self.changed:
                self.changed.notify_all()
        finally:
            self.patches.close()
            self._time.remove()
            _reset()
            _open.remove(self)

    def commit(self) -> None:
        """Ends a request or a step of the pump: its effects are all there."""
        with self.lock:
            self.keep()

    def require(self, role_arn: str | None, resource: str, *actions: str) -> None:
        """Raises PermissionError if a role may not do all actions on a resource. Here each may, see `tests/iam`."""

    def deploy(self, stack_name: str, template: dict[str, Any]) -> list[Resource]:
        """Creates a CloudFormation stack. Returns the resources that the runtime must run."""
        stack = Stack(stack_name, template, utc(self._clock.now_ms()))
        with self.lock:
            resources = stack.create()
        self._own.update(stack.operations)
        self.starts.know(resources)
        return resources

    def parameter(self, name: str) -> Parameter:
        """Returns an SSM parameter, whose value may be set.

        Raises:
            NotConfigured: there is none.
        """
        found = ssm_backends[DEFAULT_ACCOUNT_ID][REGION].get_parameter(name)
        if found is None:
            raise NotConfigured(f"the template has no SSM parameter {name}; give the stack the service's own name")
        return found

    def queue(self, name: str) -> MemoryQueue:
        """Returns a standard queue by its name, URL or ARN.

        Raises:
            SqsError: there is no such queue.
        """
        return self.sqs.at().sqs.queue(name)

    def send(self, queue_name: str, body: str, attributes: dict[str, str], *, role_arn: str | None = None) -> None:
        """Puts a message on a queue. Schedules reach their dead-letter queue this way.

        Raises:
            PermissionError: the role may not send to the queue.
        """
        self.require(role_arn, queue_name, "sqs:SendMessage")
        typed = {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}
        self.queue(queue_name).put(body, typed, 0)

    def table(self, name: str) -> MemoryDynamoDBClient | None:
        """Returns the items of a table that is built like Tidewheel's, or None."""
        return self.tables.client(name)

    def item_bytes(self, table_name: str, attributes: dict[str, Any]) -> int:
        """Returns the size of the stored item with this key, for the meter. Returns 0 if there is no item."""
        table = self.table(table_name)
        return 0 if table is None else table.item_bytes(attributes)


def _refuse_mock_aws(*_: object, **__: object) -> None:
    """Replaces `mock_aws().start`, which empties moto's backends.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "a LocalTidewheel is open in this process, and mock_aws would empty it: use clients of the stack's `session` "
        "for S3, DynamoDB and SQS, or close the stack first"
    )


def _untracked(cls: type, *_: Any, **__: Any) -> Any:
    return object.__new__(cls)


def _reset() -> None:
    BackendDict.reset()
    reset_model_data()
