"""Each policy reaches what `reach.txt` says, and no attack that was seen goes through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from tests.fuzz.good import ITEMS
from tests.iam.iam_policy import allowed
from tests.iam_requests import requests_of
from tests.infra.reach import POLICIES, Attempt, attempts, item, partitions, reach, sections, statements
from tests.infra.test_client_enforcement import session_of
from tests.infra.test_client_permissions import World
from tests.infra.variants import DEDICATED, MINE, local_template_of
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import MessageId
from tidewheel.storage import table_keys

pytestmark = pytest.mark.long

ATTRIBUTES = sorted(
    {"unheard_of"}.union(*ITEMS.values(), *table_keys.CLIENT_ITEMS.values(), table_keys.CHECKED_BY_CLIENTS)
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with LocalTidewheel(template=local_template_of(DEDICATED)) as stack:
        yield World(stack)


@pytest.fixture(scope="module")
def tried(world: World) -> list[Attempt]:
    return attempts(world)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_reaches_what_is_listed_and_nothing_else(world: World, tried: list[Attempt], name: str) -> None:
    assert reach(world, tried, name).strip() == sections()[name].strip(), "if it is meant: python -m tests.infra.reach"
    assert not any("*" in action for statement in statements(world, name) for action in statement["Action"])


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("sender cancel", ("tombstone", "key")),
        ("sender reschedule", ("tombstone", "key", "move")),
        ("sender of all", ("tombstone", "key", "move")),
    ],
)
def test_a_sender_puts_no_attribute_but_those_of_its_items_and_of_its_transactions(
    world: World, name: str, kinds: tuple[str, ...]
) -> None:
    given = statements(world, name)
    found: dict[str, set[str]] = {}
    for place, pk in partitions().items():
        for attribute in ATTRIBUTES:
            params = {"TableName": world.settings.table, "Item": item(pk, attribute)}
            if all(allowed(given, each) for each in requests_of("dynamodb", "PutItem", params)):
                found.setdefault(place, set()).add(attribute)
    own = {table_keys.PARTITION_KEY, table_keys.SORT_KEY}.union(*(table_keys.CLIENT_ITEMS[kind] for kind in kinds))
    places = ["orders tombstones", "orders keys", *["orders moves"] * ("move" in kinds)]
    assert found == dict.fromkeys(places, own | table_keys.CHECKED_BY_CLIENTS)


@pytest.mark.parametrize("name", ["sender cancel", "sender of all"])
def test_under_the_second_reading_alone_a_sender_reaches_its_topic_without_the_index_of_checks(
    world: World, name: str
) -> None:
    given = statements(world, name)

    def may(partition: str, attribute: str) -> bool:
        table = {"TableName": world.settings.table}
        puts = [{"Put": {**table, "Item": item(each, attribute)}} for each in (f"T#{MINE}#TOMB", partition)]
        asked = requests_of("dynamodb", "TransactWriteItems", {"TransactItems": puts})
        return all(allowed(given, each) for each in asked if len(dict(each.context)["dynamodb:LeadingKeys"]) == 2)

    assert may(f"T#{MINE}", "v") and may(f"T#{MINE}", "sealed")
    assert not any(may(f"T#{MINE}", each) for each in ("check_shard", "next_check_ms", "generation"))
    beyond = {place: pk for place, pk in partitions().items() if not place.startswith(f"{MINE} ") and place != MINE}
    assert [place for place, pk in beyond.items() if may(pk, "v")] == []


# ---- attacks that were seen


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("consumer of all", {"claimed", "cancelled", "mail#g"}),
        ("sender of all", {"claimed", "cancelled", "moved_to"}),
        ("sender cancel", {"claimed", "cancelled", "moved_to"}),
    ],
)
def test_nobody_claims_a_message_in_anothers_name_and_no_consumer_leads_it_elsewhere(
    world: World, name: str, may: set[str]
) -> None:
    dynamodb = session_of(world, statements(world, name)).client("dynamodb")
    written = set()
    for attribute in ("claimed", "cancelled", "moved_to", "mail#g", "ghost#g", "mailing#g", "ghost", "mail"):
        try:
            dynamodb.update_item(
                TableName=world.settings.table,
                Key=item(table_keys.claim_key(MINE, MessageId("x"))[0]),
                UpdateExpression="SET #name = :one",
                ExpressionAttributeNames={"#name": attribute},
                ExpressionAttributeValues={":one": {"N": "1"}},
            )
        except ClientError as error:
            assert "dynamodb:UpdateItem" in str(error)
        else:
            written.add(attribute)
    assert written == may


def test_a_subscription_whose_queue_would_have_the_name_of_a_queue_of_the_service_gets_another(world: World) -> None:
    client, work = world.stack.client(), world.settings.work_queue_url
    topic, _, name = work.rpartition("/")[2].removeprefix("tidewheel-").partition("-")
    client.create_topic(topic)
    url = client.create_subscription(topic, name).queue_url
    assert url != work and url.startswith(f"{work}-")
    client.delete_topic(topic, delete_queues=True)
    sqs = world.stack._emulator.wire.session().client("sqs")
    assert work in sqs.list_queues(QueueNamePrefix="tidewheel-")["QueueUrls"]
