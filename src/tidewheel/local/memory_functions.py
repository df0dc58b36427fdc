"""Does the work of the handlers under `functions/` on ports in memory, with the same partial failures.

A handler parses an event, calls flows and reports. Here there is no event: the messages are passed as they are, in the
same groups. Failures that a handler would only log are stored in `logged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tidewheel.errors import HeldTooLong, InvalidValue
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import NamedPack, groups, ingest_group, pack_of
from tidewheel.flows.delivery.refusing import refuse, refuse_hopeless, refuse_some
from tidewheel.flows.delivery.work import do_job, job_in
from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.runs import MergeSize
from tidewheel.flows.upkeep.collect import collect
from tidewheel.flows.upkeep.merge import in_process, merge
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.local.event_source import Failed
from tidewheel.local.pump import Failure
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.checked_clock import begin_invocation, unchecked_ms
from tidewheel.model.pack import Pack
from tidewheel.model.refused import QueuedMessage
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
        begin_invocation(self._ports.clock)
        messages = {each.id: _queued(each) for each in batch}
        failed: dict[str, Exception] = {}
        for packs, _ in groups(self._readable(messages, failed)):
            topic = packs[0][1].topic

            def refuse_named(name: str, pack: Pack, error: Exception) -> None:
                refuse_some(self._ports, messages[name], pack, error)
                self._log("ingest", name, error)

            for left in ingest_group(packs, partial(ingest, self._ports, topic), refuse_named, lambda: True):
                assert left.error is not None
                self._settle([messages[name] for name in left.names], left.error, failed)
            del packs
        return failed

    def _readable(self, messages: Mapping[str, QueuedMessage], failed: dict[str, Exception]) -> Iterator[NamedPack]:
        for message in messages.values():
            try:
                yield message.id, pack_of(message)
            except Exception as error:
                self._settle([message], error, failed)

    def _settle(self, messages: Sequence[QueuedMessage], error: Exception, failed: dict[str, Exception]) -> None:
        done = refuse_hopeless(self._ports, messages, error, lambda: True)
        for id, unrefused in [*done.failures, *((each.id, error) for each in done.refused)]:
            self._log("ingest", id, unrefused)
        failed.update((each.id, error) for each in done.left)

    def deliver(self, batch: Sequence[MemoryMessage]) -> Failed:
        """As `functions/deliver/handler.py`. Does each job by itself."""
        begin_invocation(self._ports.clock)
        failed: dict[str, Exception] = {}
        for message in batch:
            try:
                try:
                    job = job_in(message.body)
                except InvalidValue as error:
                    refuse(self._ports, _queued(message), f"not a job: {error.field}: {error.advice}")
                    self._log("deliver", message.id, error)
                    continue
                try:
                    done = do_job(self._ports, job)
                except HeldTooLong as error:
                    refuse(self._ports, _queued(message), str(error))
                    self._log("deliver", message.id, error)
                    continue
            except Exception as error:
                failed[message.id] = error
                continue
            for failure in () if done is None else done.failures:
                self._log("deliver", job, failure)
        return failed

    def dispatch(self, topic: str) -> None:
        """As `functions/dispatch/handler.py`. Dispatches a topic, and collects it when due."""
        begin_invocation(self._ports.clock)
        done = dispatch(self._ports, topic)
        if done is None:
            return
        for failure in done.failures:
            self._log("dispatch", topic, failure)
        if done.collect:
            collect(self._ports, topic)

    def sweep(self) -> None:
        """As `functions/sweep/handler.py`."""
        begin_invocation(self._ports.clock)
        for what, error in sweep(self._ports).failures.items():
            self._log("sweep", what, error)

    def compact(self, topic: str, size: MergeSize) -> None:
        """As `functions/compact/handler.py`. Also does large merges, which on AWS run as a Glue job."""
        begin_invocation(self._ports.clock)
        merged = merge(self._ports, topic, in_process(self._ports.objects), lease_s=MAX_FUNCTION_S, largest=size)
        for error in [] if merged is None else merged.skipped:
            self._log("compact", topic, error)

    def _log(self, function: str, event: Any, error: Exception) -> None:
        self.logged.append(Failure(function=function, at_ms=unchecked_ms(self._ports.clock), event=event, error=error))


def _queued(message: MemoryMessage) -> QueuedMessage:
    """Returns a message as a function receives it. The queue's ARN is its name's, as receipt handles begin with it."""
    assert message.receipt_handle is not None
    return QueuedMessage(
        id=message.id,
        body=message.body,
        attributes=message.message_attributes,
        sent_at_ms=message.sent_at_ms,
        receives=message.receive_count,
        queue_arn=message.receipt_handle.partition("/")[0],
    )
