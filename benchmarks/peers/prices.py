"""Prices that the product does not need: memory by the hour, and a process that always runs.

US dollars, us-east-1, on demand, without free tiers, as AWS's price list had them on `LISTED`. All others are those of
`tidewheel.cost.prices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidewheel.cost.prices import DAYS_A_MONTH
from tidewheel.errors import InvalidValue

LISTED = "2026-10-02"
HOURS_A_MONTH = 24 * DAYS_A_MONTH

RESERVED_SHARE = 0.25
"""Of a node's memory, kept free for what is not data, as ElastiCache does by default.
https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/redis-memory-management.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An ElastiCache node.

    Attributes:
        name: its type.
        memory_bytes: its `maxmemory`.
        dollars_an_hour: with Valkey, which is a fifth cheaper than with Redis.
    """

    name: str
    memory_bytes: int
    dollars_an_hour: float


NODES = (
    Node(name="cache.t4g.micro", memory_bytes=536_870_912, dollars_an_hour=0.0128),
    Node(name="cache.t4g.small", memory_bytes=1_471_026_299, dollars_an_hour=0.0256),
    Node(name="cache.t4g.medium", memory_bytes=3_317_862_236, dollars_an_hour=0.052),
    Node(name="cache.r7g.large", memory_bytes=14_037_181_030, dollars_an_hour=0.1752),
    Node(name="cache.r7g.xlarge", memory_bytes=28_261_849_702, dollars_an_hour=0.3496),
    Node(name="cache.r7g.2xlarge", memory_bytes=56_711_183_565, dollars_an_hour=0.6984),
    Node(name="cache.r7g.4xlarge", memory_bytes=113_609_865_216, dollars_an_hour=1.396),
)
"""From small to large. Data is lost with a node, unless there is a replica.

Prices: https://aws.amazon.com/elasticache/pricing/
`maxmemory`: https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ParameterGroups.Engine.html
"""

DURABLE_NODES = (
    Node(name="cache.m6g.large", memory_bytes=6_854_542_746, dollars_an_hour=0.1192),
    Node(name="cache.r6g.large", memory_bytes=14_037_181_030, dollars_an_hour=0.1648),
    Node(name="cache.r6g.xlarge", memory_bytes=28_261_849_702, dollars_an_hour=0.3288),
    Node(name="cache.r6g.2xlarge", memory_bytes=56_711_183_565, dollars_an_hour=0.6568),
    Node(name="cache.r6g.4xlarge", memory_bytes=113_609_865_216, dollars_an_hour=1.3136),
)
"""Those of which two keep a log in several availability zones: asynchronous writes cost nothing more.
https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Durability.Limitations.html"""

TASK_DOLLARS_AN_HOUR = 0.25 * 0.03238 + 0.5 * 0.00356
"""A poller: the smallest Fargate task on Arm, a quarter of a vCPU and 0.5 GB. https://aws.amazon.com/fargate/pricing/"""


def node_for(used_bytes: float, nodes: Sequence[Node] = NODES) -> Node:
    """Returns the smallest node that holds so many bytes of data.

    Args:
        used_bytes: by Redis's own account.
        nodes: among which, from small to large.

    Raises:
        InvalidValue: no node of the list does.
    """
    for node in nodes:
        if used_bytes <= node.memory_bytes * (1 - RESERVED_SHARE):
            return node
    raise InvalidValue("used_bytes", used_bytes, f"one {nodes[-1].name} does not hold it: divide it among several")
