"""Each kind of damaged or hostile input is refused, or stops its own messages or its topic, and is told by name.

The items of the table are DynamoDB's, so an attribute can have a wrong type. Each kind has a topic of its own. Beside
the damage, the topic has neighbours: messages of another ledger, and another subscription.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tidewheel import Message
from tidewheel.client.operations.damaged import Damaged
from tidewheel.local import MemoryTidewheel
from tidewheel.model.checkpoint import decode_checkpoint
from tidewheel.model.pack import PACK_ATTRIBUTE

_WRONG: dict[str, Any] = {"M": {}}
"""A value of a type that no attribute of an item has."""


class Shop:
    """A topic with two subscriptions and two ledgers, due in two hours. One of the ledgers gets damaged.

    Attributes:
        near: messages of the other ledger.
        far: messages of the ledger that may be damaged.
        direct: messages that were sent directly while something was damaged.
        spoiled: the items that `set` has changed, as they were.
        ids: body -> id, of messages of ledgers.
    """

    def __init__(self, stack: MemoryTidewheel, kind: str) -> None:
        self.stack = stack
        self.name = re.sub("[^a-z]+", "-", kind)
        self.client = stack.client()
        self.client.create_topic(self.name, retention_days=1, collect_interval_s=3600)
        for name in ("billing", "mail"):
            self.client.create_subscription(self.name, name)
        self.due = stack.now() + timedelta(hours=2)
        self.ids: dict[str, str] = {}
        self.near = self._ledger("near")
        self._before_far = {*self.objects("ledgers")}
        self.far = self._ledger("far")
        self.direct: list[str] = []
        self.spoiled: list[dict[str, Any]] = []

    def _ledger(self, body: str) -> list[str]:
        bodies = [f"{body} {number}" for number in range(5)]
        sent = self.client.send_many(self.name, [Message(body=each, deliver_at=self.due) for each in bodies])
        self.ids |= {body: each.id for body, each in zip(bodies, sent, strict=True)}
        self.stack.advance(minutes=6)
        return bodies

    def send_direct(self) -> None:
        """Sends a message due in a minute."""
        self.direct.append(f"direct {len(self.direct)}")
        self.client.send(self.name, self.direct[-1], delay="1m")
        self.stack.advance(minutes=2)

    # ---- the stored bytes
    def keys(self, prefix: str, partition: str = "") -> list[dict[str, Any]]:
        """The items of the topic whose sort key begins with a prefix, in order."""
        found = self.stack.service.dynamodb.items(f"T#{self.name}{partition}")
        return [each for each in found if each["sk"]["S"].startswith(prefix)]

    def set(self, item: dict[str, Any], attribute: str, value: dict[str, Any] | None = None) -> None:
        """Gives an attribute of an item another value, by default of a wrong type."""
        self.spoiled.append(item)
        self._put_item(item | {attribute: value or _WRONG})

    def restore(self) -> None:
        """Puts the spoiled items back."""
        for item in self.spoiled:
            self._put_item(item)

    def _put_item(self, item: dict[str, Any]) -> None:
        table: Any = self.stack.service.topic_states._table
        table._client.put_item(TableName=table._name, Item=item)

    def objects(self, prefix: str) -> list[str]:
        return self.stack.service.objects.names(f"{prefix}/{self.name}/")

    def put(self, name: str, change: Callable[[bytes], bytes | None]) -> None:
        """Changes an object's bytes, or deletes the object."""
        changed = change(self.get(name))
        if changed is None:
            self.stack.service.objects.delete([name])
        else:
            self.stack.service.objects.put(name, changed)

    def get(self, name: str) -> bytes:
        return self.stack.service.objects.get_range(name, 0, 1 << 30)

    def far_ledger(self) -> str:
        [name] = {*self.objects("ledgers")} - self._before_far
        return name

    # ---- what came of it
    def received(self, subscription: str) -> dict[str, list[float]]:
        """The body of each message, with the lateness of each copy in seconds."""
        late: dict[str, list[float]] = {}
        for each in self.stack.receive(self.name, subscription):
            assert each.visible_at is not None
            late.setdefault(each.body, []).append((each.visible_at - each.deliver_at).total_seconds())
        return late

    def listed(self) -> list[Damaged]:
        return self.client.damaged(self.name)

    def refused(self) -> list[str]:
        """The reasons of the refused messages."""
        url = self.client.core.connection.settings.refused_queue_url
        return [json.loads(each.body)["reason"] for each in self.stack.queue(url).everything]


def flipped(data: bytes) -> bytes:
    """Flips a bit in the middle."""
    middle = len(data) // 3
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def gone(_: bytes) -> None:
    """Deletes an object."""


