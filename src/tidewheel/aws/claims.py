"""Claims: which resources of stacks declare a topic or a subscription beside the one that created it.

A resource that adopts what is there claims it, and gives the claim up when it is deleted. The one that created it
asks, before it deletes, whether anybody else declares it: so what moves to another stack stays when the old lets go.

    claim    T#<topic>    CLAIM#<subscription, or nothing>#<owner>
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_writes import Put, key_item
from tidewheel.aws.table_layout import claim_key, claims_prefix, topic_partition

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
        """Claims a topic, or a subscription of it, for an owner, as `flows.subscribe.owner_of` names it."""
        claim = Put(item=key_item(claim_key(topic, subscription, owner)))
        self._table.put(claim, action="claim", topic=topic)

    def release(self, topic: str, subscription: str | None, owner: str) -> None:
        """Gives a claim up, if there is one."""
        self._table.delete(claim_key(topic, subscription, owner), action="release", topic=topic)

    def of_others(self, topic: str, subscription: str | None, owner: str) -> bool:
        """Whether somebody else claims it: one strongly consistent Query."""
        found = self._table.query_prefix(topic_partition(topic), claims_prefix(subscription), projection="sk")
        return any(item["sk"]["S"] != claim_key(topic, subscription, owner)[1] for item in found)
