"""Bundles the ports of stored state on DynamoDB and S3."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidewheel.aws.dynamodb.buckets import DynamoBuckets
from tidewheel.aws.dynamodb.checks import DynamoChecks
from tidewheel.aws.dynamodb.deletions import DynamoDeletions
from tidewheel.aws.dynamodb.deliveries import DynamoDeliveries
from tidewheel.aws.dynamodb.keys import DynamoKeys
from tidewheel.aws.dynamodb.merges import DynamoMerges
from tidewheel.aws.dynamodb.notes import DynamoNotes
from tidewheel.aws.dynamodb.parks import DynamoParks
from tidewheel.aws.dynamodb.plans import DynamoPlans
from tidewheel.aws.dynamodb.recurring import DynamoRecurring
from tidewheel.aws.dynamodb.set_aside import DynamoSetAsideItems
from tidewheel.aws.dynamodb.subscriptions import DynamoSubscriptions
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.tombstones import DynamoTombstones
from tidewheel.aws.dynamodb.topic_states import DynamoTopicStates
from tidewheel.aws.dynamodb.unreadable import DynamoUnreadableItems
from tidewheel.flows.ports.objects import Objects

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoStorage:
    """Implements the port `Storage` on a DynamoDB table. Safe for use by several threads.

    Each call that changes something raises ConcurrentModification if other changes of the same items, or throttling,
    come first at each try. boto3 repeats a request whose response was lost. A transaction has a token and takes effect
    once. A single conditional change may be refused because its first try succeeded. The caller then reads again and
    finds the change done.

    Args:
        client: boto3's low-level client.
        table: the table's name.
        objects: the objects, among them manifests that are too large for an item.
        page_size: maximum items of a page; None: as many as fit into DynamoDB's megabyte.
        sleep: waits for some seconds between tries.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        *,
        table: str,
        objects: Objects,
        page_size: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        requests = Table(client, table, page_size=page_size, sleep=sleep)
        self.objects = objects
        self.topic_states = DynamoTopicStates(requests)
        self.buckets = DynamoBuckets(requests)
        self.merges = DynamoMerges(requests)
        self.plans = DynamoPlans(requests, objects)
        self.subscriptions = DynamoSubscriptions(requests)
        self.deliveries = DynamoDeliveries(requests)
        self.parks = DynamoParks(requests)
        self.set_aside = DynamoSetAsideItems(requests)
        self.unreadable = DynamoUnreadableItems(requests)
        self.tombstones = DynamoTombstones(requests)
        self.keys = DynamoKeys(requests)
        self.notes = DynamoNotes(requests)
        self.recurring = DynamoRecurring(requests)
        self.checks = DynamoChecks(requests)
        self.deletions = DynamoDeletions(requests)
