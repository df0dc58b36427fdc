"""Ports of the flows to storage, queues and schedules.

Each port is a file of this room, with its values beside it. Each port has an implementation on AWS (`tidewheel.aws`)
and an implementation in memory (`tidewheel.memory`). A suite in `tests/contract` states the promises of each port and
runs against both. Every read is strongly consistent unless its docstring says otherwise. Every write is one atomic,
conditional change. An implementation does I/O and decides nothing.
"""

from __future__ import annotations

from typing import Protocol

from tidewheel.clock import Clock
from tidewheel.flows.ports.parallel import Parallel
from tidewheel.flows.ports.queues import Queues
from tidewheel.flows.ports.runs import Runs
from tidewheel.flows.ports.wheel import Wheel
from tidewheel.storage.buckets import Buckets
from tidewheel.storage.checks import Checks
from tidewheel.storage.deletions import Deletions
from tidewheel.storage.deliveries import Deliveries
from tidewheel.storage.keys import Keys
from tidewheel.storage.merges import Merges
from tidewheel.storage.notes import Notes
from tidewheel.storage.objects import Objects
from tidewheel.storage.parks import Parks
from tidewheel.storage.plans import Plans
from tidewheel.storage.recurring import RecurringMessages
from tidewheel.storage.set_aside import SetAsideItems
from tidewheel.storage.subscriptions import Subscriptions
from tidewheel.storage.tombstones import Tombstones
from tidewheel.storage.topic_states import TopicStates
from tidewheel.storage.unreadable import UnreadableItems


class Storage(Protocol):
    """The ports of all stored state, which is a table and objects."""

    @property
    def topic_states(self) -> TopicStates: ...
    @property
    def buckets(self) -> Buckets: ...
    @property
    def merges(self) -> Merges: ...
    @property
    def plans(self) -> Plans: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def parks(self) -> Parks: ...
    @property
    def set_aside(self) -> SetAsideItems: ...
    @property
    def unreadable(self) -> UnreadableItems: ...
    @property
    def tombstones(self) -> Tombstones: ...
    @property
    def keys(self) -> Keys: ...
    @property
    def notes(self) -> Notes: ...
    @property
    def recurring(self) -> RecurringMessages: ...
    @property
    def checks(self) -> Checks: ...
    @property
    def deletions(self) -> Deletions: ...
    @property
    def objects(self) -> Objects: ...


class Ports(Storage, Protocol):
    """All ports that a function uses."""

    @property
    def queues(self) -> Queues: ...
    @property
    def wheel(self) -> Wheel: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def parallel(self) -> Parallel: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def max_skew_ms(self) -> int: ...
