"""Converts a steady stream of messages to a day's runs of flows.

Rates come from the arithmetic of Poisson streams. With `m` events in an average slot, a slot has at least one event
with probability `1 - exp(-m)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidewheel.cost.assumptions import Assumptions
from tidewheel.cost.requests import FLOWS, added
from tidewheel.cost.workload import DAY_S, Spread, Workload
from tidewheel.model.message import HEADER_BYTES, SQS_MAX_BYTES
from tidewheel.model.pack import MAX_PACK_BYTES
from tidewheel.model.plan import MAX_PART_RAW_BYTES, MAX_PART_SEGMENTS
from tidewheel.model.settings import TopicSettings
from tidewheel.model.triggers import BULK_WINDOW_S
from tidewheel.storage.plans import MAX_INLINE_MANIFEST_BYTES

CHUNK_BYTES = 64 * 1024
URGENT_S = 1800
"""Messages due within half an hour go through the urgent queue (`tidewheel.client.sender`)."""
ENDS_SOON_S = 3600
"""Ledgers that end within an hour are not merged (`tidewheel.flows.upkeep.merge_planning`)."""
MAX_EVENT_BYTES = 6_000_000
"""Maximum size of a Lambda event."""
SEGMENT_BYTES = 64 * 1024
MERGE_LOOK = 2
"""A merge is considered when half of `max_buckets` ledgers are new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A day's runs of a flow.

    Attributes:
        flow: its name in `tidewheel.cost.requests.FLOWS`.
        measures: measure -> number.
        calls: of the flow's function.
        messages: that the flow processes.
        more: units beyond those of the table, for larger items than the table's small items.
    """

    flow: str
    measures: Mapping[str, float]
    calls: float = 0.0
    messages: float = 0.0
    more: Mapping[str, float] = field(default_factory=dict)

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
    """A workload's runs in a day."""

    def __init__(self, workload: Workload, assumptions: Assumptions, settings: TopicSettings) -> None:
        self.workload, self.assumptions, self.settings = workload, assumptions, settings
        self.stored_bytes = assumptions.stored_bytes(workload.size_bytes)
        self.urgent = self._urgent_share()
        self.direct = workload.share_within(settings.lookahead_s + settings.slot_s / 2)
        self.urgent_packs, self.bulk_packs = self._packs() if workload.per_day else (0.0, 0.0)
        self._urgent = self._urgent_ingest() if self.urgent_packs else Runs(flow="ingest", measures={"ledger": 0.0})
        self._bulk = self._bulk_ingest() if self.bulk_packs else Runs(flow="ingest", measures={"ledger": 0.0})
        # Of all topics. Ledgers of the urgent queue end within the hour, so they are never merged.
        self.urgent_ledgers, self.bulk_ledgers = (each.measures["ledger"] for each in (self._urgent, self._bulk))

    def runs(self) -> list[Runs]:
        """Returns all runs of a day."""
        if not self.workload.per_day:
            return []
        return [*self._sends(), self._urgent, self._bulk, *self._dispatches(), *self._collects(), *self._merges()]

    def _urgent_share(self) -> float:
        """Returns the share of messages that the urgent queue's packs bring to a ledger, or directly to queues."""
        return self.workload.share_within(URGENT_S)

    def _packs(self) -> tuple[float, float]:
        """Returns daily packs through the urgent and the bulk queue. A batch with both kinds makes two packs."""
        batch = self.workload.batch
        sends = self.workload.per_day / batch
        most = max(1.0, batch * self.stored_bytes / MAX_PACK_BYTES)
        return sends * most * (1 - (1 - self.urgent) ** batch), sends * most * (1 - self.urgent**batch)

    def _sends(self) -> Iterator[Runs]:
        packs = self.urgent_packs + self.bulk_packs
        pack_bytes = self.workload.per_day * self.stored_bytes / packs
        more = {"sqs.request": packs * (math.ceil(pack_bytes / CHUNK_BYTES) - 1)}
        yield Runs(flow="send", measures={"call": packs}, more=more)
        minutes = self.assumptions.clients * min(self.workload.topics * DAY_S / 60, packs)
        yield Runs(flow="client", measures={"minute": minutes})

    def _urgent_ingest(self) -> Runs:
        """Returns the urgent queue's runs of ingest.

        Each poll that returns packs is a call. A call writes a ledger for each topic with rows for a ledger.
        """
        packs, workload = self.urgent_packs, self.workload
        a_call = self._packs_a_call(packs)
        calls = packs / a_call
        messages = workload.per_day * self.urgent
        a_pack = messages / packs
        later = 1 - self.direct / self.urgent
        with_rows = packs * (1 - (1 - later) ** a_pack)
        ledgers = min(with_rows, calls * workload.topics)
        with_direct = min(packs * (1 - later**a_pack), calls * workload.topics)
        direct = workload.per_day * self.direct * workload.subscriptions
        queues = with_direct * workload.subscriptions
        batches = queues * self._batches(direct / queues if queues else 0)
        return Runs(
            flow="ingest",
            calls=calls,
            messages=messages,
            measures={
                "call": calls,
                "ten_packs": calls,
                "topic": min(packs, calls * workload.topics),
                "ledger": ledgers,
                "lowered": ledgers * self._lowers(messages * later / ledgers if ledgers else 0),
                "direct": with_direct,
                "sends": batches,
            },
            more={"sqs.request": batches * self._more_chunks(direct / batches if batches else 0)},
        )

    def _bulk_ingest(self) -> Runs:
        """Returns the bulk queue's runs of ingest.

        Each poller fills a batch, from its first pack until the window ends or the batch is full.
        """
        packs, workload = self.bulk_packs, self.workload
        pollers = self.assumptions.batching_pollers
        windows = pollers * DAY_S / (BULK_WINDOW_S + pollers * DAY_S / packs)
        messages = workload.per_day * (1 - self.urgent)
        calls = max(windows, packs / 10_000, messages * self.stored_bytes * 4 / 3 / MAX_EVENT_BYTES)
        ledgers = calls * workload.topics * any_of(packs / calls / workload.topics)
        receives = packs / self._packs_a_poll(packs)
        tens = max(calls, packs / 10)
        return Runs(
            flow="ingest",
            calls=calls,
            messages=messages,
            measures={
                "call": calls,
                "ten_packs": tens,
                "topic": ledgers,
                "ledger": ledgers,
                "lowered": ledgers * self._lowers(messages / ledgers),
            },
            more={"sqs.request": max(0.0, receives - tens)},
        )

    def _packs_a_call(self, packs: float) -> float:
        """Returns the packs in a call of the urgent queue, whose polls are its calls."""
        return self._packs_a_poll(packs)

    def _packs_a_poll(self, packs: float) -> float:
        return min(10.0, max(1.0, packs / DAY_S / self.assumptions.receives_a_second))

    def _lowers(self, rows: float) -> float:
        """Returns the chance that a new ledger's first row is due before all waiting messages."""
        if self.workload.spread is Spread.SAME:
            return 0.0
        return rows / (rows + self.workload.waiting / self.workload.topics)

    def _batches(self, messages: float) -> float:
        """Returns the SendMessageBatch requests for messages to a queue, each of at most ten messages and 1 MiB."""
        size = self.workload.size_bytes + HEADER_BYTES
        return whole(messages, min(10.0, max(1.0, SQS_MAX_BYTES // size)))

    def _more_chunks(self, messages: float) -> float:
        return math.ceil(messages * (self.workload.size_bytes + HEADER_BYTES) / CHUNK_BYTES) - 1 if messages else 0.0

    @property
    def dispatches(self) -> float:
        """Daily dispatches of a topic, a dispatch for each slot with messages from ledgers."""
        slots = DAY_S / self.settings.slot_s
        return slots * any_of(self._a_topic / slots)

    @property
    def _a_topic(self) -> float:
        return self.workload.per_day * (1 - self.direct) / self.workload.topics

    def _lasting(self, less_s: float = 0.0) -> float:
        """Returns the average ledgers of the bulk queue in a topic without merges.

        Args:
            less_s: excludes this last part of each ledger's life.
        """
        reach_s = self.workload.spread.reach_s(self.workload.delay_mean_s)
        return self.bulk_ledgers / self.workload.topics * max(0.0, reach_s - less_s) / DAY_S

    @property
    def merges(self) -> bool:
        """Whether topics have enough ledgers for merges. Ledgers that end within the hour do not count."""
        return self._lasting(ENDS_SOON_S) > self.settings.max_buckets

    @property
    def _large(self) -> float:
        """Average ledgers of a topic from the bulk queue."""
        return max(1.0, min(self._lasting(), self.assumptions.live_ledgers) if self.merges else self._lasting())

    @property
    def _small(self) -> float:
        """Average ledgers of a topic from the urgent queue."""
        return self.urgent_ledgers / self.workload.topics * URGENT_S / 2 / DAY_S

    @property
    def live(self) -> float:
        """Average ledgers of a topic."""
        return self._large + self._small

    def _dispatches(self) -> Iterator[Runs]:
        workload, dispatches = self.workload, self.dispatches
        if not dispatches:
            return
        rows = self._a_topic / dispatches
        segments = self._segments(rows)
        subscriptions = workload.subscriptions
        inline = self._inline(rows, segments)
        parts = 0.0 if inline else whole(rows, self.settings.part_rows)
        total = dispatches * workload.topics
        sends = self._batches(rows) if inline else 0.0
        plan_bytes = segments * self.assumptions.plan_segment_bytes
        more = {
            "dynamodb.write": 2 * (math.ceil(_in_item(plan_bytes) / 1024) - 1),
            "dynamodb.read": max(0.0, self.live * self.assumptions.bucket_bytes / 4096 - 1),
            "sqs.request": sends * subscriptions * self._more_chunks(rows / sends if sends else 0),
        }
        measures = {
            "call": 1.0,
            "subscription": subscriptions,
            "armed": 1.0,
            "segment": segments if inline else 0.0,
            "sends": sends * subscriptions,
            "inline": subscriptions if inline else 0.0,
            "ten_parts": 0.0 if inline else subscriptions * math.ceil(parts / 10),
        }
        yield Runs(
            flow="dispatch",
            calls=total,
            messages=total * rows * subscriptions if inline else 0.0,
            measures={name: total * count for name, count in measures.items()},
            more={name: total * count for name, count in more.items()},
        )
        if not inline:
            yield self._parts(total * subscriptions, rows, parts, segments + parts - 1, plan_bytes)

    def _inline(self, rows: float, segments: float) -> bool:
        """Returns whether a dispatch delivers a slot's rows itself (`tidewheel.flows.delivery.dispatch`)."""
        raw_bytes = segments * SEGMENT_BYTES * self.workload.size_bytes / self.stored_bytes
        few = rows * self.workload.subscriptions <= self.settings.inline_rows
        return few and segments <= MAX_PART_SEGMENTS and raw_bytes <= 2 * MAX_PART_RAW_BYTES

    def _segments(self, rows: float) -> float:
        """Returns the segments with a slot's rows.

        Each ledger with rows has a segment, and each further 64 KiB adds a segment.
        """
        ledgers = self._large
        if self.workload.spread is Spread.SAME:
            ledgers = min(
                ledgers, max(1.0, 2 * self.bulk_ledgers / self.workload.topics * self.settings.slot_s / DAY_S)
            )
        urgent = rows * (self.urgent - self.direct) / (1 - self.direct)
        of_large = ledgers * any_of((rows - urgent) / ledgers)
        of_small = self._small * any_of(urgent / self._small) if self._small else 0.0
        return of_large + of_small + rows * self.stored_bytes / SEGMENT_BYTES

    def _parts(self, deliveries: float, rows: float, parts: float, segments: float, plan_bytes: float) -> Runs:
        sends = self._batches(rows / parts) * parts
        return Runs(
            flow="deliver",
            calls=deliveries * parts,
            messages=deliveries * rows,
            measures={
                "call": deliveries * parts,
                "segment": deliveries * segments,
                "sends": deliveries * sends,
                "complete": deliveries,
            },
            more={
                "sqs.request": deliveries * sends * self._more_chunks(rows / sends),
                "dynamodb.read": deliveries * parts * (math.ceil(_in_item(plan_bytes) / 4096) - 1),
                "s3.get": deliveries * parts * (plan_bytes > MAX_INLINE_MANIFEST_BYTES),
            },
        )

    def _collects(self) -> Iterator[Runs]:
        topics, dispatches = self.workload.topics, self.dispatches
        if not dispatches:
            return
        collects = topics * min(DAY_S / self.settings.collect_interval_s, dispatches)
        merges = self._merges_a_day
        measures = {
            "call": collects,
            "again": collects,
            "checkpoint": collects,
            "plan": topics * dispatches,
            "bucket": self.urgent_ledgers + (merges if self.merges else self.bulk_ledgers),
            "trash": merges,
        }
        yield Runs(flow="collect", calls=0.0, measures=measures)
        # With rare dispatches, the sweep starts the collections.
        if dispatches < DAY_S / self.settings.collect_interval_s:
            yield Runs(flow="sweep", measures={"topic": collects})

    @property
    def _merges_a_day(self) -> float:
        return self.bulk_ledgers / (self.settings.max_buckets / MERGE_LOOK) if self.merges else 0.0

    def _merges(self) -> Iterator[Runs]:
        looks = (self.bulk_ledgers + self.urgent_ledgers) / (self.settings.max_buckets / MERGE_LOOK)
        yield Runs(flow="sweep", measures={"merge": looks, "topic": looks})
        merges = self._merges_a_day
        if not merges:
            return
        topics, taken = self.workload.topics, self.assumptions
        incoming = self._a_topic * topics * self.stored_bytes
        # The merge job merges topics with too many waiting bytes for a function.
        too_large = self.workload.waiting * self.stored_bytes / topics > taken.glue_waiting_bytes
        yield Runs(
            flow="merge",
            calls=merges,
            messages=self._a_topic * topics * taken.rewrites,
            measures={"call": merges, "source": self.bulk_ledgers * taken.sources_a_ledger, "output": merges},
            more={"glue.run": incoming / taken.glue_run_bytes} if too_large else {},
        )


def _in_item(plan_bytes: float) -> float:
    """Returns the bytes of a plan in its item, at least 1. If the manifest is an object, returns 1."""
    return max(1.0, plan_bytes) if plan_bytes <= MAX_INLINE_MANIFEST_BYTES else 1.0
