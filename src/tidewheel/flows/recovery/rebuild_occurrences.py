"""Makes ledgers of the planned occurrences of recurring messages.

A rebuild plans again what a subscription still needs, with the rules of the checkpoint. A recurring message that has
ended since an occurrence was planned has no rule any more. The object of the plan is the only copy of the occurrence.

    the plan begins        occurrences
    before the checkpoint  all become ledgers; the rules begin behind them
    after it               those without a rule become ledgers; the others are planned anew
"""

from __future__ import annotations

import pyarrow as pa

from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.ports import Ports
from tidewheel.flows.recovery.scan import reader_of
from tidewheel.ledger.bucket import bucket_id, content_id
from tidewheel.ledger.ledger import decode_segment, encode_ledger
from tidewheel.ledger.reader import segments_of
from tidewheel.ledger.rows import SCHEMA
from tidewheel.model.checkpoint import Checkpoint
from tidewheel.model.message import id_deliver_at_ms
from tidewheel.model.object_names import PLANS, ledger_name, parse_occurrences_name, topic_prefix
from tidewheel.model.recurring import Recurring, occurrence_id
from tidewheel.storage.objects import StoredObject


def keep_occurrences(ports: Ports, checkpoint: Checkpoint, planned: int) -> None:
    """Makes ledgers of the planned occurrences of recurring messages. A repetition makes the same ledgers.

    Args:
        ports: the service.
        checkpoint: has the rules.
        planned: the slot from which everything is planned again.
    """
    topic, slot_ms = checkpoint.topic, checkpoint.settings.slot_ms
    for each in ports.objects.list(topic_prefix(PLANS, topic)):
        parsed = parse_occurrences_name(each.name)
        if parsed is None or parsed[0] < planned:
            continue
        first_slot, attempt = parsed
        if first_slot < checkpoint.planned:
            id = bucket_id(first_slot, content_id(each.name.encode()))
            ports.objects.copy(each.name, ledger_name(topic, id, slot_ms, attempt))
            continue
        rows = _without_rule(ports, checkpoint, each)
        if rows is not None and rows.num_rows:
            ledger = encode_ledger(rows, topic=topic, generation=checkpoint.generation, slot_ms=slot_ms)
            name = ledger_name(topic, bucket_id(first_slot, content_id(ledger.data)), slot_ms, attempt)
            ports.objects.put(name, ledger.data)


def _without_rule(ports: Ports, checkpoint: Checkpoint, stored: StoredObject) -> pa.Table | None:
    """Returns the occurrences of a plan that no rule makes again. Returns None if the object is gone or damaged."""
    try:
        read = reader_of(ports.objects, stored)
        segments = segments_of(read, stored.size_bytes, stored.name)
        tables = [
            decode_segment(read(each.offset, each.length), object_name=stored.name, segment=each) for each in segments
        ]
    except (CorruptLedger, ObjectMissing):
        return None
    rules: dict[str, list[Recurring]] = {}
    for rule in checkpoint.recurring:
        rules.setdefault(rule.name, []).append(rule)
    rows = pa.concat_tables([SCHEMA.empty_table(), *tables])
    ids, names = (rows.column(name).to_pylist() for name in ("message_id", "key"))
    kept = [not any(_makes(rule, id) for rule in rules.get(name, ())) for id, name in zip(ids, names, strict=True)]
    return rows.filter(pa.array(kept, pa.bool_()))


def _makes(rule: Recurring, id: bytes) -> bool:
    due_ms = id_deliver_at_ms(id)
    return due_ms >= rule.first_ms and occurrence_id(rule.generation, rule.name, due_ms) == id
