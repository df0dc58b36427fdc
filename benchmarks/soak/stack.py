"""The service in memory with what a soak needs: triggers that can stand still, and an eye on the ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from benchmarks.soak.watch import Forwarding, Watch, with_ports
from tidewheel.flows.ports import Ports
from tidewheel.local import MemoryTidewheel
from tidewheel.local.event_source import EventSource, Failed
from tidewheel.memory import MemoryService
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.triggers import SWEEP_INTERVAL_S, SourceQueue
from tidewheel.storage.checks import MOST_DUE, Checks, Due

MAX_SKEW_MS = 100
"""As deployed: the setting's default."""
LATE_MS = 1000 + MAX_SKEW_MS
"""How late a copy may be: SQS's delays are whole seconds, rounded up, with room for the skew."""
SWEEP_MS = SWEEP_INTERVAL_S * 1000
URGENT, BULK, WORK = "urgent", "bulk", "work"

Tamper = Callable[[MemoryService], MemoryService]
"""Breaks something on purpose, to show that a check sees it."""


class StandsStill(Exception):
    """This function was told not to run."""


class Gate(EventSource):
    """An event source mapping that can be disabled: its queue keeps what comes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.disabled = False

    def next_ms(self) -> int | None:
        """As of the source; None, never, while it is disabled."""
        return None if self.disabled else super().next_ms()


class _Sweepable(Forwarding):
    """The due checks, on which no sweep begins while the stack's sweep stands still."""

    def __init__(self, checks: Checks, stack: SoakStack) -> None:
        super().__init__(checks)
        self._stack = stack

    def due(self, now_ms: int, failed: dict[str, Exception] | None = None, most: int = MOST_DUE) -> Due:
        """What a sweep asks first."""
        if self._stack.no_sweep:
            raise StandsStill("sweep")
        return cast("Due", self._real.due(now_ms, failed, most))


class SoakStack(MemoryTidewheel):
    """The whole service in memory, as deployed: skew 100 ms, window 300 s.

    Args:
        tamper: breaks something on purpose; None: nothing.

    Attributes:
        watch: what the functions asked of their ports.
        no_sweep: whether every sweep fails, with StandsStill.
        ordered: what functions may fail with, since the scenario makes them.
    """

    _event_source = Gate

    def __init__(self, *, tamper: Tamper | None = None) -> None:
        self.watch = Watch()
        self.no_sweep = False
        self.ordered: set[type[Exception]] = {StandsStill}
        self._gates: list[Gate] = []

        def wrap(service: MemoryService) -> Ports:
            watched = self.watch.over(with_ports(service, checks=_Sweepable(service.checks, self)))
            return watched if tamper is None else tamper(watched)

        super().__init__(max_skew_ms=MAX_SKEW_MS, wrap=wrap)

    def set_ingest(self, *, running: bool) -> None:
        """Enables or disables the event source mappings of ingest."""
        for gate in self._gates:
            if gate.function == "ingest":
                gate.disabled = not running

    def dead_letters(self) -> int:
        """Messages that the service gave up: in its dead-letter queues, and refused by SQS for good."""
        queues = [self.queue(f"{self.stack_name}_{name}-dead") for name in (URGENT, BULK, WORK)]
        queues.append(self.service.queues.refused_queue)
        return sum(len(queue.everything) for queue in queues)

    def source_depth(self) -> int:
        """Messages in the ingest queues and the work queue."""
        return sum(len(self.queue(f"{self.stack_name}_{name}").everything) for name in (URGENT, BULK, WORK))

    def trouble(self) -> list[str]:
        """Failures of functions that nobody ordered, as texts."""
        found = [*self.failures, *self.logged]
        return [str(each) for each in found if not isinstance(each.error, tuple(self.ordered))]

    def _source(self, name: str, settings: SourceQueue) -> EventSource:
        """A deployed mapping with a gate, and with the watch told where a call begins."""
        gate = super()._source(name, settings)
        assert isinstance(gate, Gate)
        run = gate.run

        def seen(batch: Sequence[MemoryMessage]) -> Failed:
            self.watch.begin(gate.function, sum(message.size_bytes for message in batch))
            return run(batch)

        gate.run = seen
        self._gates.append(gate)
        return gate
