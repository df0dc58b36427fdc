"""What was not measured here, because it does not run on this machine or only AWS can say it, with its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that others say.

    Attributes:
        about: of whom; empty: of the one before.
        says: what, in a sentence.
        source: where.
    """

    about: str
    says: str
    source: str


CRASHES = (
    Fact(
        about="Redis, append-only file",
        says="written to disk each second: a machine that dies loses up to a second of writes",
        source="https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/",
    ),
    Fact(
        about="ElastiCache, one node",
        says="all data, if the node fails; an append-only file cannot be set on Valkey, nor on Redis since 2.8.22",
        source="https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Replication.html",
    ),
    Fact(
        about="ElastiCache, with a replica",
        says="what had not reached the replica when the primary failed: replication is asynchronous",
        source="https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Replication.html",
    ),
    Fact(
        about="ElastiCache for Valkey, durable",
        says="nothing with synchronous writes, up to 10 s of writes with asynchronous ones, which cost nothing more; "
        "it needs a replica, and nodes of a `large` size",
        source="https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Durability.Options.html",
    ),
    Fact(
        about="DynamoDB, SQS, S3, EventBridge Scheduler",
        says="nothing that was acknowledged: each keeps it in several availability zones. A poller that dies between "
        "claim and delivery sends late, once what it claimed is set back",
        source="https://github.com/airbnb/dynein",
    ),
)
"""What a crash loses."""

OTHERS = (
    Fact(
        about="Step Functions, an execution a message",
        says="a Wait and a SendMessage are two transitions at $25 a million each: $50, and SQS",
        source="https://aws.amazon.com/step-functions/pricing/",
    ),
    Fact(
        about="",
        says="an execution lasts a year at most; 1,000,000 are open at a time by default",
        source="https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html",
    ),
    Fact(
        about="EventBridge Scheduler",
        says="14,000,000 invocations a month are free",
        source="https://aws.amazon.com/eventbridge/pricing/",
    ),
    Fact(
        about="",
        says="10,000,000 schedules a Region, 5,000 creations and 1,000 "
        "invocations a second in us-east-1, all adjustable",
        source="https://docs.aws.amazon.com/scheduler/latest/UserGuide/scheduler-quotas.html",
    ),
    Fact(
        about="Apache Pulsar",
        says="any delay, by ticks of 1 s by default; the default tracker holds an index in the broker's memory; shared "
        "and key-shared subscriptions only",
        source="https://pulsar.apache.org/docs/concepts-messaging/#delayed-message-delivery",
    ),
    Fact(
        about="Apache RocketMQ 5",
        says="any time up to 24 h (proxy) or 3 days (broker) by default; 1 s by default",
        source="https://rocketmq.apache.org/docs/featureBehavior/02delaymessage",
    ),
)
"""Others that were not run."""
