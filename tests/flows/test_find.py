"""Finds a message in ledgers with few requests, in every state of the slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flows.test_merge import run_merge
from tests.flows.test_tails import shrunk
from tests.flows.world import DAY, HOUR, MINUTE, TOPIC, World
from tidewheel.errors import InvalidValue, ObjectMissing
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.flows.waiting.find import FoundMessage, find_message, found_messages
from tidewheel.ledger.rows import pack_rows
from tidewheel.model.message import Encoding, IdSource, Message, MessageId, id_text
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.validation import Options, OutgoingMessage, check_message

NOW_MS = 1_767_225_600_000


def find(world: World, message_id: str) -> FoundMessage | None:
    return find_message(world.service, world.state, MessageId(message_id))


def gets(world: World, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the range GETs of each object from now on."""
    counts: Counter[str] = Counter()
    get_range = world.service.objects.get_range

    def counted(name: str, offset: int, length: int) -> bytes:
        counts[name] += 1
        return get_range(name, offset, length)

    monkeypatch.setattr(world.service.objects, "get_range", counted)
    return counts


def test_a_waiting_message_is_found_with_one_get_among_many_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    ids = [world.send(*(day * DAY + i * 1000 for i in range(20)))[7] for day in range(1, 9)]
    counts = gets(world, monkeypatch)
    for sent in ids:
        found = find(world, sent)
        assert found is not None
        assert (id_text(found.checked.id), found.checked.text, found.sent_at_ms) == (sent, "hello", NOW_MS)
        assert (found.plan, found.cancelled) == (None, False)
        assert counts == {found.object_name: 1}
        counts.clear()


def test_a_message_of_a_millisecond_with_many_segments_is_found_with_a_get_a_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(segment_rows=5)
    ids = [id for _ in range(3) for id in world.send(*[2 * HOUR] * 40)]
    counts = gets(world, monkeypatch)
    for each in ids[::7]:
        assert find(world, each) is not None
        assert counts.total() <= 3
        counts.clear()
    world.dispatch_at(HOUR + 55 * MINUTE)
    counts.clear()
    for each in ids[::7]:
        found = find(world, each)
        assert found is not None and found.plan is not None
        assert counts.total() <= 3
        counts.clear()


def test_an_id_that_was_never_sent_is_found_nowhere_and_costs_a_get_only_where_its_time_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.send(DAY, 2 * DAY)
    counts = gets(world, monkeypatch)
    ids = IdSource()
    assert find(world, id_text(ids.next(NOW_MS + 9 * DAY))) is None
    assert find(world, id_text(ids.next(NOW_MS + DAY + HOUR))) is None  # no slot of it is occupied
    assert counts.total() == 0
    assert find(world, id_text(ids.next(NOW_MS + DAY))) is None
    assert counts.total() == 1
    with pytest.raises(InvalidValue, match="message id='x'"):
        find(world, "x")


def test_a_message_of_a_ledger_with_a_tail_costs_the_tail_and_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    sent = world.send(*(DAY + i * HOUR for i in range(50)))
    shrunk(world, shift=3)
    counts = gets(world, monkeypatch)
    found = find(world, sent[31])
    assert found is not None and id_text(found.checked.id) == sent[31]
    assert counts.total() == 2


def test_a_message_is_found_by_its_plan_when_a_merge_has_left_it_out() -> None:
    world = World("billing", "slow", max_buckets=1)
    early = world.send(HOUR, DAY)[0]
    world.send(HOUR + 2000, 2 * DAY)
    before = world.state
    world.service.subscriptions.pause(world.service.subscriptions.all(TOPIC)[1])  # keeps it all from being collected
    world.run(2 * HOUR)
    assert run_merge(world).merges
    slot = (NOW_MS + HOUR) // world.state.slot_ms
    assert not any(bucket.occupies(slot, slot + 1) for bucket in world.service.buckets.all(TOPIC))
    for state in (world.state, before):  # looked for from now on, or since before the plan
        found = find_message(world.service, state, MessageId(early))
        assert found is not None and found.plan is not None
        assert found.plan <= slot < world.state.planned
        assert not found.cancelled


