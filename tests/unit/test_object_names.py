"""Names of objects in S3."""

from __future__ import annotations

from tidewheel.ledger.bucket import bucket_id
from tidewheel.model import object_names


def test_ledgers_are_named_by_the_day_of_their_first_slot() -> None:
    slot = 1_769_817_600_000 // 300_000 - 1  # five minutes before 2026-01-31
    name = object_names.ledger_name("orders", bucket_id(slot, "b1"), 300_000, "f00d")
    assert name == f"ledgers/orders/2026-01-30/{slot:012d}-b1-f00d.parquet"
    assert "/2026-01-31/" in object_names.ledger_name("orders", bucket_id(slot + 1, "b1"), 300_000, "f00d")


def test_the_bucket_id_is_read_from_a_ledgers_name() -> None:
    name = object_names.ledger_name("my-orders", bucket_id(17, "b1"), 300_000, "f00d")
    assert object_names.ledger_bucket_id(name) == bucket_id(17, "b1")
    assert name.startswith(object_names.ledger_prefix("my-orders", bucket_id(17, "b1"), 300_000))
    assert object_names.ledger_bucket_id("ledgers/orders/other.parquet") is None


def test_a_manifest_and_the_recurring_messages_of_a_plan_have_names_of_their_own() -> None:
    assert object_names.manifest_name("orders", 17, "f00d") == "plans/orders/17-f00d.json.z"
    assert object_names.occurrences_name("orders", 17, "f00d") == "plans/orders/17-f00d.parquet"


def test_names_of_checkpoints_sort_by_time() -> None:
    times = (5, 40, 1_767_225_600_000, 10**14)
    names = [object_names.checkpoint_name("orders", at_ms, "f00d") for at_ms in times]
    assert names == sorted(names)
    assert names[2] == "checkpoints/orders/001767225600000-f00d.json.z"


def test_the_topic_and_the_due_date_are_read_from_a_bodys_name() -> None:
    name = object_names.payload_name("orders", 1_767_225_600_000, "0" * 26, "f00dcafe")
    assert (object_names.payload_topic(name), object_names.topic_of(name)) == ("orders", "orders")
    assert object_names.payload_day_end_ms(name) == 1_767_225_600_000 + 86_400_000
    other = object_names.collections_name("orders")
    assert (object_names.payload_topic(other), object_names.payload_day_end_ms(other)) == (None, None)


def test_every_object_of_a_topic_is_under_its_prefixes() -> None:
    prefixes = object_names.topic_prefixes("orders")
    ledger = object_names.ledger_name("orders", bucket_id(17, "b1"), 300_000, "f00d")
    names = [ledger, object_names.ASIDE + ledger, object_names.import_name("orders", "i1")]
    assert all(name.startswith(prefixes) for name in names)
    assert not object_names.ledger_name("orders2", bucket_id(17, "b1"), 300_000, "f00d").startswith(prefixes)
