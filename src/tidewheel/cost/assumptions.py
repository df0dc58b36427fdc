"""Holds the assumptions of a bill, some measured elsewhere and some not measurable here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Assumed figures behind every bill.

    Attributes:
        stored_fixed_bytes: stored bytes of a message without its body. These are times and the id, which has ten random
            bytes.
        stored_share: compressed bytes for each byte of a body. A real message of 338 B takes 119 B with
            `stored_fixed_bytes`. `benchmarks/bench_ledger.py` measures 113 to 125 B.
        batching_pollers: pollers of a queue that fill a batch each, in parallel. Lambda starts with five. A batch for
            each poller is the expensive case.
        receives_a_second: packs a second above which a poll returns more than one pack.
        plain_receives_a_second: the same for plain messages. Each of five pollers is busy for a tenth of a second with
            a call. Fewer messages in a call are the expensive case.
        idle_poll_s: duration of Lambda's poll of an empty queue.
        clients: number of sending clients, each of which reads a topic's state once a minute.
        live_ledgers: average ledgers of a topic with merges; `benchmarks/bench_cost.py`.
        sources_a_ledger: how often a ledger written by ingest, with its successors, is the source of a merge.
        rewrites: how often merges rewrite a message; `benchmarks/bench_cost.py`.
        plan_segment_bytes: bytes of a plan's item for each segment.
        bucket_bytes: bytes of the bucket of a live ledger, which the table stores and each dispatch reads.
        claim_bytes: stored bytes of a message's claim, with DynamoDB's 100 for each item.
        glue_waiting_bytes: waiting bytes of a topic above which some merges are too large for the function. In the
            policy's simulation (`tests/unit/test_merge.py`), no merge was too large up to 1.7 GB.
        glue_run_bytes: incoming bytes for each of these large merges; 0.7 to 5 GB in the same simulation.
        log_bytes: log bytes of a call: three lines of Lambda's, a line of ours, a record.
        forward_log_bytes: the same for a call that only forwards plain messages. Our line and record have 571 bytes.
    """

    stored_fixed_bytes: float = 31.0
    stored_share: float = 0.26
    batching_pollers: int = 5
    receives_a_second: float = 10.0
    plain_receives_a_second: float = 50.0
    idle_poll_s: float = 20.0
    clients: int = 1
    live_ledgers: float = 64.0
    sources_a_ledger: float = 1.15
    rewrites: float = 2.0
    plan_segment_bytes: float = 30.0
    bucket_bytes: float = 1000.0
    claim_bytes: float = 200.0
    glue_waiting_bytes: float = 2.0 * 1024**3
    glue_run_bytes: float = 0.75 * 1024**3
    log_bytes: float = 2000.0
    forward_log_bytes: float = 1000.0

    def stored_bytes(self, size_bytes: float) -> float:
        """Returns the bytes stored in S3 for a message with a body of this size."""
        return self.stored_fixed_bytes + self.stored_share * size_bytes
