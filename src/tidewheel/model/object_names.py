"""Builds and parses the names of all objects in S3.

    ledgers/<topic>/<date>/<bucket id>-<attempt>.parquet
                                               ledgers, by the UTC date of the slot with which the bucket id begins
    plans/<topic>/<first slot>-<attempt>.json.z
                                               manifests that are too large for an item
    plans/<topic>/<first slot>-<attempt>.parquet
                                               a plan's recurring messages
    parked/<topic>/<subscription>/<park id>-<attempt>.parquet
                                               ledgers of parks that are too large for an item
    checkpoints/<topic>/<written_at_ms, 15 digits>-<attempt>.json.z
                                               a topic's marks and cursors, for a rebuild of a lost table
    live/<topic>/view.csv.gz                   the names of the ledgers in force, for queries
    payloads/<topic>/<due date>/<message id>-<attempt>
                                               bodies that are too large for SQS
    payloads/<topic>/collected.json            times and slots of collections, for the deletion of bodies
    imports/<topic>/_<import id>.json          a finished import's input and outcome
    imports/<topic>/_<import id>/begun-<run>   a run whose ledgers do not count yet; their ids' content begins with it
    imports/<topic>/_<import id>/staged.json   an import whose ledgers are being committed; beside it, its rejects
    aside/<old name>                           objects that a rebuild took out of service
    refused/<SQS message id>-<attempt>.json    refused messages of the service's own queues that are too large for SQS

The attempt is unique. So no try overwrites an earlier try's object, which may be listed already.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewheel.model.park import ParkKey

LEDGERS = "ledgers/"
PLANS = "plans/"
PARKED = "parked/"
PAYLOADS = "payloads/"
CHECKPOINTS = "checkpoints/"
LIVE = "live/"
IMPORTS = "imports/"
ASIDE = "aside/"
REFUSED = "refused/"
_BEGUN = "begun-"
_STAGED = "staged.json"

_LEDGER = re.compile(r"/(\d{12}-[^-/]+)-[^-/]+\.parquet\Z")
_OCCURRENCES = re.compile(rf"{PLANS}[^/]+/(\d+)-([^-/]+)\.parquet")
_PAYLOAD = re.compile(rf"{PAYLOADS}([A-Za-z0-9_-]{{1,48}})/\d{{4}}-\d\d-\d\d/[A-Z0-9]{{26}}-[0-9a-f]{{8,16}}\Z")
_DAY_MS = 86_400_000


def random_attempt() -> str:
    """Returns 16 random hexadecimal digits."""
    return secrets.token_hex(8)


def refused_name(sqs_message_id: str, attempt: str) -> str:
    """Returns the name of a refused message's document."""
    return f"{REFUSED}{sqs_message_id}-{attempt}.json"


def topic_prefix(prefix: str, topic: str) -> str:
    """Returns the prefix of a topic's objects under a prefix of this module."""
    return f"{prefix}{topic}/"


def topic_prefixes(topic: str) -> tuple[str, ...]:
    """Returns the prefixes of all objects of a topic. No object of another topic, and no file of a user, has these."""
    own = (LEDGERS, PLANS, PARKED, CHECKPOINTS, LIVE, PAYLOADS, ASIDE + LEDGERS, ASIDE + PLANS, ASIDE + PARKED)
    return *(topic_prefix(prefix, topic) for prefix in own), f"{topic_prefix(IMPORTS, topic)}_"


def topic_of(name: str) -> str:
    """Returns the topic in an object's name."""
    return name.removeprefix(ASIDE).split("/")[1]


def ledger_name(topic: str, bucket_id: str, slot_ms: int, attempt: str) -> str:
    """Returns the name of a ledger."""
    return f"{ledger_prefix(topic, bucket_id, slot_ms)}{attempt}.parquet"


def ledger_prefix(topic: str, bucket_id: str, slot_ms: int) -> str:
    """Returns the prefix of the names of a bucket's ledgers, a name for each attempt.

    Raises:
        ValueError: the id does not begin with a slot.
    """
    first_slot = int(bucket_id.partition("-")[0])
    return f"{topic_prefix(LEDGERS, topic)}{_date(first_slot * slot_ms)}/{bucket_id}-"


