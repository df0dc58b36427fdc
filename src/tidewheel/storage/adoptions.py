"""Records which stack resources declare a topic or subscription created by another resource.

A resource that adopts an existing topic or subscription marks it, and deletes the mark when the resource is
deleted. The resource that created the topic or subscription looks for marks before it deletes. So a topic that
moves to another stack survives when the old stack drops it.

    adoption    T#<topic>    CLAIM#<subscription, or nothing>#<owner>
"""

from __future__ import annotations

from tidewheel.storage.layout import adoption_key, adoptions_prefix, topic_partition
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Put, key_item


class Adoptions(StoredItems):
    """The adoptions of one service."""

    def put(self, topic: str, subscription: str | None, owner: str) -> None:
        """Marks a topic or subscription as adopted by an owner, named by `flows.subscribe.owner_of`."""
        mark = Put(item=key_item(adoption_key(topic, subscription, owner)))
        self._table.put(mark, action="adopt", topic=topic)

    def release(self, topic: str, subscription: str | None, owner: str) -> None:
        """Deletes a mark. Does nothing if the mark does not exist."""
        self._table.delete(adoption_key(topic, subscription, owner), action="release", topic=topic)

    def of_others(self, topic: str, subscription: str | None, owner: str) -> bool:
        """Returns whether another owner has adopted it, with a strongly consistent Query."""
        found = self._table.query_prefix(topic_partition(topic), adoptions_prefix(subscription), projection="sk")
        return any(item["sk"]["S"] != adoption_key(topic, subscription, owner)[1] for item in found)
