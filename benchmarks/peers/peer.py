"""The peers, and how each is set: what a reader must know to call a comparison fair."""

from __future__ import annotations

from enum import StrEnum

from benchmarks.peers.dynamodb_poller import AHEAD, SQS_MAX_DELAY_S
from benchmarks.peers.redis_poller import BATCH, LEASE_S
from benchmarks.peers.schedules import LATEST_MS
from benchmarks.peers.tidewheel_stack import BATCH as SENT_AT_ONCE
from benchmarks.peers.tidewheel_stack import MAX_SKEW_MS


class Peer(StrEnum):
    """A way of delaying messages that is run here."""

    TIDEWHEEL = "tidewheel"
    REDIS = "redis"
    DYNEIN = "dynein"
    AHEAD = "ahead"
    SCHEDULES = "schedules"


NAMES = {
    Peer.TIDEWHEEL: "Tidewheel",
    Peer.REDIS: "Redis sorted set, polled",
    Peer.DYNEIN: "DynamoDB, polled as Dynein does",
    Peer.AHEAD: "DynamoDB, a function each minute",
    Peer.SCHEDULES: "A schedule a message",
}

SETTINGS = {
    Peer.TIDEWHEEL: (
        f"The local stack with its own functions: default slots, one topic, one subscription, {SENT_AT_ONCE} messages "
        f"a send; {MAX_SKEW_MS} ms in case clocks differ, as deployed. Its bill is `tidewheel cost`: all told, "
        "with metrics, logs and traces, which no other bill has."
    ),
    Peer.REDIS: (
        "Times in a sorted set, bodies in a hash, append-only file written to disk each second. A poll each second, in "
        f"one Lua script; what is claimed comes again after {LEASE_S} s unless it is acknowledged; {BATCH} messages a "
        "round trip. The poller does the work itself, so no queue is paid for; a task to run it is, and costs are "
        "given with it and without."
    ),
    Peer.DYNEIN: (
        f"An item a message under shard and time. Due within {SQS_MAX_DELAY_S // 60} minutes: straight to SQS with its "
        "delay. One shard, asked each second; each item taken and deleted by conditional writes. SQS in tens, where "
        "Dynein sends and takes one by one."
    ),
    Peer.AHEAD: (
        "The same table without a service: the client puts its items itself, and a function that a schedule calls "
        f"every {AHEAD.interval_s} s asks for what is due within {AHEAD.lookahead_s} s, with SQS's delay for the rest. "
        "It sends, then deletes: two writes a message, the least there can be. A function that dies between the two "
        "sends again a minute later; one that must not has to claim each item first, a third write."
    ),
    Peer.SCHEDULES: (
        "A one-time schedule that sends the body to SQS and deletes itself, no flexible window. When it fires is taken "
        f"from its documentation: within {LATEST_MS // 1000} s."
    ),
}
"""Peer -> what was set."""
