"""Stores claims."""

from __future__ import annotations

from tidewheel.model.claim import Claim, Holder
from tidewheel.model.message import MessageId
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change

_UNCLAIMED = "attribute_not_exists(claimed)"


class Claims(StoredItems):
    """The claims of messages, in topics that are cancelled until consumed.

    One item a message decides. Its first two writers are a consumer's claim and a cancel, and each is refused after the
    other. So a message is handed out, or cancelled, and never both, whatever dies in between.
    """

    def claim(self, topic: str, message_id: MessageId, holder: Holder, ttl_s: int) -> int | None:
        """Claims a message for a subscription. Returns how often it has done so, or None if the message is cancelled.

        `ADD claimed 1, <holder> 1 IF no cancelled`. A consumer that died after its claim gets the message again.
        """
        change = Change(
            key=layout.claim_key(topic, message_id),
            condition="attribute_not_exists(cancelled)",
            sets={"#ttl": ttl_s},
            adds={"claimed": 1, "#holder": 1},
            names={"holder": str(holder)},
        )
        done, item = self._table.change_and_get(change, action="claim", topic=topic)
        return items.claims_of(item, holder) if done and item is not None else None

    def cancel(self, topic: str, message_id: MessageId, ttl_s: int, to: MessageId | None = None) -> Claim:
        """Cancels a message that no consumer has. Returns the claim that is there afterwards.

        `SET cancelled, to IF no claimed AND (no cancelled OR to is mine)`. So of two messages that take its place, the
        first stays, and each finds its own write.

        Args:
            to: the message that takes its place.
        """
        mine = "attribute_not_exists(moved_to)" if to is None else "moved_to = :to"
        change = Change(
            key=layout.claim_key(topic, message_id),
            condition=f"{_UNCLAIMED} AND (attribute_not_exists(cancelled) OR {mine})",
            sets={"cancelled": 1, "#ttl": ttl_s} | ({} if to is None else {"moved_to": to}),
            values={} if to is None else {"to": to},
        )
        _, item = self._table.change_and_get(change, action="cancel_late", topic=topic)
        return Claim() if item is None else items.decode_claim(item)

    def read(self, topic: str, message_id: MessageId) -> Claim:
        """Reads a claim. A message without an item has neither holders nor a cancel."""
        item = self._table.get(layout.claim_key(topic, message_id))
        return Claim() if item is None else items.decode_claim(item)


def superseding(topic: str, message_id: MessageId, ttl_s: int, *, from_all: bool) -> Change:
    """Returns the write that cancels a message for a newer one, as a part of a transaction.

    Args:
        from_all: False: the message is also cancelled if consumers have it, for all other subscriptions.
    """
    return Change(
        key=layout.claim_key(topic, message_id),
        condition="attribute_not_exists(cancelled)" + (f" AND {_UNCLAIMED}" if from_all else ""),
        sets={"cancelled": 1, "#ttl": ttl_s},
    )
