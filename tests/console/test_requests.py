"""How many AWS requests each page takes, and of which kind: by subscriptions and topics, whatever waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.console.asgi import ask
from tidewheel import console
from tidewheel.console import RequestMeter
from tidewheel.local import LocalTidewheel
from tidewheel.model.message import Message

TOPICS = ("orders", "retries")
STATS = {"dynamodb.GetItem": 1, "dynamodb.Query": 4}
OF_A_SUBSCRIPTION = {"sqs.GetQueueAttributes": 2}
"""Its queue, and its dead-letter queue."""
GET = {"dynamodb.GetItem": 3, "dynamodb.Query": 2, "s3.GetObject": 1}
PEEK = {"dynamodb.GetItem": 1, "dynamodb.Query": 2, "s3.GetObject": 1}
FIND_BY_KEY = {"dynamodb.GetItem": 1, "dynamodb.Query": 16, "dynamodb.BatchGetItem": 1}
FIND_BY_PREFIX = FIND_BY_KEY | {"dynamodb.BatchGetItem": 2}
TOPIC_LIST = Counter({"dynamodb.Query": 1, "dynamodb.BatchGetItem": 1})
OF_THE_SERVICE = TOPIC_LIST + Counter({"dynamodb.GetItem": 1, "sqs.GetQueueAttributes": 7})
"""The topics, the last sweep, the three queues with their dead-letter queues, and that of refused messages."""
SENT = {"dynamodb.GetItem": 1, "dynamodb.Query": 2}
"""Nothing was sent. Each plan and each segment that is read adds a GET, and the first message a query and a batch."""
LISTED = {"dynamodb.GetItem": 1, "dynamodb.Query": 1}


def stats(subscriptions: int, topics: int = 1) -> Counter[str]:
    """Requests of the stats of some topics with as many subscriptions each."""
    found = Counter(STATS) + Counter({name: count * subscriptions for name, count in OF_A_SUBSCRIPTION.items()})
    return Counter({name: count * topics for name, count in found.items()})


def pages(subscriptions: int) -> dict[str, Counter[str]]:
    """Address -> its requests."""
    topic = "/topics/orders"
    return {
        "/": stats(subscriptions, len(TOPICS)) + TOPIC_LIST + Counter({"dynamodb.Query": len(TOPICS)}),
        topic: stats(subscriptions) + Counter(PEEK),
        f"{topic}?ledgers=": stats(subscriptions) + Counter(PEEK) + Counter(LISTED),
        f"{topic}/sent": Counter(SENT),
        f"{topic}/sent?key=k": Counter(SENT),
        "/search?q=k-00001": TOPIC_LIST + Counter(GET) + Counter({"dynamodb.GetItem": len(TOPICS)}),
        f"{topic}/messages": Counter(PEEK),
        f"{topic}/messages?from=2026-01-02T01:00Z": Counter(PEEK),
        f"{topic}/messages?by=id&q={{id}}": Counter(GET),
        f"{topic}/messages?by=key&q=k-00001": Counter(FIND_BY_KEY),
        f"{topic}/messages?by=prefix&q=k-": Counter(FIND_BY_PREFIX),
        f"{topic}/messages?by=prefix&q=k-&after=k-00003": Counter(FIND_BY_PREFIX),
        f"{topic}/messages/{{id}}": Counter(GET),
        f"{topic}/messages/{{id}}/body": Counter(GET),
        f"{topic}/messages/{{large}}": Counter(GET) + Counter({"s3.GetObject": 1}),
        f"{topic}/recurring": Counter(LISTED),
        f"{topic}/dead": stats(subscriptions),
        "/dead": stats(subscriptions, len(TOPICS)) + TOPIC_LIST,
        "/trouble": stats(subscriptions, len(TOPICS)) + OF_THE_SERVICE,
        "/cost": Counter(),
    }


class Filled:
    """A stack in which messages wait, with the same keys and times for any number."""

    def __init__(self, subscriptions: int, waiting: int) -> None:
        self.stack = LocalTidewheel(start="2026-01-01T00:00:00Z").open()
        client = self.stack.client()
        for topic in TOPICS:
            client.create_topic(topic)
            for number in range(subscriptions):
                client.create_subscription(topic, f"s{number}")
        client.send_recurring("orders", "report", "x", every="1d")
        messages = [Message(body="x", delay=90_000 + i * 600 / waiting, key=f"k-{i:05}") for i in range(waiting)]
        self.named = {
            "id": client.send_many("orders", messages)[0].id,
            "large": client.send("orders", "x" * 2_000_000, delay="2d").id,
        }
        self.stack.advance(minutes=6)

    def units(self, page: str) -> Counter[str]:
        """Returns what AWS bills for the reads of a page."""
        client = self.stack.client()
        assert client.core.connection.settings
        before = Counter(self.stack.requests.units)
        assert ask(console.app(client), page.format(**self.named)).status == 200
        return Counter(self.stack.requests.units) - before

    def asked(self, page: str) -> Counter[str]:
        """Returns the requests of a page, as the console itself counts them, but for the settings."""
        meter = RequestMeter(self.stack.session)
        client = self.stack.client()
        assert client.core.connection.settings
        meter.clear()
        answer = ask(console.app(client, requests=meter), page.format(**self.named))
        assert answer.status == 200, answer.text
        return Counter(meter)


@pytest.fixture(scope="module", params=[(1, 60), (1, 600), (3, 60)])
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[int, Filled]]:
    subscriptions, waiting = request.param
    found = Filled(subscriptions, waiting)
    yield subscriptions, found
    found.stack.close()


@pytest.mark.parametrize("page", pages(1))
def test_a_page_takes_so_many_requests_whatever_waits(filled: tuple[int, Filled], page: str) -> None:
    subscriptions, stack = filled
    assert stack.asked(page) == pages(subscriptions)[page]


def test_a_search_reads_a_few_keys_of_many(filled: tuple[int, Filled]) -> None:
    _, stack = filled
    assert stack.units("/topics/orders/messages?by=prefix&q=k-") == {"dynamodb.read": 17 + 51}