@dataclass(frozen=True)
class Kind:
    """A kind of damage.

    Attributes:
        damage: does the damage, and may let time pass.
        told: pattern of the reason that names the thing.
        where: "listed" by `tidewheel damaged list`, "refused", "mended" by the service itself, or "waits" in its queue.
        what: as the list names it.
        hurt: the subscriptions whose messages are `lost` or `late`.
        lost: bodies that do not come.
        late: bodies that may come late.
        after: looks at what came of it.
        stops: whether functions fail until the item is restored: it stops its topic, or some of its work.
    """

    damage: Callable[[Shop], None]
    told: str = ""
    where: str = "listed"
    what: str = ""
    hurt: tuple[str, ...] = ("billing", "mail")
    lost: Callable[[Shop], list[str]] = field(default=lambda _: [])
    late: Callable[[Shop], list[str]] = field(default=lambda _: [])
    after: Callable[[Shop], None] = field(default=lambda _: None)
    stops: bool = False


def far(shop: Shop) -> list[str]:
    return shop.far


def every(shop: Shop) -> list[str]:
    return [*shop.near, *shop.far, *shop.direct]


def _subscription(shop: Shop) -> None:
    [item] = shop.keys("SUB#billing")
    shop.set(item, "cursor")
    shop.send_direct()


def _bucket(shop: Shop) -> None:
    name = shop.far_ledger()
    [item] = [each for each in shop.keys("BUCKET#") if each["object_name"]["S"] == name]
    shop.set(item, "slots")


def _pausing(shop: Shop) -> None:
    """Lets a plan wait for a paused subscription after its delivery to the other."""
    shop.client.pause(shop.name, "billing")
    shop.stack.advance(hours=3)


def _plan(attribute: str) -> Callable[[Shop], None]:
    def damage(shop: Shop) -> None:
        _pausing(shop)
        [item] = shop.keys("PLAN#")
        shop.set(item, attribute)
        shop.client.resume(shop.name, "billing")

    return damage


def _manifest(shop: Shop) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidewheel.storage.plans.MAX_INLINE_MANIFEST_BYTES", 10)
        _pausing(shop)
    [name] = shop.objects("plans")
    shop.put(name, gone)
    shop.client.resume(shop.name, "billing")


def _checkpoint(shop: Shop) -> None:
    shop.stack.advance(hours=3)
    for name in shop.objects("checkpoints"):
        shop.put(name, flipped)
    shop.stack.advance(hours=20)


def _readable_checkpoint(shop: Shop) -> None:
    """Checks the newest checkpoint, written by the next collection after a day."""
    [*_, newest] = shop.objects("checkpoints")
    assert decode_checkpoint(shop.get(newest)).topic == shop.name


def _trash(shop: Shop) -> None:
    shop.client.send(shop.name, "purged", delay="30h")
    shop.stack.advance(minutes=6)
    shop.client.purge(shop.name, start=shop.due + timedelta(hours=20))
    for item in shop.keys("TRASH#"):
        shop.set(item, "objects")


def _delivery(shop: Shop) -> None:
    shop.stack.advance(hours=3)
    shop.client.replay(shop.name, "billing")
    [item] = shop.keys("DELIVERY#")
    shop.set(item, "parts")


def _park(attribute: str, change: Callable[[bytes], bytes] | None = None) -> Callable[[Shop], None]:
    def damage(shop: Shop) -> None:
        shop.client.pause(shop.name, "billing")
        shop.send_direct()
        [item] = shop.keys("PARK#")
        shop.set(item, attribute, None if change is None else {"B": change(item[attribute]["B"])})
        shop.send_direct()
        shop.client.resume(shop.name, "billing")

    return damage


def _tombstone(shop: Shop) -> None:
    sent = shop.client.send(shop.name, "cancelled", delay="2h")
    shop.client.cancel(shop.name, sent.id)
    [item] = shop.keys("", "#TOMB")
    shop.set(item, "ttl")


def _recurring(shop: Shop) -> None:
    shop.client.send_recurring(shop.name, "report", "report", every="2h")
    [item] = shop.keys("RECUR#")
    shop.set(item, "rule")


def _rule(shop: Shop) -> None:
    shop.client.send_recurring(shop.name, "report", "report", every="2h")
    [item] = shop.keys("RECUR#")
    shop.set(item, "rule", {"S": "nope"})


def _key(shop: Shop) -> None:
    shop.client.send(shop.name, "first", delay="1h", key="cart-17")
    shop.stack.advance(minutes=6)
    [item] = [each for n in range(16) for each in shop.keys("", f"#KEY#{n:02d}")]
    shop.set(item, "sent_ms")
    shop.direct += ["in its pack", "in its pack, with a key"]
    messages = [
        Message(body="second", delay="1h", key="cart-17"),
        *(Message(body=each, delay="1h", key=key) for each, key in zip(shop.direct, (None, "cart-18"), strict=True)),
    ]
    shop.client.send_many(shop.name, messages)
    shop.stack.advance(minutes=6)


