"""Messages of another program in the service's own queues. Each is refused in one call, with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.faults import FaultyPorts
from tests.simulation.interleaving import Task
from tests.simulation.promises import Violation
from tests.simulation.world import World
from tidewheel.errors import NewerRelease, UnknownTopic
from tidewheel.local import MemoryTidewheel
from tidewheel.local.memory_functions import MemoryFunctions
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.checksum import sealed
from tidewheel.model.pack import PACK_ATTRIBUTE

_OWNER = {"topic": "orders", "subscription": "audit", "generation": "x"}
_TO_INGEST: tuple[Mapping[str, Mapping[str, Any]], ...] = (
    {},
    {"pack": {"DataType": "String", "StringValue": "hello"}},
    {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": b""}},
    {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": b"hello, world"}},
    {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": sealed(b"\x01hello")}},
    {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": sealed(b"\x09of a newer release")}},
)
_TO_DELIVER = (
    "hello",
    "{}",
    "[]",
    json.dumps({**_OWNER, "plan": "1", "part": 0}),
    json.dumps({**_OWNER, "plan": 1, "part": -1}),
    json.dumps({**_OWNER, "park": "../../x"}),
    json.dumps({**_OWNER, "aside": "x", "tries": True}),
    json.dumps({**_OWNER, "hold": "no base64", "since": 7}),
    json.dumps({**_OWNER, "hold": "aGVsbG8=", "since": 7}),
)
_STACK = MemoryTidewheel()
"""Has the settings and the queues' names."""
_MAY_CALL = {"queues.refuse", "topic_states.read", "topic_states.existing", "objects.put"}
_AGAIN_MS = 3_600_000
_WAITS = (NewerRelease, UnknownTopic)
"""What a deployment may end. After some hours it is refused, too."""


@dataclass(slots=True, kw_only=True, eq=False)
class Strange:
    """A message of another program.

    Attributes:
        to_ingest: whether it is in the ingest queue, or else in the work queue.
    """

    message: MemoryMessage
    to_ingest: bool
    visible_ms: int


class Strangers:
    """The messages of other programs in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: list[Strange] = []
        self._number = 0

    @property
    def random(self) -> Random:
        """The run's source of chance."""
        return self.world.random

    def put(self) -> None:
        """Puts a message into a queue."""
        self._number += 1
        to_ingest, now_ms = self.random.random() < 0.5, self.world.now_ms
        message = MemoryMessage(
            id=f"strange-{self._number}",
            body="hello" if to_ingest else self.random.choice(_TO_DELIVER),
            message_attributes=self.random.choice(_TO_INGEST) if to_ingest else {},
            size_bytes=100,
            arrival=self._number,
            sent_at_ms=now_ms,
            ready_at_ms=now_ms,
            visible_at_ms=now_ms,
            receipt_handle="queue/1",
        )
        self.world.note(f"{message.id} for {'ingest' if to_ingest else 'deliver'}: {message.body}")
        self.waiting.append(Strange(message=message, to_ingest=to_ingest, visible_ms=now_ms))

    def starts(self, limit_ms: int) -> list[Callable[[], None]]:
        """Returns a start of a function for each receivable message."""
        due = [each for each in self.waiting if each.visible_ms <= self.world.now_ms]
        return [lambda each=each: self._receive(each, limit_ms) for each in due]  # type: ignore[misc]

    def _receive(self, strange: Strange, limit_ms: int) -> None:
        strange.visible_ms = self.world.now_ms + _AGAIN_MS
        strange.message.receive_count += 1
        answered: list[bool] = []

        def call(ports: FaultyPorts) -> None:
            functions = MemoryFunctions(ports, _STACK._settings)  # type: ignore[arg-type]
            function, queue = ("ingest", "urgent") if strange.to_ingest else ("deliver", "work")
            failed = functions.batch(function, _STACK.queue(f"tidewheel_{queue}").arn, [strange.message])
            errors = [*failed.values(), *(each.error for each in functions.logged)]
            answered.append(not failed)
            for error in failed.values():
                if not isinstance(error, _WAITS):
                    raise errors[-1]

        def ended(task: Task) -> None:
            about = strange.message.id
            if not set(task.calls) <= _MAY_CALL:
                raise Violation(f"{about} made a function call {sorted(set(task.calls) - _MAY_CALL)}", "", about)
            if answered == [True]:
                self.waiting.remove(strange)
                if "queues.refuse" not in task.calls:
                    raise Violation(f"{about} was acknowledged, and not refused", "", about)
                self.world.count("refused: another program's message")

        self.world.start(f"strange {strange.message.id}", call, limit_ms=limit_ms, ended=ended)

    def check(self) -> None:
        """Checks that no message is left.

        Raises:
            Violation: one still comes again.
        """
        for each in self.waiting:
            raise Violation(f"{each.message.id} is still in its queue", "", each.message.id)
