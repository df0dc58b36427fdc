"""AWS that denies, throttles or does not answer one read: the rest of the page comes, with the reason."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.console.site import Site
from tidewheel.console import reading
from tidewheel.console.app import mark


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    found = Site(local=False)
    found.client.create_topic("orders")
    found.client.create_subscription("orders", "billing")
    found.client.create_topic("retries")
    yield found
    found.close()


def fails(site: Site, monkeypatch: pytest.MonkeyPatch, name: str, how: Any) -> None:
    """Lets a call of the console's client fail for the topic orders."""
    real = getattr(site.console_client, name)

    def call(*given: Any, **named: Any) -> Any:
        if given[:1] in ((), ("orders",)):
            how()
        return real(*given, **named)

    monkeypatch.setattr(site.console_client, name, call, raising=False)


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "arn:aws:iam::123456789012:user/me"}}, "Query")


def refuse(code: str) -> Any:
    def how() -> None:
        raise error(code)

    return how


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("AccessDeniedException", "your credentials do not allow Query"),
        ("ThrottlingException", "AWS refused Query (ThrottlingException)"),
        ("ExpiredTokenException", "have expired"),
    ],
)
def test_one_topic_that_cannot_be_read_leaves_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    fails(site, monkeypatch, "stats", refuse(code))
    status, _, text = site.ask("/")
    assert status == 200
    assert told in text
    assert "123456789012" not in text
    assert text.count('href="/topics/retries"') == 1
    status, _, text = site.ask("/topics/orders")
    assert status == 200
    assert told in text
    assert "Purge orders" in text


def test_a_read_that_does_not_answer_is_told_and_waited_for_no_longer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = False
    monkeypatch.setattr(reading, "PAGE_S", 0.5)

    def hang() -> None:
        while not ended:
            time.sleep(0.05)

    fails(site, monkeypatch, "stats", hang)
    try:
        status, _, text = site.ask("/")
        assert status == 200
        assert "no answer within" in text
        assert "retries" in text
    finally:
        ended = True


