"""What a bill takes for granted: figures that were measured elsewhere, and those that nothing here can measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Figures behind every bill.

    Attributes:
        stored_fixed_bytes: stored bytes of a message without a body: its id, of which ten bytes are random, and times.
        stored_share: stored bytes of a byte of its body, compressed. With `stored_fixed_bytes`: 119 B for the 338 B
            of a real message (`benchmarks/bench_ledger.py`: 113 to 125).
        batching_pollers: pollers of a queue that fill a batch each, side by side. Lambda starts with five; that each
            makes a batch of its own is the dear case.
        receives_a_second: packs a second above which a poll brings more than one.
        idle_poll_s: how long Lambda's poll of an empty queue takes.
        clients: that send, each of which reads a topic's state once a minute.
        live_ledgers: that a topic with merges has on average; `benchmarks/bench_cost.py`.
        sources_a_ledger: how often a ledger, as ingest writes it, is the source of a merge, its successors included.
        rewrites: how often a message is rewritten by merges; likewise.
        plan_segment_bytes: what a plan's item has for each segment.
        bucket_bytes: what a dispatch reads for each live ledger.
        glue_waiting_bytes: what waits in a topic from which on some of its merges are too large for the function; by
            the policy's simulation (`tests/unit/test_merge.py`), none was up to 1.7 GB.
        glue_run_bytes: what comes in for each of them; likewise: 0.7 to 5 GB.
        log_bytes: what a call logs: Lambda's three lines, one of ours, one of metrics.
        metrics: custom metrics that have values while messages flow and nothing is wrong: accepted, ledgers, planned,
            delivered, lateness, requests, backlog.
        traced_share: calls beyond one a second that X-Ray samples.
    """

    stored_fixed_bytes: float = 31.0
    stored_share: float = 0.26
    batching_pollers: int = 5
    receives_a_second: float = 10.0
    idle_poll_s: float = 20.0
    clients: int = 1
    live_ledgers: float = 64.0
    sources_a_ledger: float = 1.15
    rewrites: float = 2.0
    plan_segment_bytes: float = 30.0
    bucket_bytes: float = 1000.0
    glue_waiting_bytes: float = 2.0 * 1024**3
    glue_run_bytes: float = 0.75 * 1024**3
    log_bytes: float = 2000.0
    metrics: int = 7
    traced_share: float = 0.05

    def stored_bytes(self, size_bytes: float) -> float:
        """Returns what S3 holds for a message with a body of this size."""
        return self.stored_fixed_bytes + self.stored_share * size_bytes
