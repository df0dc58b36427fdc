"""Does the work of the handlers under `functions/` on ports in memory, with the same partial failures.

A handler parses an event, calls flows and reports. Here there is no event: the messages are passed as they are, in the
same groups. Failures that a handler would only log are stored in `logged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidewheel.errors import CorruptPack
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import NamedPack, groups, ingest_group
from tidewheel.flows.delivery.work import do_job
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.runs import MergeSize
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.merge import in_process, merge
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.local.event_source import Failed
from tidewheel.local.pump import Failure
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.job import job_of
from tidewheel.model.pack import PACK_ATTRIBUTE, Pack, decode_pack
from tidewheel.model.settings import MAX_FUNCTION_S


class MemoryFunctions:
    """Runs the five functions, each in one method.

    Attributes:
        logged: the failures that a handler logs before it continues, oldest first.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.logged: list[Failure] = []

    def ingest(self, batch: Sequence[MemoryMessage]) -> Failed:
        """As `functions/ingest/handler.py`. Calls the flow once for each topic and generation."""
        failed: dict[str, Exception] = {}
        for packs in groups(self._readable(batch, failed)):
            failed |= self._ingest_group(packs)
            del packs
        return failed

    def _readable(self, batch: Sequence[MemoryMessage], failed: dict[str, Exception]) -> Iterator[NamedPack]:
        for message in batch:
            try:
                yield message.id, self._read(message)
            except Exception as error:
                failed[message.id] = error

    def _ingest_group(self, packs: list[NamedPack]) -> dict[str, Exception]:
        topic = packs[0][1].topic
        found = ingest_group(packs, lambda some: ingest(self._ports, topic, some), lambda: True)
        return {name: left.error for left in found for name in left.names if left.error is not None}

    def _read(self, message: MemoryMessage) -> Pack:
        data = message.message_attributes.get(PACK_ATTRIBUTE, {}).get("BinaryValue")
        if data is None:
            raise CorruptPack(f"no Binary attribute {PACK_ATTRIBUTE!r}")
        return decode_pack(data, self._ports.clock.now_ms())

    def deliver(self, batch: Sequence[MemoryMessage]) -> Failed:
        """As `functions/deliver/handler.py`. Does each job by itself."""
        failed: dict[str, Exception] = {}
        for message in batch:
            try:
                job = job_of(message.body)
                done = do_job(self._ports, job)
            except Exception as error:
                failed[message.id] = error
                continue
            for failure in () if done is None else done.failures:
                self._log("deliver", job, failure)
        return failed

    def dispatch(self, topic: str) -> None:
        """As `functions/dispatch/handler.py`. Dispatches a topic, and collects it when due."""
        done = dispatch(self._ports, topic)
        if done is None:
            return
        for failure in done.failures:
            self._log("dispatch", topic, failure)
        if done.collect:
            collect(self._ports, topic)

    def sweep(self) -> None:
        """As `functions/sweep/handler.py`."""
        for what, error in sweep(self._ports).failures.items():
            self._log("sweep", what, error)

    def compact(self, topic: str, size: MergeSize) -> None:
        """As `functions/compact/handler.py`. Also does large merges, which on AWS run as a Glue job."""
        merged = merge(self._ports, topic, in_process(self._ports.objects), lease_s=MAX_FUNCTION_S, largest=size)
        for error in [] if merged is None else merged.skipped:
            self._log("compact", topic, error)

    def _log(self, function: str, event: Any, error: Exception) -> None:
        self.logged.append(Failure(function=function, at_ms=self._ports.clock.now_ms(), event=event, error=error))