def test_a_slow_page_holds_up_no_other_and_each_tells_its_own_requests(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ends = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        begun.release()
        assert ends.wait(30)

    def requests() -> list[str]:
        return re.findall("([0-9]+) requests to AWS for this page", site.ask("/topics/retries/recurring")[2])

    alone = requests()
    fails(site, monkeypatch, "stats", hang)
    slow: list[str] = []
    tabs = [
        threading.Thread(target=lambda path=path: slow.append(site.ask(path)[2]))
        for path in ("/", *["/topics/orders"] * 3)
    ]
    try:
        for each in tabs:
            each.start()
        assert all(begun.acquire(timeout=10) for _ in range(2))
        assert requests() == alone != ["0"]
        assert slow == []
    finally:
        ends.set()
        for each in tabs:
            each.join(30)
    assert len(slow) == 4 and all("no answer within" not in page for page in slow)


def test_the_page_comes_when_nothing_can_be_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("topics", "stats", "health", "recurring", "get", "peek", "ledgers", "history", "sent_by_hour"):
        fails(site, monkeypatch, name, refuse("AccessDenied"))
    id = "01M89Q21GM5BYH7NQ9AJ4M8DT0"
    for path in (
        "/",
        "/trouble",
        "/topics/orders",
        "/topics/orders/messages",
        f"/topics/orders/messages/{id}",
        "/topics/orders/sent",
        "/topics/orders/recurring",
        "/topics/orders/dead",
        "/dead",
        f"/search?topic=orders&q={id}",
        "/cost",
    ):
        status, _, text = site.ask(path)
        assert status == 200, path
        assert path == "/cost" or "your credentials do not allow" in text, path


def test_a_form_that_aws_refuses_tells_why(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(site, monkeypatch, "pause", refuse("AccessDeniedException"))
    assert "your credentials do not allow Query" in site.after("/topics/orders/subscriptions/billing/pause", {})


def test_a_defect_of_a_page_is_told_and_logged(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails(site, monkeypatch, "recurring", lambda: {}["a defect"])
    status, _, text = site.ask("/topics/orders/recurring")
    assert status == 200
    assert "KeyError: see the console&#39;s log" in text
    assert "KeyError: 'a defect'" in caplog.text


def test_a_change_in_the_background_that_fails_by_a_defect_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails(site, monkeypatch, "cancel_where", lambda: {}["a defect"])
    form = {"do": "cancel", "typed": "orders", "by": "", "q": ""}
    _, headers, _ = site.ask("/topics/orders/messages/matching", form)
    end_s = time.monotonic() + 20
    while "Then it failed by a defect" not in (page := site.ask(headers["location"])[2]) and time.monotonic() < end_s:
        time.sleep(0.01)
    assert "Then it failed by a defect" in page
    assert "KeyError: 'a defect'" in caplog.text


def test_a_deployed_stacks_dead_letters_are_only_looked_at_on_demand(site: Site) -> None:
    site.client.send("orders", "letter", delay=1)
    site.stack.advance(minutes=1)
    for _ in range(12):
        site.client.receive("orders", "billing")
        site.stack.advance(minutes=6)
    before = site.meter["sqs.ReceiveMessage"]
    _, _, text = site.ask("/topics/orders/dead")
    assert site.meter["sqs.ReceiveMessage"] == before
    assert "Look at 100 of billing" in text
    status, headers, _ = site.ask("/topics/orders/subscriptions/billing/look", {"back": "/topics/orders/dead"})
    assert status == 303
    taken = site.meter["sqs.ReceiveMessage"]
    assert taken > before
    for _ in range(2):  # the page is read again and again, the letters are not
        assert "<code>letter</code>" in site.ask(headers["location"])[2]
    assert site.meter["sqs.ReceiveMessage"] == taken


def test_a_page_that_shows_the_same_later_has_the_same_mark(site: Site) -> None:
    site.client.send("orders", "later", delay="20d", key="k")
    site.stack.advance(minutes=6)
    [id] = [each.id for each in site.client.find("orders", key_prefix="k")]
    for path in (
        "/",
        "/topics/orders",
        "/topics/orders/messages",
        f"/topics/orders/messages/{id}",
        "/trouble",
        "/cost",
    ):
        marks = set()
        for _ in range(2):
            marks.add(mark(site.ask(path)[2]))
            site.stack.advance(seconds=2)
        assert len(marks) == 1, path


def test_of_an_exact_key_no_other_messages_are_changed(site: Site) -> None:
    for key in ("cart-1", "cart-10"):
        site.client.send("orders", "x", delay="20d", key=key)
    site.stack.advance(minutes=6)
    assert "Cancel all matching" not in site.ask("/topics/orders/messages?by=key&q=cart-1")[2]
    assert "Cancel all matching" in site.ask("/topics/orders/messages?by=prefix&q=cart-1")[2]
    form = {"do": "cancel", "typed": "orders", "by": "key", "q": "cart-1"}
    assert "select by a key prefix" in site.after("/topics/orders/messages/matching", form)
    assert len(list(site.client.find("orders", key_prefix="cart-"))) == 2


def test_of_selected_messages_each_is_changed_by_itself_and_the_audit_line_names_them(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    first, last = (site.client.send("orders", body, delay="20d").id for body in "ab")
    site.stack.advance(minutes=6)
    other = site.client.send("orders", "cancelled", delay="20d").id
    site.client.cancel("orders", other)
    ids = [("ids", first), ("ids", other), ("ids", last)]
    with caplog.at_level("INFO", "tidewheel.console.audit"):
        form = [*ids, ("do", "reschedule"), ("delay", "3h")]
        assert "Moved 2 of 3 selected. Too late or gone: 1." in site.after("/topics/orders/messages/selected", form)
    line = json.loads(caplog.records[-1].message)
    assert (line["do"], line["ids"]) == ("reschedule", f"{first} {other} {last}")
    for do in ("", "all"):
        assert "choose cancel" in site.after("/topics/orders/messages/selected", [("ids", last), ("do", do)])


def test_typed_text_comes_back_as_it_was_and_its_lines_end_as_typed(site: Site) -> None:
    text = site.after("/topics/orders/send", {"body": "a\r\nb\u202e", "delay": "never"})
    assert "a&#xd;\nb&#x202e;</textarea>" in text
    site.after("/topics/orders/send", {"body": "a\r\nb", "delay": "19d", "key": "lines"})
    site.stack.advance(minutes=6)
    [found] = site.client.find("orders", key_prefix="lines")
    assert site.client.get("orders", found.id).message.body == "a\nb"  # type: ignore[union-attr]


def test_a_form_with_too_many_fields_is_refused(site: Site) -> None:
    assert site.ask("/topics/orders/messages/selected", [("ids", "x")] * 2001)[0] == 413


def test_messages_that_can_be_read_are_listed_beside_the_reason_for_the_others(site: Site) -> None:
    site.client.create_topic("damaged")
    sent = []
    for body in ("first", "second"):
        sent.append(site.client.send("damaged", body, delay="2h").id)
        site.stack.advance(minutes=6)
    bad = site.client.ledgers("damaged", 1)[0].object
    storage = site.client.core.connection.storage
    storage.objects.put(bad, b"rubbish" * 1000)
    status, _, text = site.ask("/topics/damaged/messages")
    assert status == 200
    assert "1 ledgers of topic &#39;damaged&#39; cannot be read" in text
    assert sum(f'id="m-{each}"' in text for each in sent) == 1


def test_a_message_of_a_topic_that_nobody_reads_is_told_at_once(site: Site) -> None:
    assert "nobody gets it" in site.after("/topics/retries/send", {"body": "x", "delay": "2h"})
    assert "nobody gets it" not in site.after("/topics/orders/send", {"body": "x", "delay": "2h"})
    site.stack.advance(minutes=6)
    assert "Topic retries has no subscription" in site.ask("/trouble")[2]
