"""Names the objects in S3, for the application, the stack and the tests alike.

    ledgers/<topic>/<window>/<first_slot>-<bucket id>-<attempt>.parquet
    plans/<topic>/<first slot>-<attempt>.json.z
                                               manifests that are too large for an item
    plans/<topic>/<first slot>-<attempt>.parquet
                                               a plan's recurring messages
    parked/<topic>/<subscription>/<park id>-<attempt>.parquet
                                               ledgers of parks that are too large for an item
    checkpoints/<topic>/<written_at_ms, 15 digits>-<attempt>.json.z
                                               a topic's marks and cursors, for a rebuild of a lost table
    payloads/<topic>/<due date>/<message id>-<attempt>
                                               bodies that are too large for SQS
    payloads/<topic>/collected.json            times and slots of collections, for the deletion of bodies
    aside/                                     objects that a rebuild took out of service, under their old names
    imports/<topic>/...                        files for the import job, its cuts and its rejects

The window is the UTC date on which the first slot starts. The attempt is random, so that no try overwrites an
earlier try's object.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from tidewheel.flows import ports
from tidewheel.ledger.bucket import BucketId
from tidewheel.model.park import ParkKey

LEDGERS = ports.LEDGERS
PLANS = ports.PLANS
PARKED = ports.PARKED
CHECKPOINTS = ports.CHECKPOINTS
ASIDE = ports.ASIDE
PAYLOADS = ports.PAYLOADS
COLLECTED = ports.COLLECTED
IMPORTS = ports.IMPORTS


def attempt() -> str:
    """Returns 16 random hexadecimal digits."""
    return secrets.token_hex(8)


def window(first_slot: int, slot_ms: int) -> str:
    """Returns the UTC date, like 2026-01-31, on which a slot starts."""
    return datetime.fromtimestamp(first_slot * slot_ms // 1000, UTC).strftime("%Y-%m-%d")


def ledger_name(topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId, attempt: str) -> str:
    """Returns the name of a ledger."""
    return f"{LEDGERS}{topic}/{window(first_slot, slot_ms)}/{first_slot}-{bucket_id}-{attempt}.parquet"


def plan_name(topic: str, first_slot: int, attempt: str) -> str:
    """Returns the manifest's name for the plan that starts at a slot."""
    return f"{PLANS}{topic}/{first_slot}-{attempt}.json.z"


def occurrences_name(topic: str, first_slot: int, attempt: str) -> str:
    """Returns the object name of a plan's recurring messages."""
    return f"{PLANS}{topic}/{first_slot}-{attempt}.parquet"


def park_name(key: ParkKey, attempt: str) -> str:
    """Returns the name of a park's ledger."""
    return f"{PARKED}{key.topic}/{key.subscription}/{key.id}-{attempt}.parquet"


def checkpoint_name(topic: str, written_at_ms: int, attempt: str) -> str:
    """Returns the name of a checkpoint."""
    return f"{CHECKPOINTS}{topic}/{written_at_ms:015d}-{attempt}.json.z"


def payload_name(topic: str, due_ms: int, message_id: str, attempt: str) -> str:
    """Returns the name of a body in S3, under the UTC date on which its message is due."""
    return f"{PAYLOADS}{topic}/{window(due_ms, 1)}/{message_id}-{attempt}"
