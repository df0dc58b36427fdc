"""Converts a steady stream of messages to a day's runs of flows.

Rates come from the arithmetic of Poisson streams. With `m` events in an average slot, a slot has at least one event
with probability `1 - exp(-m)`.

    program --pack--> urgent queue, or bulk queue --> ingest --> ledger, or direct
    program --plain message--> urgent queue --> ingest --+-- due soon ---> ledger, or direct
                                                         +-- due later --> pack --> bulk queue --> ledger
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidewheel.cost.figures import ASSUMED, FLOWS, added
from tidewheel.cost.workload import DAY_S, Spread, Workload
from tidewheel.model.message import HEADER_BYTES, SQS_MAX_BYTES
from tidewheel.model.pack import MAX_PACK_BYTES
from tidewheel.model.plan import MAX_PART_RAW_BYTES, MAX_PART_SEGMENTS, part_rows_of
from tidewheel.model.settings import TopicSettings
from tidewheel.model.triggers import BULK_WINDOW_S
from tidewheel.storage.plans import MAX_INLINE_MANIFEST_BYTES

CHUNK_BYTES = 64 * 1024
"""Bytes that SQS bills as a request; bytes of a segment."""
URGENT_S = 1800
"""Messages due within half an hour go through the urgent queue (`tidewheel.client.sender`)."""
FORWARD_S = 1020
"""Plain messages due later than this are forwarded (`tidewheel.flows.delivery.adopt`)."""
ENDS_SOON_S = 3600
"""Ledgers that end within an hour are not merged (`tidewheel.flows.maintenance.merge_planning`)."""
MAX_EVENT_BYTES = 6_000_000
"""Maximum size of a Lambda event."""
MERGE_LOOK = 2
"""A merge is considered when half of `max_buckets` ledgers are new."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A day's runs of a flow.

    Attributes:
        flow: its name in `tidewheel.cost.figures.FLOWS`.
        measures: measure -> number.
        messages: that the flow processes.
        more: units beyond those of the table, for larger items than the table's small items.
    """

    flow: str
    measures: Mapping[str, float]
    messages: float = 0.0
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def calls(self) -> float:
        """Calls of the flow's function."""
        return self.requests().get("lambda.Invoke", 0.0)

    def units(self) -> dict[str, float]:
        """Returns the billed units, in the units of `tidewheel.local.meter`."""
        return added([(FLOWS[self.flow].units(self.measures), 1), (self.more, 1)])

    def requests(self) -> dict[str, float]:
        """Returns the requests, "service.Operation" -> number."""
        return FLOWS[self.flow].requests(self.measures)


def any_of(expected: float) -> float:
    """Returns the chance of at least one event, for a Poisson distribution with this mean."""
    return -math.expm1(-expected)


def whole(number: float, size: float) -> float:
    """Returns the average number of units of a size that hold a varying number.

    The result is at least one. The last unit is half full on average.
    """
    return max(1.0, number / size + (1 - 1 / size) / 2)


