"""Bundles all stored state, which is a table and objects."""

from __future__ import annotations

from tidewheel.storage.buckets import Buckets, Merges
from tidewheel.storage.checks import Checks
from tidewheel.storage.deliveries import Deliveries
from tidewheel.storage.keys import Keys
from tidewheel.storage.notes import Notes
from tidewheel.storage.objects import Objects
from tidewheel.storage.parks import Parks
from tidewheel.storage.plans import Plans
from tidewheel.storage.recurring import RecurringMessages
from tidewheel.storage.subscriptions import Adoptions, Subscriptions
from tidewheel.storage.table import Table
from tidewheel.storage.tombstones import Claims, Tombstones
from tidewheel.storage.topic_states import Deletions, TopicList, TopicStates
from tidewheel.storage.unreadable import UnreadableItems


class Storage:
    """The stored state of all topics. Safe for use by several threads.

    Every read is strongly consistent unless its docstring says otherwise. Every write is one atomic change, and
    conditional unless its docstring names no condition. A write raises ConcurrentModification if other changes of the
    same items, or throttling, come first at each try. The client repeats a request whose response was lost. A
    transaction has a token and takes effect once. A single conditional change may be refused because its first try
    succeeded. The caller then reads again and finds the change done.

    Args:
        table: the table.
        objects: the objects, among them manifests that are too large for an item.
    """

    def __init__(self, table: Table, objects: Objects) -> None:
        self.objects = objects
        self.topic_states = TopicStates(table)
        self.topic_list = TopicList(table)
        self.buckets = Buckets(table)
        self.merges = Merges(table)
        self.plans = Plans(table, objects)
        self.subscriptions = Subscriptions(table)
        self.deliveries = Deliveries(table)
        self.parks = Parks(table)
        self.unreadable = UnreadableItems(table)
        self.tombstones = Tombstones(table)
        self.claims = Claims(table)
        self.keys = Keys(table)
        self.notes = Notes(table)
        self.recurring = RecurringMessages(table)
        self.checks = Checks(table)
        self.deletions = Deletions(table)
        self.adoptions = Adoptions(table)
