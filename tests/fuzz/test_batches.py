"""A hostile record on the local stack stops no other record of its batch, and touches no other topic."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import TOPIC, Orders, orders
from tests.fuzz.good import IDS, PACKS
from tests.fuzz.hostile import DEEP, NAMES
from tests.marks import subscription_state, topic_state
from tests.packs import fields_of, pack_of
from tidewheel.errors import InvalidValue
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.message import Message
from tidewheel.model.pack import PACK_ATTRIBUTE
from tidewheel.storage.table_keys import BUCKETS, LISTED, SERVICE, key_key

OTHER = "invoices"
SECRET = "body-that-no-log-may-show"
_MARKS = {
    "pk", "generation", "settings", "work_version", "swap_version", "subscriptions_version", "sealed", "waiting",
    "purges", "recurring",
}  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Iterator[Orders]:
    """A stack with a second topic, which has waiting messages and a recurring message."""
    with orders(inline_rows=1, part_rows=1) as opened:
        opened.client.create_topic(OTHER)
        opened.client.create_subscription(OTHER, "billing")
        opened.client.send_many(OTHER, [Message(body="theirs", delay="20d", key=f"k{i}") for i in range(3)])
        opened.stack.advance(minutes=10)
        yield opened


def _others(service: Orders) -> tuple[str, list[str]]:
    """Returns all items and objects of the other topic, as text."""
    session, settings = service.stack.session, service.client.core.connection.settings
    found = session.client("dynamodb").scan(TableName=settings.table)["Items"]
    theirs = [each for each in found if each["pk"]["S"].split("#")[:2] == ["T", OTHER]]
    pages = session.client("s3").list_objects_v2(Bucket=settings.s3_bucket).get("Contents", [])
    own = [each["pk"]["S"] for each in found if each["pk"]["S"] not in (SERVICE, LISTED)]
    assert {each.split("#")[1] for each in own} <= {TOPIC, OTHER}
    # The topic state's other marks, and checkpoints, are the sweep's ordinary work.
    told = [{k: v for k, v in each.items() if each["sk"]["S"] != "STATE" or k in _MARKS} for each in theirs]
    names = [each["Key"].split("/") for each in pages]
    kept = ["/".join(name) for name in names if name[1] == OTHER and name[0] != "checkpoints"]
    return repr(sorted(map(repr, told))), kept


def _put(service: Orders, queue: str, body: str, pack: bytes | str | None = None) -> None:
    attributes: dict[str, Any] = {}
    if isinstance(pack, bytes):
        attributes = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": pack}}
    elif pack is not None:
        attributes = {PACK_ATTRIBUTE: {"DataType": "String", "StringValue": pack}}
    service.stack.session.client("sqs").send_message(
        QueueUrl=service.queue_url(queue), MessageBody=body, MessageAttributes=attributes
    )


def _hostile_packs(generation: str) -> list[bytes | str | None]:
    good = fields_of(PACKS[0]) | {"gen": generation}
    n = len(good["bodies"])
    ids = good["ids"]
    payload = f"payloads/{OTHER}/2027-01-15/01KDVDNA00A000000000000000-0123456789abcdef"
    changes: list[dict[str, Any]] = [{"topic": name} for name in NAMES]
    changes += [
        {"gen": "g#1"},
        {"gen": "another"},
        {"sent": 2**48 - 1},
        {"bodies": [SECRET] * (n + 1)},
        {"bodies": [SECRET, "\x00"]},
        {"ids": ids[:-4]},
        *({"opts": [each, None]} for each in (
            {"payload": payload},
            {"payload": f"payloads/{TOPIC}/../{OTHER}/x"},
            {"expires_at_ms": 2**53 - 1},
            {"key": "k" * 257, "seq": 1},
            {"key": "k\uffff", "seq": 1},
            {"only": "../billing"},
            {"moves": "not an id"},
            {"first_version": ["k", 2**53 - 1, 1]},
            {"unknown": 1},
        )),
    ]  # fmt: skip
    packs: list[bytes | str | None] = [pack_of(good | each) for each in changes]
    packs += [sealed(b"\x01" + zlib.compress(text.encode())) for text in DEEP]
    packs += [PACKS[0][:place] + PACKS[0][place + 1 :] for place in range(0, 40, 10)]
    packs += [sealed(opened(PACKS[0])[:place] + opened(PACKS[0])[place + 1 :]) for place in range(5, 45, 5)]
    packs += [None, SECRET, sealed(b"\x01" + zlib.compress(bytes(2**24))), sealed(b"\x07" + opened(PACKS[0])[1:])]
    return packs


def test_hostile_packs_are_refused_and_all_others_arrive(service: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[str, Any]] = []
    module = service.function("ingest")
    monkeypatch.setattr(
        module.handler.telemetry.logger, "error", lambda message, **given: logged.append((message, given))
    )
    before = _others(service)
    hostile = _hostile_packs(topic_state(service.client, TOPIC).generation)
    sent = []
    for number, pack in enumerate(hostile):
        _put(service, "IngestionUrgentQueue", SECRET, pack)
        if number % 3 == 0:
            sent.append(service.client.send(TOPIC, f"good {number}", delay=100 + number).id)
    service.stack.advance(minutes=30)
    assert service.ids() == Counter(sent), "no good one is lost, and no hostile one delivered"
    service.stack.advance(hours=4)
    documents = service.stack.queue(service.queue_url("DeliveryRefusedQueue")).everything
    assert len(documents) == len(hostile)
    assert all(json.loads(each.body)["reason"] for each in documents)
    assert service.stack.queue(service.queue_url("IngestionUrgentQueueDeadLetters")).everything == []
    assert _others(service) == before
    refused = [given for message, given in logged if message in ("pack refused", "topic not ingested")]
    assert len({name for given in refused for name in given["extra"]["sqs_message_ids"]}) > 45
    assert all("exc_info" in given or given["extra"]["advice"] for given in refused), "each says why"
    assert SECRET not in repr(logged)


def test_hostile_jobs_do_nothing_and_all_others_are_done(service: Orders) -> None:
    before = _others(service)
    generation = subscription_state(service.client, TOPIC, "billing").generation
    owner = {"topic": TOPIC, "subscription": "billing", "generation": generation}
    forged: list[dict[str, Any]] = [owner | {name: value} for name in ("topic", "subscription") for value in NAMES]
    forged += [owner | {"generation": value} for value in NAMES[:6]]
    forged += [owner | {"plan": 1, "part": 10**30}, owner | {"plan": 5, "part": 0, "replay": "a#b"}]
    forged += [owner | {"park": name} for name in NAMES[:6]]
    for job in forged:
        _put(service, "DeliveryWorkQueue", json.dumps(job))
    for body in DEEP:
        _put(service, "DeliveryWorkQueue", body)
    sent = service.client.send_many(TOPIC, [Message(body="good", delay=1_000 + i) for i in range(30)])
    service.stack.advance(minutes=40)
    assert service.ids() == Counter(each.id for each in sent)
    refused = service.stack.queue(service.queue_url("DeliveryRefusedQueue"))
    assert len(refused.everything) > 30
    assert service.stack.queue(service.queue_url("DeliveryWorkQueueDeadLetters")).everything == []
    assert _others(service) == before


@pytest.mark.parametrize("function", ["dispatch", "compact"])
def test_an_event_that_names_no_topic_is_refused_before_anything_is_read(service: Orders, function: str) -> None:
    before = _others(service)
    for name in [*NAMES, None, 7, [OTHER], {"S": OTHER}]:
        if name == "ORDERS":
            continue  # a name as good as any, of a topic that is not there
        with pytest.raises(InvalidValue, match="topic="):
            service._handler(function).invoke({"topic": name, "slot": SECRET})
    assert _others(service) == before


def test_an_item_that_a_canceller_wrote_stops_neither_ingest_nor_dispatch(service: Orders) -> None:
    """A caller with permission to cancel writes tombstones and keys. Meaningless items must not stop other messages."""
    table = service.client.core.connection.settings.table
    dynamodb = service.stack.session.client("dynamodb")
    slot = round(service.stack.now().timestamp()) // 300
    for sort_key in (f"{slot + 3:012d}#not an id", f"{slot + 3:012d}#", f"{slot + 3:012d}"):
        item = {"pk": {"S": f"T#{TOPIC}#TOMB"}, "sk": {"S": sort_key}, "v": {"N": "1"}, "ttl": {"N": "9999999999"}}
        dynamodb.put_item(TableName=table, Item=item)
    named = {"pk": {"S": f"T#{TOPIC}#TOMB"}, "v": {"N": "1"}, "sk": {"S": f"{slot + 3:012d}#{IDS[0]}"}}
    dynamodb.put_item(TableName=table, Item=named | {"moved_to": {"S": "?"}, "ttl": {"N": "9999999999"}})
    dynamodb.put_item(TableName=table, Item=named | {"sk": {"S": f"{slot + 3:012d}#{IDS[1]}"}})
    partition, key = key_key(TOPIC, "spoilt")
    dynamodb.put_item(
        TableName=table, Item={"pk": {"S": partition}, "sk": {"S": key}, "v": {"N": "1"}, "id": {"S": "?"}}
    )
    service.client.send(TOPIC, "with the spoilt key", delay=900, key="spoilt")
    sent = [service.client.send(TOPIC, f"good {i}", delay=900 + i) for i in range(5)]
    service.stack.advance(hours=1)
    assert service.ids() == Counter(each.id for each in sent)
    service.stack.advance(days=8)  # past the seven days in which passed messages are kept
    s3, bucket = service.stack.session.client("s3"), service.client.core.connection.settings.s3_bucket
    for folder, left in (("ledgers", 0), ("checkpoints", 1)):
        found = s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/{TOPIC}/")["KeyCount"]
        assert (found >= left) if left else (found == 0), f"{found} {folder}: the topic is collected, and marked so"


def test_what_a_newer_release_wrote_is_tried_again_and_not_lost(service: Orders) -> None:
    sent = service.client.send(TOPIC, "of a newer release", delay="2h")
    service.stack.advance(minutes=30)
    told = len(service.stack.failures)
    for version, arrives in (("2", []), ("1", [sent.id])):
        _set_version(service, version)
        service.stack.advance(hours=3)
        # It is late by now, and comes once.
        assert [each.id for each in service.stack.receive(TOPIC, "billing")] == arrives
    assert len(service.stack.failures) > told


def _set_version(service: Orders, version: str) -> None:
    """Gives the ledgers' items of the topic a version."""
    table, dynamodb = service.client.core.connection.settings.table, service.stack.session.client("dynamodb")
    buckets = [
        each
        for each in dynamodb.scan(TableName=table)["Items"]
        if (each["pk"]["S"], each["sk"]["S"][:7]) == (f"T#{TOPIC}", BUCKETS)
    ]
    assert buckets
    for item in buckets:
        dynamodb.put_item(TableName=table, Item=item | {"v": {"N": version}})