def is_ledger(name: str) -> bool:
    """Returns whether a name under `LEDGERS` has the end of a ledger's name."""
    return name.endswith(".parquet")


def ledger_bucket_id(name: str) -> str | None:
    """Returns the bucket id in a ledger's name, or None for other names."""
    found = _LEDGER.search(name)
    return None if found is None else found[1]


def manifest_name(topic: str, first_slot: int, attempt: str) -> str:
    """Returns the name of a plan's manifest."""
    return f"{PLANS}{topic}/{first_slot}-{attempt}.json.z"


def occurrences_name(topic: str, first_slot: int, attempt: str) -> str:
    """Returns the name of the object with a plan's recurring messages."""
    return f"{PLANS}{topic}/{first_slot}-{attempt}.parquet"


def parse_occurrences_name(name: str) -> tuple[int, str] | None:
    """Returns the first slot and the attempt in the name of an object with recurring messages, or None."""
    found = _OCCURRENCES.fullmatch(name)
    return None if found is None else (int(found[1]), found[2])


def park_name(key: ParkKey, attempt: str) -> str:
    """Returns the name of a park's ledger."""
    return f"{PARKED}{key.topic}/{key.subscription}/{key.id}-{attempt}.parquet"


def checkpoint_name(topic: str, written_at_ms: int, attempt: str) -> str:
    """Returns the name of a checkpoint. The names of a topic's checkpoints sort by time."""
    return f"{CHECKPOINTS}{topic}/{written_at_ms:015d}-{attempt}.json.z"


def view_name(topic: str) -> str:
    """Returns the name of a topic's live view."""
    return f"{LIVE}{topic}/view.csv.gz"


def payload_name(topic: str, due_ms: int, message_id: str, attempt: str) -> str:
    """Returns the name of a body."""
    return f"{PAYLOADS}{topic}/{_date(due_ms)}/{message_id}-{attempt}"


def payload_topic(name: object) -> str | None:
    """Returns the topic in a body's name, or None for other names."""
    found = _PAYLOAD.match(name) if isinstance(name, str) else None
    return None if found is None else found[1]


def payload_day_end_ms(name: str) -> int | None:
    """Returns the end of the due date in a body's name, or None for names without a date."""
    try:
        day = datetime.strptime(name.split("/")[2], "%Y-%m-%d").replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None
    return round(day.timestamp() * 1000) + _DAY_MS


def collections_name(topic: str) -> str:
    """Returns the name of the record of a topic's collections."""
    return f"{PAYLOADS}{topic}/collected.json"


def import_name(topic: str, import_id: str) -> str:
    """Returns the name of a finished import's record."""
    return f"{IMPORTS}{topic}/_{import_id}.json"


def import_folder(topic: str, import_id: str) -> str:
    """Returns the prefix of the objects that an import keeps until it is finished."""
    return f"{IMPORTS}{topic}/_{import_id}/"


def staged_name(topic: str, import_id: str) -> str:
    """Returns the name of the record of an import whose ledgers are being committed."""
    return f"{import_folder(topic, import_id)}{_STAGED}"


def begun_name(topic: str, import_id: str, run: str) -> str:
    """Returns the name of the object that tells that no ledger of a run of an import counts yet."""
    return f"{import_folder(topic, import_id)}{_BEGUN}{run}"


def runs_begun(names: Collection[str]) -> tuple[str, ...]:
    """Returns the runs of which no ledger counts yet, among the names of imports' objects."""
    return tuple(run for _, begun, run in (name.rpartition(f"/{_BEGUN}") for name in names) if begun)


def unfinished_imports(names: Collection[str]) -> list[str]:
    """Returns the names of the records of unfinished imports among the names of imports' objects."""
    ending = f"/{_STAGED}"
    return [name for name in names if name.endswith(ending) and f"{name.removesuffix(ending)}.json" not in names]


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d")
