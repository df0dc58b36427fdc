"""Defines the triggers of functions in the deployed stack: queues, the sweep's schedule, and retries.

The CDK's constructs, the stack in memory and the cost model use these settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SWEEP_INTERVAL_S = 300
"""The time between two sweeps, unless the environment has another."""

RETRIES: Mapping[str, int] = {"dispatch": 2, "sweep": 0, "compact": 0}
"""Function -> Lambda's retries of an asynchronous call that failed. The next sweep does the work of a failed sweep."""

UNKNOWN_WAIT_S = 4 * 3600
"""How long a pack for an unknown topic, or of a newer release, waits for a rebuild or a deployment.

After this time, the pack is refused. A pack that no wait can help is refused at its first receive.
"""

RECEIVES = 1000
"""The receives after which a pack is a dead letter, which people redrive. SQS's maximum.

Only an outage of S3, DynamoDB or Lambda takes so many: 33 hours of the urgent queue, and a week of the bulk queue. A
person must act only after a longer outage.
"""

RETENTION_S = 14 * 86_400
"""The longest that SQS keeps a message. A tombstone outlives two such stays (28 days)."""

INGEST_TIMEOUT_S = 60
"""The ingest function's time-out."""

BULK_WINDOW_S = 300
"""The longest that Lambda waits for a batch of the bulk queue to fill. A long wait makes few, large ledgers."""
KEYED_URGENT_MS = 3_600_000
"""Messages with keys that are due within this time go to the urgent queue.

A key takes effect at ingestion, and a debounce of an hour must not wait five minutes for ingestion.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQueue:
    """Describes a queue and the reads of the function.

    Attributes:
        visibility_s: The time after which a failed message comes again.
        receives: The receives after which a message is a dead letter.
        batch_size: The most messages in a call.
        window_s: The longest that Lambda waits for a batch to fill.
    """

    visibility_s: int
    receives: int
    batch_size: int
    window_s: float = 0


def bulk_queue(window_s: float = BULK_WINDOW_S) -> SourceQueue:
    """Returns the bulk queue, for all packs without urgency.

    A message is invisible for six times the function's time-out plus the window, as AWS recommends. The messages are
    due in half an hour or later (`tidewheel.client.sender.URGENT_MS`). A retry that waits for the window again is still
    in time for a ledger.
    """
    visibility_s = 6 * INGEST_TIMEOUT_S + math.ceil(window_s)
    return SourceQueue(visibility_s=visibility_s, receives=RECEIVES, batch_size=10_000, window_s=window_s)


URGENT_QUEUE = SourceQueue(visibility_s=2 * INGEST_TIMEOUT_S, receives=RECEIVES, batch_size=10)
"""The queue of packs with messages that are due soon.

A message is invisible for twice the function's time-out. AWS recommends six times, and requires once. A batch whose
call died comes again after this time, so a crash makes its messages late by this time. A small batch takes much less
than the time-out.
"""

WORK_QUEUE = SourceQueue(visibility_s=180, receives=10, batch_size=1)
"""The queue of deliveries' parts and parks.

A message is invisible for three times the function's time-out, longer than a lease. A failed part comes again after
this time. A plan is handed out `lookahead_s` before its first message is due. With the default, two more tries are in
time. Ten receives are half an hour of tries. After the same time (`redrive_s`), the sweep enqueues the part again in
any case.
"""