def test_the_plan_says_which_message_it_leaves_out() -> None:
    world = World()
    first, second = world.send(HOUR, HOUR + 1000)
    assert cancel(world.service, world.state, MessageId(first), NOW_MS)
    world.run(HOUR - MINUTE)
    found = {name: find(world, name) for name in (first, second)}
    assert {name: each is not None and each.cancelled for name, each in found.items()} == {first: True, second: False}


def test_what_was_collected_between_two_reads_is_looked_for_again_and_a_lost_ledger_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    [sent] = world.send(DAY)
    [bucket] = world.service.buckets.all(TOPIC)
    whole = world.service.objects.get_range(bucket.object_name, 0, bucket.size_bytes)
    world.service.objects.put("ledgers/moved", whole)
    world.service.objects.delete([bucket.object_name])
    with pytest.raises(ObjectMissing, match=bucket.object_name):
        find(world, sent)
    seen: list[str] = []

    def buckets(topic: str, _: object, **__: object) -> Iterator[Any]:
        seen.append(topic)
        return iter([bucket if len(seen) == 1 else replace(bucket, object_name="ledgers/moved")])

    monkeypatch.setattr(world.service.buckets, "in_order", buckets)
    found = find(world, sent)
    assert found is not None and found.object_name == "ledgers/moved"
    assert len(seen) == 2


OPTIONS = st.builds(
    Options,
    expires_at_ms=st.none() | st.integers(NOW_MS + 2 * DAY, NOW_MS + 9 * DAY),
    attempt=st.none() | st.integers(1, 20),
    original_id=st.none() | st.just(id_text(IdSource().next(NOW_MS))),
)
BODIES = st.text('aé"\\\n{}💡', min_size=1) | st.binary(min_size=1) | st.dictionaries(st.text("ab"), st.integers())


@given(
    body=BODIES,
    attributes=st.dictionaries(st.sampled_from(["a", "b.c"]), st.text("xü", min_size=1)),
    key=st.none() | st.text('kß "', min_size=1, max_size=20),
    options=OPTIONS,
)
def test_a_row_gives_back_what_was_sent(
    body: Any, attributes: dict[str, str], key: str | None, options: Options
) -> None:
    message = Message(body=body, delay="1d", attributes=attributes, key=key)
    sent = check_message(message, IdSource(), NOW_MS, resend=options)
    [found] = found_messages(through_a_pack(sent), "ledgers/x")
    assert (found.sent_at_ms, found.object_name) == (NOW_MS, "ledgers/x")
    expected = sent.options if sent.options is not None and sent.options.document() else None
    assert found.checked == OutgoingMessage(
        id=sent.id, text=sent.text, encoding=sent.encoding, attributes=found.checked.attributes, options=expected
    )
    assert dict(found.checked.attributes) == attributes
    assert found.expires_at_ms == options.expires_at_ms


def test_a_body_in_s3_is_given_back_as_what_stands_for_it() -> None:
    large = check_message(Message(body=b"\xff" * 10, delay="1d"), IdSource(), NOW_MS)
    sent = large.with_payload(
        "payloads/orders/2026-01-02/01KE34VF0074H01EA43JKR81YY-00000001",
        '{"payload":"payloads/orders/2026-01-02/01KE34VF0074H01EA43JKR81YY-00000001"}',
        b"\xff" * 10,
    )
    [found] = found_messages(through_a_pack(sent), "ledgers/x")
    assert found.checked.text == '{"payload":"payloads/orders/2026-01-02/01KE34VF0074H01EA43JKR81YY-00000001"}'
    assert found.checked.encoding is Encoding.BYTES
    assert found.checked.options == Options(
        payload="payloads/orders/2026-01-02/01KE34VF0074H01EA43JKR81YY-00000001",
        payload_sha256="0083af118d18a63c6bb552f21d0c4ee78741f988ecd319d3cd06cb6c85a68a63",
        payload_bytes=10,
    )


def through_a_pack(sent: OutgoingMessage) -> pa.Table:
    [(_, data)] = packs(TOPIC, "0" * 16, NOW_MS, [sent])
    return pack_rows(decode_pack(data, NOW_MS))
