"""Damages stored data. A bit of an object, a whole object, or an item becomes unreadable.

What is damaged stops its own messages. All others are on time. In most runs an operator restores everything, and then
every message comes. In the other runs ledgers are lost, and an operator gives up what was set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from tests.simulation.faults import item_key
from tests.simulation.promises import TopicLife, Violation
from tests.simulation.world import World
from tests.stored import stored
from tidewheel.client.damaged import retry
from tidewheel.errors import CorruptLedger, ObjectMissing
from tidewheel.flows.delivery.parking import parked_rows
from tidewheel.ledger.bucket import Bucket
from tidewheel.ledger.ledger import decode_segment
from tidewheel.ledger.reader import segments_of
from tidewheel.model.message import MessageId, id_text
from tidewheel.model.object_names import CHECKPOINTS, LEDGERS, PLANS, topic_prefix
from tidewheel.model.park import Park
from tidewheel.model.plan import Plan
from tidewheel.model.subscription_state import Delivery

_LASTS_S = (600, 3600, 7200, 86_400)
_MOST = 4
"""Damages at one time."""
_NO_FILTER = '{"colour": [{"like": "a newer release"}]}'
_NO_RULE = "{}"
_LOSSES = 0.35
"""How likely nothing is restored in a run."""


@dataclass(slots=True, kw_only=True)
class Damage:
    """A damage to a stored object or item.

    Attributes:
        what: the object's name, or the item's.
        mend: restores what was damaged.
    """

    what: str
    life: TopicLife
    until_ms: int
    mend: Callable[[], None]


@dataclass(slots=True)
class Damages:
    """The damages of a world.

    Attributes:
        under_way: damages that nobody has mended.
        losses: whether ledgers are lost for ever, and nothing else is damaged.
        touched: messages that damage delays, or that are lost.
        gone: names of objects that were ever deleted.
        flipped: names of objects that ever had a wrong bit.
        again: how often a message may come once more, because a plan is made anew: from each ledger that has it.
    """

    world: World
    losses: bool = field(init=False)
    under_way: list[Damage] = field(default_factory=list)
    touched: set[MessageId] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    flipped: set[str] = field(default_factory=set)
    again: Counter[MessageId] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.losses = self.random.random() < _LOSSES

    @property
    def random(self) -> Random:
        """The run's source of chance."""
        return self.world.random

    def begin(self, life: TopicLife) -> None:
        """Damages something of a topic, if there is anything."""
        items = stored(self.world.service).of(life.name)
        if life.ending or items.state is None or len(self.under_way) >= _MOST:
            return
        planned = {each.object_name for plan in items.plans.values() for each in plan.segments}
        kinds: dict[str, list[str]] = {
            "ledger": sorted({each.object_name for each in items.buckets.values()}),
            "planned": sorted(planned),
            "park": sorted(each.object_name for each in items.parks.values() if each.object_name is not None),
            "body": sorted(each.payload for each in self.world.promises.sent.values() if each.payload is not None),
            "checkpoint": self.world.service.objects.names(topic_prefix(CHECKPOINTS, life.name)),
            "filter": sorted(items.subscriptions),
            "recurring": sorted(items.recurring),
        }
        kept: dict[str, Iterable[Bucket | Plan | Delivery | Park]] = {
            "plan's item": items.plans.values(),
            "delivery's item": items.deliveries.values(),
            "park's item": items.parks.values(),
        }
        # What a bucket says can be had from its ledger, unless that is damaged, too.
        hurt = {each.what for each in self.under_way}
        kept["bucket's item"] = [each for each in items.buckets.values() if each.object_name not in hurt]
        named = {str(item_key(each)): each for values in kept.values() for each in values}
        kinds |= {kind: sorted(str(item_key(each)) for each in values) for kind, values in kept.items()}
        if self.losses:
            kinds = {"ledger": kinds["ledger"]}
        damaged = self.world.faults.damaged
        there = {each for each in self.world.service.objects.names() if ("bucket", each) not in damaged}
        for kind in ("ledger", "planned", "park", "body"):
            kinds[kind] = [each for each in kinds.get(kind, []) if each in there]
        known = {each.what for each in self.under_way}
        choices = [(kind, name) for kind, names in kinds.items() for name in names if name not in known]
        if not choices:
            return
        kind = self.random.choice(sorted({kind for kind, _ in choices}))
        name = self.random.choice([name for its, name in choices if its == kind])
        damage: Callable[[TopicLife, str], Callable[[], None]] = {
            "filter": self._filter,
            "recurring": self._recurring,
            **dict.fromkeys(kept, lambda life, name: self._item(life, named[name])),
        }.get(kind, self._object)
        mend = damage(life, name)
        until_ms = self.world.now_ms + self.random.choice(_LASTS_S) * 1000
        self.under_way.append(Damage(what=name, life=life, until_ms=until_ms, mend=mend))
        self.world.count(f"damage: {kind}")

    # ---- damage
    def _object(self, life: TopicLife, name: str) -> Callable[[], None]:
        """Deletes an object, or flips one bit of the object."""
        objects = self.world.service.objects
        whole = objects.get_range(name, 0, 1 << 30)
        if self.random.random() < 0.5:
            objects.delete([name])
            self.gone.add(name)
            place = None
        else:
            self.flipped.add(name)
            place = self.random.randrange(len(whole))
            flipped = bytes([whole[place] ^ 1 << self.random.randrange(8)])
            objects.put(name, whole[:place] + flipped + whole[place + 1 :])
        touched = _ids(name, whole, place) if name.endswith(".parquet") else set()
        self.touched |= touched
        self.world.note(f"{name} of {life.name} {'is gone' if place is None else f'is wrong at {place}'}: {touched}")
        return lambda: objects.put(name, whole)

    def _filter(self, life: TopicLife, name: str) -> Callable[[], None]:
        """Gives a subscription a filter unknown to this release."""
        for reader in self.world.promises.named(life.name, name):
            reader.hindered = True
        self.world.note(f"the filter of {life.name}/{name} cannot be read")
        return _spoil(stored(self.world.service).of(life.name).subscriptions, name, "filter_policy", _NO_FILTER)

    def _recurring(self, life: TopicLife, name: str) -> Callable[[], None]:
        """Makes the rule of a recurring message unreadable."""
        life.repeated[name].missed = True
        self.world.note(f"the recurring message {name} of {life.name} cannot be read")
        return _spoil(stored(self.world.service).of(life.name).recurring, name, "rule", _NO_RULE)

    def _item(self, life: TopicLife, item: Bucket | Plan | Delivery | Park) -> Callable[[], None]:
        """Makes an item of the table unreadable."""
        key = item_key(item)
        assert key is not None
        touched = self._messages_of(life, item)
        self.touched |= touched
        self.world.faults.damaged.add(key)
        if isinstance(item, Plan):
            objects = self.world.service.objects
            plans = [each for each in objects.names(topic_prefix(PLANS, life.name)) if each.endswith(".parquet")]
            for name in [*objects.names(topic_prefix(LEDGERS, life.name)), *plans]:
                with suppress(CorruptLedger, ObjectMissing):
                    self.again.update(_ids(name, objects.get_range(name, 0, 1 << 30), None))
            self.again.update(touched)
        self.world.note(f"item {key} of {life.name} cannot be read: {touched}")
        return lambda: self.world.faults.damaged.discard(key)

    def _messages_of(self, life: TopicLife, item: Bucket | Plan | Delivery | Park) -> set[MessageId]:
        """Returns the messages that an unreadable item may delay. A repair makes a new bucket without delay."""
        match item:
            case Bucket():
                return set()
            case Park():
                with suppress(CorruptLedger, ObjectMissing):
                    return _ids_of(parked_rows(self.world.service.objects, item))
                return set()
            case Delivery():
                plan = stored(self.world.service).of(life.name).plans.get(item.key.plan)
                return set() if plan is None else self._messages_of(life, plan)
        objects, found = self.world.service.objects, set[MessageId]()
        for name, segment in {(each.object_name, each.segment) for each in item.segments}:
            with suppress(CorruptLedger, ObjectMissing):  # what is damaged is touched already
                data = objects.get_range(name, segment.offset, segment.length)
                found |= _ids_of(decode_segment(data, object_name=name, segment=segment))
        return found

    # ---- restored, or given up
    def mend(self, until_ms: float) -> None:
        """Repairs the damages that end by a time, and retries the set-aside items."""
        over = [each for each in self.under_way if each.until_ms <= until_ms]
        if not over or self.losses:
            return
        self.under_way = [each for each in self.under_way if each not in over]
        for each in over:
            if not each.life.ending:
                each.mend()
                self.world.note(f"{each.what} of {each.life.name} is restored")
        connection: Any = SimpleNamespace(storage=self.world.service)
        for topic in sorted({each.life.name for each in over}):
            if self.world.service.topic_states.read(topic) is None:
                continue
            for item in self.world.service.set_aside.all(topic):
                retry(connection, self.world.clock, topic, f"{item.key.subscription}:{item.key.id}")

    def give_up(self) -> None:
        """Gives up all permanently damaged items.

        Raises:
            Violation: something is still tried, or is set aside without damage.
        """
        for topic, items in stored(self.world.service).topics().items():
            for item in list(items.set_aside.values()):
                if not (self.losses and item.damaged):
                    raise Violation(f"{item.key} is still set aside: {item.reason}", topic, item.key.id)
                self.world.count("damage: given up")
                self.world.service.set_aside.delete([item.key])

    @property
    def lost(self) -> set[MessageId]:
        """The messages that damage may have lost."""
        return self.touched if self.losses else set()


def _spoil(items: dict[str, Any], name: str, attribute: str, unreadable: str) -> Callable[[], None]:
    """Makes a part of an item unreadable. Returns a function to restore the part if still unreadable."""
    whole = getattr(items[name], attribute)
    items[name] = replace(items[name], **{attribute: unreadable})

    def mend() -> None:
        now = items.get(name)
        if now is not None and getattr(now, attribute) == unreadable:
            items[name] = replace(now, **{attribute: whole})

    return mend


def _ids(name: str, whole: bytes, place: int | None) -> set[MessageId]:
    """Returns the ids in a ledger, or in the segment with a wrong byte."""

    def read(offset: int, length: int) -> bytes:
        return whole[offset : offset + length]

    segments = segments_of(read, len(whole), name)
    hit = [each for each in segments if place is not None and each.offset <= place < each.offset + each.length]
    found: set[MessageId] = set()
    for each in hit or segments:
        found |= _ids_of(decode_segment(read(each.offset, each.length), object_name=name, segment=each))
    return found


def _ids_of(rows: pa.Table) -> set[MessageId]:
    return {id_text(id) for id in rows.column("message_id").cast(pa.binary()).to_pylist()}
