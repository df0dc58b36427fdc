"""Parks messages as ledgers while a queue must not receive messages or refuses them."""

from __future__ import annotations

import pyarrow as pa

from tidewheel.flows.ports import Ports
from tidewheel.flows.ports.objects import Objects
from tidewheel.flows.ports.parks import Parked
from tidewheel.ledger.bucket import content_id
from tidewheel.ledger.ledger import decode_segment, encode_ledger
from tidewheel.ledger.reader import segments_of
from tidewheel.model import object_names
from tidewheel.model.park import MAX_INLINE_PARK_BYTES, Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import TopicState


def put_aside(ports: Ports, state: TopicState, subscription: SubscriptionState, rows: pa.Table) -> Parked:
    """Parks messages of a paused or broken subscription. Returns MOVED if the state changed.

    If it stops after the object of a large park is put, nothing names the object, and the orphan sweep deletes it a day
    later.

    Args:
        rows: at least one.
    """
    now_ms = ports.clock.now_ms()
    # A paused subscription has to wait; the sweep tries the queue of a broken subscription as soon as possible.
    waits_ms = state.settings.redrive_s * 1000 if subscription.state is State.PAUSED else 0
    park = _park(ports, state, subscription.name, subscription.generation, rows, now_ms + waits_ms)
    parked = ports.parks.put(park)
    _forget_unnamed(ports, park, parked)
    return parked


def spill(ports: Ports, state: TopicState, key: DeliveryKey, part: int, rows: pa.Table) -> None:
    """Parks the refused messages of a part, and marks the part done.

    If it stops
        after the object of a large park is put: as `put_aside`; the part comes again.
        after the park is put, and the part is marked with it: the sweep drains the park, and deletes a complete
            delivery.
    """
    if rows.num_rows:
        park = _park(ports, state, key.subscription, key.generation, rows, ports.clock.now_ms())
        parked = ports.parks.spill_part(key, part, park)
        _forget_unnamed(ports, park, parked)
        if parked is not Parked.EXISTS:
            return
    # Another delivery of the same messages has parked them already, or there are none.
    ports.deliveries.part_done(key, part)


def parked_rows(objects: Objects, park: Park) -> pa.Table:
    """Reads the messages of a park.

    Raises:
        ObjectMissing: its object is gone.
        CorruptLedger: its ledger is damaged.
    """
    name = park.object_name or f"of park {park.key.id}"
    data = park.ledger
    if data is None:
        data = objects.get_range(name, 0, park.size_bytes)

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    segments = segments_of(read, len(data), name)
    decoded = (
        decode_segment(read(segment.offset, segment.length), object_name=name, segment=segment) for segment in segments
    )
    return pa.concat_tables(decoded)


def _park(
    ports: Ports, state: TopicState, subscription: str, generation: str, rows: pa.Table, next_check_ms: int
) -> Park:
    """Returns a park of some rows. Puts the object of a large park."""
    ledger = encode_ledger(rows, topic=state.topic, generation=state.generation, slot_ms=state.slot_ms)
    key = ParkKey(topic=state.topic, subscription=subscription, generation=generation, id=content_id(ledger.data))
    inline = len(ledger.data) <= MAX_INLINE_PARK_BYTES
    object_name = None if inline else object_names.park_name(key, ports.objects.new_attempt())
    if object_name is not None:
        ports.objects.put(object_name, ledger.data)
    return Park(
        key=key,
        rows=rows.num_rows,
        size_bytes=len(ledger.data),
        next_check_ms=next_check_ms,
        ledger=ledger.data if inline else None,
        object_name=object_name,
    )


def _forget_unnamed(ports: Ports, park: Park, parked: Parked) -> None:
    """Deletes the object of a park that was not put.

    The object stays if the stored park names it: then this try had put the park, and the answer was lost.
    """
    if parked is Parked.PARKED or park.object_name is None:
        return
    found = ports.parks.read(park.key)
    if found is None or found.object_name != park.object_name:
        ports.objects.delete([park.object_name])