class Stream:
    """A workload's runs in a day, if messages are sent. Leaves out what is below two percent of nearly every bill.

    Attributes:
        stored_bytes: of a message in S3.
        urgent: share of the messages that the urgent queue brings to a ledger, or directly to queues.
        direct: share of the messages without a ledger.
        dispatches: daily dispatches of a topic, a dispatch for each slot with messages from ledgers.
        merges: daily merges of all topics. Ledgers of the urgent queue end within the hour, so they are never merged.
        large: average ledgers of a topic from the bulk queue.
        small: average ledgers of a topic from the urgent queue.
    """

    def __init__(self, workload: Workload, settings: TopicSettings | None = None, **assumed: float) -> None:
        self.workload, self.settings, self._assumed = workload, settings or TopicSettings(), {**ASSUMED, **assumed}
        self.stored_bytes = ASSUMED["stored_fixed_bytes"] + ASSUMED["stored_share"] * workload.size_bytes
        self.direct = workload.share_within(self.settings.lookahead_s + self.settings.slot_s / 2)
        self.urgent = workload.share_within(URGENT_S)
        if workload.plain:  # all messages of an envelope go the same way
            self.urgent = 1 - (1 - workload.share_within(FORWARD_S)) ** workload.batch
        self._waiting_a_topic = workload.per_day * (1 - self.direct) / workload.topics
        slots = DAY_S / self.settings.slot_s
        self.dispatches = slots * any_of(self._waiting_a_topic / slots)
        self._arrive()
        self._wait()

    def _arrive(self) -> None:
        """Calculates the runs from the clients to the ledgers."""
        sends, self._packs_a_call, urgent_packs, bulk_packs = self._plain() if self.workload.plain else self._packs()
        urgent = self._urgent_ingest(urgent_packs) if urgent_packs else None
        bulk = self._bulk_ingest(bulk_packs) if bulk_packs else None
        self.urgent_ledgers, self.bulk_ledgers = (run.measures["ledger"] if run else 0.0 for run in (urgent, bulk))
        self._arrivals = [*sends, *(run for run in (urgent, bulk) if run)]

    def _wait(self) -> None:
        """Calculates the ledgers that wait, with and without merges."""
        topics, most = self.workload.topics, self.settings.max_buckets
        a_second = self.bulk_ledgers / topics / DAY_S
        merged = a_second * max(0.0, self.workload.longest_s - ENDS_SOON_S) > most
        self.merges = self.bulk_ledgers / (most / MERGE_LOOK) if merged else 0.0
        self.large = max(
            1.0, min(a_second * self.workload.longest_s, self._assumed["live_ledgers"] if merged else math.inf)
        )
        self.small = self.urgent_ledgers / topics * URGENT_S / 2 / DAY_S

    def runs(self) -> list[Runs]:
        """Returns all runs of a day."""
        return [*self._arrivals, *(self._dispatches() if self.dispatches else ()), *self._merges()]

    def _packs(self) -> tuple[list[Runs], float, float, float]:
        """Returns the sends, the urgent packs a call, and daily urgent and bulk packs.

        A batch with both kinds makes two packs. Each poll of the urgent queue that returns packs is a call.
        """
        workload = self.workload
        each = workload.per_day / workload.batch * max(1.0, workload.batch * self.stored_bytes / MAX_PACK_BYTES)
        urgent, bulk = each * (1 - (1 - self.urgent) ** workload.batch), each * (1 - self.urgent**workload.batch)
        packs = urgent + bulk
        more = {"sqs.request": packs * _more(workload.per_day * self.stored_bytes / packs)}
        reads = {"minute": min(workload.topics * DAY_S / 60, packs)}
        sends = [Runs("send", {"call": packs}, more=more), Runs("client", reads)]
        return sends, _polled(urgent, self._assumed["receives_a_second"]), urgent, bulk

    def _plain(self) -> tuple[list[Runs], float, float, float]:
        """Returns the same for plain messages: sent and forwarded, a call, ingested at once, and forwarded packs."""
        per_day, each_bytes = self.workload.per_day, self.workload.size_bytes + self._assumed["plain_bytes"]
        sent = per_day / min(self.workload.batch, SQS_MAX_BYTES // each_bytes)
        a_call, sent_bytes = _polled(sent, self._assumed["plain_receives_a_second"]), per_day / sent * each_bytes
        later, messages = sent * (1 - self.urgent), per_day * (1 - self.urgent)
        calls = later / a_call
        packs = min(later, calls * self.workload.topics)
        more = calls * _more(a_call * sent_bytes) + packs * _more(messages * self.stored_bytes / max(1.0, packs))
        measures = {"call": calls, "ten_packs": calls, "topic": packs}
        sends = Runs("plain", {"call": sent}, more={"sqs.request": sent * _more(sent_bytes)})
        return [sends, Runs("forward", measures, messages, {"sqs.request": more})], a_call, sent * self.urgent, packs

    def _urgent_ingest(self, packs: float) -> Runs:
        """Returns the urgent queue's runs of ingest. A call writes a ledger for each topic with rows for a ledger."""
        workload = self.workload
        messages = workload.per_day * self.urgent
        calls, a_pack, later = packs / self._packs_a_call, messages / packs, 1 - self.direct / self.urgent
        most = calls * workload.topics
        ledgers, direct = (min(packs * (1 - share**a_pack), most) for share in (1 - later, later))
        sends, more = self._sent(direct * workload.subscriptions, messages * (1 - later) * workload.subscriptions)
        measures = {"call": calls, "ten_packs": calls, "ledger": ledgers, "direct": direct, "sends": sends}
        topics = min(packs, most) * (2 if workload.plain else 1)  # plain messages read a topic state twice
        if workload.plain:  # they have no MessageGroupId
            more["sqs.fair"] = -FLOWS["ingest"].asked["ten_packs"].fair * calls
        return Runs("ingest", {**measures, "topic": topics}, messages, more)

    def _bulk_ingest(self, packs: float) -> Runs:
        """Returns the bulk queue's runs of ingest.

        Each poller fills a batch, from its first pack until the window ends or the batch is full.
        """
        topics, pollers = self.workload.topics, self._assumed["batching_pollers"]
        windows = pollers * DAY_S / (BULK_WINDOW_S + pollers * DAY_S / packs)
        messages = self.workload.per_day * (1 - self.urgent)
        calls = max(windows, packs / 10_000, messages * self.stored_bytes * 4 / 3 / MAX_EVENT_BYTES)
        ledgers = calls * topics * any_of(packs / calls / topics)
        tens = max(calls, packs / 10)
        measures = {"call": calls, "ten_packs": tens, "topic": ledgers, "ledger": ledgers}
        more = max(0.0, packs / _polled(packs, self._assumed["receives_a_second"]) - tens)
        return Runs("ingest", measures, messages, {"sqs.request": more})

    def _sent(self, queues: float, messages: float) -> tuple[float, dict[str, float]]:
        """Returns the SendMessageBatch requests for messages to queues, and the units of their further 64 KiB."""
        if not queues:
            return 0.0, {}
        size = self.workload.size_bytes + HEADER_BYTES
        batches = queues * whole(messages / queues, min(10.0, max(1.0, SQS_MAX_BYTES // size)))
        return batches, {"sqs.request": batches * _more(messages / batches * size)}

    def _dispatches(self) -> Iterator[Runs]:
        """Returns the runs of dispatch, which delivers a slot's rows itself if they are few, deliver, and collect."""
        subscriptions, calls = self.workload.subscriptions, self.dispatches * self.workload.topics
        rows = self._waiting_a_topic / self.dispatches
        segments = self._segments(rows)
        raw_bytes = segments * CHUNK_BYTES * self.workload.size_bytes / self.stored_bytes
        deliveries, messages = calls * subscriptions, calls * rows * subscriptions
        measures = {"call": calls, "subscription": deliveries, "armed": calls}
        more = {"dynamodb.read": calls * max(0.0, (self.large + self.small) * self._assumed["bucket_bytes"] / 4096 - 1)}
        small = segments <= MAX_PART_SEGMENTS and raw_bytes <= 2 * MAX_PART_RAW_BYTES
        if small and rows * subscriptions <= self.settings.inline_rows:
            sends, chunks = self._sent(deliveries, messages)
            measures |= {"segment": calls * segments, "sends": sends, "inline": deliveries}
            yield Runs("dispatch", measures, messages, more | chunks)
        else:
            parts = whole(rows, part_rows_of(int(rows), self.settings.part_rows))
            yield Runs("dispatch", measures | {"ten_parts": deliveries * math.ceil(parts / 10)}, more=more)
            each = deliveries * parts
            sends, more = self._sent(each, messages)
            plan_bytes = segments * self._assumed["plan_segment_bytes"]
            is_object = plan_bytes > MAX_INLINE_MANIFEST_BYTES
            more |= {"s3.get": each} if is_object else {"dynamodb.read": each * _more(plan_bytes, 4096)}
            measures = {"call": each, "segment": deliveries * (segments + parts - 1), "sends": sends}
            yield Runs("deliver", measures | {"complete": deliveries}, messages, more)
        yield Runs("record", {"call": deliveries})
        collects = min(DAY_S / self.settings.collect_interval_s * self.workload.topics, calls)
        measures = dict.fromkeys(("call", "again", "checkpoint"), collects) | {"plan": calls, "trash": self.merges}
        ledgers = self.urgent_ledgers + (self.merges or self.bulk_ledgers)
        if self.settings.retention_ms:
            measures |= {"passed": ledgers, "passed_together": collects, "trash": measures["trash"] + collects}
        else:
            measures["bucket"] = ledgers
        yield Runs("collect", measures)

    def _segments(self, rows: float) -> float:
        """Returns the segments with a slot's rows.

        Each ledger with rows has a segment, and each further 64 KiB adds a segment.
        """
        a_slot = self.bulk_ledgers / self.workload.topics * self.settings.slot_s / DAY_S
        ledgers = min(self.large, max(1.0, 2 * a_slot)) if self.workload.spread is Spread.SAME else self.large
        urgent = rows * (self.urgent - self.direct) / (1 - self.direct)
        of_small = self.small * any_of(urgent / self.small) if self.small else 0.0
        return ledgers * any_of((rows - urgent) / ledgers) + of_small + rows * self.stored_bytes / CHUNK_BYTES

    def _merges(self) -> Iterator[Runs]:
        if self.merges:
            taken, waits = self._assumed, self._waiting_a_topic * self.workload.topics
            # The merge job merges topics with too many waiting bytes for a function.
            too_large = self.workload.waiting * self.stored_bytes / self.workload.topics > taken["glue_waiting_bytes"]
            more = {"glue.run": waits * self.stored_bytes / taken["glue_run_bytes"]} if too_large else {}
            sources = self.bulk_ledgers * taken["sources_a_ledger"]
            measures = dict.fromkeys(("call", "output"), self.merges) | {"source": sources}
            yield Runs("merge", measures, waits * taken["rewrites"], more)


def _polled(packs: float, receives_a_second: float) -> float:
    """Returns the packs that a poll returns, by the packs a day and the polls a second."""
    return min(10.0, max(1.0, packs / DAY_S / receives_a_second))


def _more(size_bytes: float, unit_bytes: float = CHUNK_BYTES) -> float:
    """Returns the units billed for an item or a payload beyond the first."""
    return max(0, math.ceil(size_bytes / unit_bytes) - 1)
