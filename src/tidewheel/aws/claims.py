"""Records which stack resources declare a topic or subscription created by another resource.

A resource that adopts an existing topic or subscription claims it, and releases the claim when the resource is
deleted. The resource that created the topic or subscription checks for claims before it deletes. So a topic that
moves to another stack survives when the old stack drops it.

    claim    T#<topic>    CLAIM#<subscription, or nothing>#<owner>
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidewheel.storage.layout import claim_key, claims_prefix, topic_partition
from tidewheel.storage.table import Table
from tidewheel.storage.writes import Put, key_item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoClaims:
    """The claims of one service.

    Args:
        client: boto3's DynamoDB client.
        table: the table's name.
    """

    def __init__(self, client: DynamoDBClient, *, table: str) -> None:
        self._table = Table(client, table)

    def put(self, topic: str, subscription: str | None, owner: str) -> None:
        """Claims a topic or subscription for an owner, named by `flows.subscribe.owner_of`."""
        claim = Put(item=key_item(claim_key(topic, subscription, owner)))
        self._table.put(claim, action="claim", topic=topic)

    def release(self, topic: str, subscription: str | None, owner: str) -> None:
        """Releases a claim. Does nothing if the claim does not exist."""
        self._table.delete(claim_key(topic, subscription, owner), action="release", topic=topic)

    def of_others(self, topic: str, subscription: str | None, owner: str) -> bool:
        """Returns whether another owner has a claim, with a strongly consistent Query."""
        found = self._table.query_prefix(topic_partition(topic), claims_prefix(subscription), projection="sk")
        return any(item["sk"]["S"] != claim_key(topic, subscription, owner)[1] for item in found)
