"""Names new objects. Each name has a random end, so that two writers never write the same object."""

from __future__ import annotations

from tidewheel.aws import s3_layout
from tidewheel.ledger.bucket import BucketId
from tidewheel.model.park import ParkKey


class NewNames:
    """Implements the names of new objects of the port `Objects`."""

    def new_ledger_name(self, topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId) -> str:
        """Returns a ledger's name with a random end."""
        return s3_layout.ledger_name(topic, first_slot, slot_ms, bucket_id, s3_layout.attempt())

    def new_park_name(self, key: ParkKey) -> str:
        """Returns a name with a random end for a park's ledger."""
        return s3_layout.park_name(key, s3_layout.attempt())

    def new_occurrences_name(self, topic: str, first_slot: int) -> str:
        """Returns a name with a random end for a plan's recurring messages."""
        return s3_layout.occurrences_name(topic, first_slot, s3_layout.attempt())

    def new_checkpoint_name(self, topic: str, written_at_ms: int) -> str:
        """Returns a checkpoint's name with a random end."""
        return s3_layout.checkpoint_name(topic, written_at_ms, s3_layout.attempt())

    def new_payload_name(self, topic: str, due_ms: int, message_id: str) -> str:
        """Returns a large body's name with a random end."""
        return s3_layout.payload_name(topic, due_ms, message_id, s3_layout.attempt())