def _ledger(change: Callable[[bytes], bytes | None]) -> Callable[[Shop], None]:
    return lambda shop: shop.put(shop.far_ledger(), change)


def _pack(shop: Shop) -> None:
    shop.stack.sqs.send_message(
        QueueUrl=shop.client.core.connection.settings.ingest_queues(shop.name)[0],
        MessageBody="no pack",
        MessageAttributes={PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": b"no pack"}},
    )


BILLING = ("billing",)
KINDS: dict[str, Kind] = {
    # First, since its hours pass for each topic that is there.
    "checkpoint": Kind(_checkpoint, where="mended", after=_readable_checkpoint),
    "ledger, a bit": Kind(_ledger(flipped), "the checksum does not match", what="messages", lost=far),
    "ledger, gone": Kind(_ledger(gone), "does not exist", what="messages", lost=far),
    "item of a subscription": Kind(_subscription, "SUB#billing is not", what="subscription", lost=every, stops=True),
    "item of a bucket": Kind(_bucket, "BUCKET#.* is not readable", what="ledger", lost=every, stops=True),
    "item of a plan": Kind(_plan("end_slot"), "PLAN#.* is not", what="plan", hurt=BILLING, lost=every, stops=True),
    "plan": Kind(_plan("manifest"), "PLAN#.* is not readable", what="plan", hurt=BILLING, lost=every, stops=True),
    "item of a delivery": Kind(_delivery, "DELIVERY#.* is not readable", what="delivery", stops=True),
    "item of a park": Kind(
        _park("rows"),
        "PARK#.* is not readable",
        what="park",
        hurt=BILLING,
        lost=lambda shop: shop.direct[:1],
        late=lambda shop: shop.direct[1:],
    ),
    "park": Kind(
        _park("ledger", flipped),
        "park .*: the checksum does not match",
        what="messages",
        hurt=BILLING,
        lost=lambda shop: shop.direct[:1],
        late=lambda shop: shop.direct[1:],
    ),
    "manifest, gone": Kind(_manifest, where="mended", hurt=BILLING, late=every),
    "item of a merged ledger": Kind(_trash, "TRASH#.* is not readable", what="merged ledger"),
    "item of a tombstone": Kind(_tombstone, "is not readable", what="cancelled message"),
    "rule of a recurring message": Kind(_rule, "not what Rule.to_json writes", what="recurring message"),
    "item of a recurring message": Kind(_recurring, "RECUR#report is not readable", what="recurring message"),
    "item of a key": Kind(_key, where="waits", stops=True),
    "pack": Kind(_pack, "not a readable pack", where="refused"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_told_with_a_reason_and_touches_nothing_else(stack: MemoryTidewheel, kind: str) -> None:
    row, failed = KINDS[kind], len(stack.failures)
    shop = Shop(stack, kind)
    before, began = Counter(stack.invocations), stack.now()
    row.damage(shop)
    stack.advance(hours=4)
    calls = Counter(stack.invocations) - before
    if not row.stops:
        assert [(each.function, repr(each.error)[:300]) for each in stack.failures[failed:]][:3] == []
    found = shop.listed()
    if row.where in ("mended", "waits"):
        assert found == []
    else:
        told = shop.refused() if row.where == "refused" else [each.reason for each in found if each.what == row.what]
        assert any(re.search(row.told, each) for each in told), (told, found)
    # What looks inside answers for the rest.
    counted = [each for each in found if each.what in ("subscription", "ledger", "plan", "delivery", "park")]
    assert shop.client.stats(shop.name).unreadable == len(counted)
    if row.where == "listed" and not row.stops:
        status = shop.client.get(shop.name, shop.ids[shop.near[0]])
        assert status.message is not None
        assert status.message.body == shop.near[0]
    row.after(shop)
    got = {name: shop.received(name) for name in (("mail",) if row.what == "subscription" else ("billing", "mail"))}
    for subscription, late in got.items():
        lost, tardy = (row.lost(shop), row.late(shop)) if subscription in row.hurt else ([], [])
        assert [each for each in every(shop) if (each in late) == (each in lost)] == [], (subscription, late)
        assert {body: each for body, each in late.items() if len(each) != 1} == {}
        assert {body: each for body, each in late.items() if each[0] > 2 and body not in tardy} == {}
    if row.stops:
        shop.restore()
        stack.advance(hours=3)
        for subscription, late in got.items():
            assert set(every(shop)) <= set(late) | set(shop.received(subscription)), "all comes when it is restored"
        return
    hours = (stack.now() - began) // timedelta(hours=1)
    # Of the topics before, what cannot be read is tried once an hour, and a recurring message is looked for as often.
    assert calls["dispatch"] + calls["deliver"] <= 25 + 7 * hours, calls
