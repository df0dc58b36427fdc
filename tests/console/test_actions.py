"""Each action of the console, in a browser, and what it did."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress

import pytest

from tests.console.site import HOSTILE, Site, Tab
from tidewheel import Consumer, Message

pytestmark = pytest.mark.long

OpenTab = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture
def tab(site: Site, open_tab: OpenTab) -> Iterator[Tab]:
    if not site.client.topics():
        site.client.create_topic("orders")
        site.client.create_subscription("orders", "billing")
        site.client.create_subscription("orders", "mail")
    with open_tab() as found:
        found.page.on("dialog", lambda dialog: dialog.accept())
        yield found
        assert found.complaints == []


def result(tab: Tab) -> str:
    tab.page.wait_for_url("**result=*")
    return tab.page.get_by_role("status", name="Result").inner_text()


def waiting(site: Site, *, key: str | None = None) -> str:
    sent = site.client.send("orders", {"a": 1}, delay="2d", key=key)
    site.stack.advance(minutes=6)
    return sent.id


def test_a_message_is_sent_from_the_overview_and_from_its_topic(site: Site, tab: Tab) -> None:
    for path in ("/", "/topics/orders"):
        page = tab.go(path)
        page.get_by_text("New message").click()
        page.get_by_label("Body").fill('{"id": 17}')
        page.get_by_label("Delay").fill("3d")
        page.get_by_label("Key").fill("cart-" + str(len(path)))
        page.get_by_role("button", name="Send a message").click()
        assert result(tab).startswith("Sent. It is due at 2026-11-28")
        page.get_by_role("status", name="Result").get_by_role("link").click()
        page.wait_for_url("**/messages/*")
        page.get_by_text("It is being taken in.").wait_for()
        site.stack.advance(minutes=6)
        page.reload()
        assert page.get_by_role("region", name="Body").inner_text().count('"id": 17') == 1


def test_what_was_typed_stays_when_it_is_wrong(site: Site, tab: Tab) -> None:
    page = tab.go("/topics/orders")
    page.get_by_text("New message").click()
    page.get_by_label("Body").fill(HOSTILE)
    page.get_by_label("Delay").fill("next week")
    page.get_by_role("button", name="Send a message").click()
    assert result(tab).startswith("Not done. Delay: ")
    assert page.get_by_label("Delay").input_value() == "next week"
    assert page.get_by_label("Delay").get_attribute("aria-invalid") == "true"
    assert "'90s', '15m' or '3d 4h'" in page.locator("#h-delay").inner_text()
    assert page.get_by_label("Body").input_value().startswith("<script>")
    assert page.title() != "owned"


def test_a_waiting_message_is_cancelled(site: Site, tab: Tab) -> None:
    id = waiting(site)
    page = tab.go(f"/topics/orders/messages/{id}")
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert result(tab) == "Cancelled. It never comes."
    assert site.client.get("orders", id).state == "cancelled"
    assert page.get_by_role("list", name="Life").locator("[aria-current=step]").inner_text().startswith("cancelled")


def test_a_message_is_moved_by_a_delay_and_to_a_time(site: Site, tab: Tab) -> None:
    for label, text, due in (
        ("Delay from now", "30d", "2026-12-25"),
        ("or due at", "2027-01-02T09:00+01:00", "2027-01-02T08"),
    ):
        id = waiting(site)
        page = tab.go(f"/topics/orders/messages/{id}")
        page.get_by_label(label).fill(text)
        page.get_by_role("button", name="Reschedule", exact=True).click()
        assert result(tab).startswith("Moved. It is due at")
        moved = site.client.get("orders", id).moved_to
        assert moved is not None
        assert site.client.get("orders", moved).deliver_at.isoformat().startswith(due)


def test_a_message_is_delivered_now(site: Site, tab: Tab) -> None:
    id = waiting(site)
    tab.go(f"/topics/orders/messages/{id}").get_by_role("button", name="Deliver now").click()
    assert result(tab).startswith("Moved.")
    site.stack.advance(minutes=1)
    assert json.loads(site.stack.receive("orders", "mail")[-1].body) == {"a": 1}


def test_a_sealed_message_has_no_buttons_and_a_late_form_tells(site: Site, tab: Tab) -> None:
    sent = site.client.send("orders", "soon", delay=700)
    site.stack.advance(seconds=400)
    page = tab.go(f"/topics/orders/messages/{sent.id}")
    assert page.get_by_role("button", name="Cancel", exact=True).count() == 0
    told = site.after(f"/topics/orders/messages/{sent.id}/cancel", {})
    assert "Too late: its slot is sealed" in told


def test_selected_messages_are_cancelled_and_moved(site: Site, tab: Tab) -> None:
    ids = [waiting(site, key=f"some-{i}") for i in range(4)]
    for button, two in (("Cancel selected", ids[:2]), ("Reschedule selected", ids[2:])):
        page = tab.go("/topics/orders/messages?by=prefix&q=some-")
        for id in two:
            page.get_by_label(f"Select {id}").check()
        if button.startswith("Reschedule"):
            page.get_by_label("to a delay from now of").fill("9d")
        page.get_by_role("button", name=button).click()
        assert "2 of 2 selected." in result(tab)
        assert all(site.client.get("orders", id).state == "cancelled" for id in two)


def test_all_that_match_are_cancelled_after_the_name_is_typed(site: Site, tab: Tab) -> None:
    ids = [waiting(site, key=f"bulk-{i}") for i in range(3)]
    other = waiting(site, key="other")
    for typed in ("order", "orders"):
        page = tab.go("/topics/orders/messages?by=prefix&q=bulk-")
        page.get_by_text("Change all that match the key prefix bulk-").click()
        page.get_by_label("Type the topic's name").fill(typed)
        page.get_by_role("button", name="Cancel all matching").click()
        told = result(tab)
        if typed == "order":
            assert "type the topic's name, orders" in told
            assert all(site.client.get("orders", id).state == "waiting" for id in ids)
    page.get_by_role("status", name="Result").get_by_text("Cancelled 3 of 3.").wait_for()
    assert all(site.client.get("orders", id).state == "cancelled" for id in ids)
    assert site.client.get("orders", other).state == "waiting"


def test_a_subscription_is_paused_and_resumed(site: Site, tab: Tab) -> None:
    for button, state in (("Pause mail", "PAUSED"), ("Resume mail", "ACTIVE")):
        tab.go("/topics/orders").get_by_role("button", name=button).click()
        assert "mail is" in result(tab)
        [mail] = [each for each in site.client.subscriptions("orders") if each.name == "mail"]
        assert mail.state == state


def test_a_topic_is_purged_only_by_its_typed_name(site: Site, tab: Tab) -> None:
    site.client.create_topic("old")
    sent = site.client.send("old", "x", delay="3d")
    site.stack.advance(minutes=6)
    for typed, state in (("odl", "waiting"), ("old", "purged")):
        page = tab.go("/topics/old")
        page.get_by_label("Type the topic's name").fill(typed)
        page.get_by_role("button", name="Purge old").click()
        told = result(tab)
        assert ("type the topic's name, old" in told) == (typed == "odl")
        assert site.client.get("old", sent.id).state in (state, "unknown" if typed == "old" else state)


def test_a_message_that_went_direct_is_followed_through_its_queues(site: Site, tab: Tab) -> None:
    id = site.client.send("orders", "soon", delay=60).id
    site.stack.advance(seconds=10)
    page = tab.go(f"/topics/orders/messages/{id}")
    queues = page.get_by_role("region", name="Queues")
    assert "billing: delayed" in queues.inner_text()
    assert page.locator("[aria-current=step]").inner_text().startswith("sent")
    site.stack.advance(seconds=60)
    queues.get_by_text("billing: receivable").wait_for()
    site.client.delete("orders", "billing", site.client.receive("orders", "billing"))
    queues.get_by_text("billing").wait_for(state="detached")


def test_dead_letters_are_looked_at_without_taking_and_redriven(site: Site, tab: Tab) -> None:
    site.client.send("orders", HOSTILE, delay=1, key="dead-1")
    site.stack.advance(minutes=1)
    for _ in range(12):
        site.client.receive("orders", "billing")
        site.stack.advance(minutes=6)
    [billing] = [each for each in site.client.stats("orders").subscriptions if each.name == "billing"]
    assert billing.dead
    receives = [each.receives for each in site.stack.dead_letters("orders", "billing")]
    page = tab.go("/topics/orders/dead")
    table = page.get_by_role("table", name="Dead letters")
    assert "<script>" in table.inner_text()
    assert "\\u202e" in table.inner_text()
    assert [each.receives for each in site.stack.dead_letters("orders", "billing")] == receives, "a look takes none"
    page.get_by_role("button", name="Redrive billing").click()
    assert "go back to its queue" in result(tab)
    site.stack.advance(minutes=1)
    assert not next(each.dead for each in site.client.stats("orders").subscriptions if each.name == "billing")


def test_one_letter_chosen_letters_and_a_group_are_redriven_or_deleted(site: Site, tab: Tab) -> None:
    site.client.create_topic("hooks")
    site.client.create_subscription("hooks", "post")
    consumer = Consumer(site.client, "hooks", "post", max_attempts=1)
    ids = [site.client.send("hooks", f"body {number}").id for number in range(5)]
    site.stack.advance(minutes=1)
    for message in consumer.receive(max_messages=10):
        with suppress(ValueError):
            raise ValueError(f"HTTP 50{message.body[-1]}") from consumer.retry_later(message)
    assert len(site.stack.dead_letters("hooks", "post")) == 5
    page = tab.go("/dead")
    table = page.get_by_role("table", name="Dead letters")
    assert "hooks/post: 5 letters" in table.inner_text()
    assert "5 of 5 looked at" in page.locator("main").inner_text()
    row = table.locator("tr", has=page.get_by_label(f"Select {ids[0]}"))
    row.get_by_role("button", name="Delete").click()
    assert result(tab) == "Letters that were deleted: 1."
    page.goto(site.origin + "/topics/hooks/dead")
    for id in ids[1:3]:
        page.get_by_label(f"Select {id}").check()
    page.get_by_role("button", name="Redrive selected").click()
    assert result(tab) == "Letters that went back to their queue: 2."
    assert {each.id for each in site.stack.receive("hooks", "post")} == set(ids[1:3])
    page.goto(site.origin + "/dead")
    page.get_by_role("button", name="Redrive group").click()
    assert result(tab) == "Letters that went back to their queue: 2."
    assert {each.id for each in site.stack.receive("hooks", "post")} == set(ids[3:])


def test_a_sent_message_is_found_by_its_key_and_shows_its_whole_life(site: Site, tab: Tab) -> None:
    id = site.client.send("orders", "x", delay="2h", key="user-17").id
    site.stack.advance(hours=2, minutes=1)
    Consumer(site.client, "orders", "mail").receive(max_messages=10)
    page = tab.go("/")
    page.get_by_role("searchbox", name="Search").fill("user-17")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?*")
    assert id in page.get_by_role("table", name="Found").inner_text()
    page.get_by_role("row", name="orders").get_by_role("link", name="sent", exact=True).click()
    page.wait_for_url("**/sent?key=user-17")
    row = page.get_by_role("table", name="Sent messages").locator("tbody tr")
    assert "mail: sent to its queue" in row.inner_text() and "taken" in row.inner_text()
    row.get_by_role("link").click()
    page.wait_for_url(f"**/messages/{id}")
    assert page.locator("[aria-current=step]").inner_text().startswith("taken")
    lines = site.ask("/topics/orders/sent.jsonl?key=user-17")[2].splitlines()
    assert [json.loads(each).get("message", {}).get("id") for each in lines] == [id, None]
    assert "Why a message can be missing" in tab.go("/topics/orders/sent?key=nobody").locator("main").inner_text()


def test_a_cancel_asks_first(site: Site, open_tab: OpenTab) -> None:
    id, asked = waiting(site), list[str]()
    with open_tab() as tab:
        tab.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        tab.go(f"/topics/orders/messages/{id}").get_by_role("button", name="Cancel", exact=True).click()
    assert asked == ["Cancel this message?"]
    assert site.client.get("orders", id).state == "waiting"


def test_a_found_message_is_cancelled_where_it_was_found(site: Site, tab: Tab) -> None:
    id = site.client.send("orders", "x", delay="3d", key="ann/17/close").id
    site.stack.advance(minutes=6)
    page = tab.go("/search?q=ann/17")
    page.get_by_role("row", name="orders").get_by_role("link", name="keys that begin so").click()
    page.get_by_role("link", name="ann/17/close").wait_for()
    found = tab.go("/search?q=ann/17/close").get_by_role("row", name="orders")
    assert "can be cancelled or moved until" in found.inner_text()
    found.get_by_role("button", name="Cancel").click()
    assert "Cancelled" in result(tab)
    assert "It is not sent" in found.inner_text()
    assert site.client.get("orders", id).state == "cancelled"
    page = tab.go("/topics/orders")
    page.get_by_role("searchbox", name="Search").fill("nobody")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Look in all topics").click()
    page.get_by_role("row", name="orders").wait_for()


def test_a_message_leads_to_the_dead_letter_of_its_retry(site: Site, tab: Tab) -> None:
    site.client.create_topic("bills")
    site.client.create_subscription("bills", "post")
    consumer = Consumer(site.client, "bills", "post", max_attempts=2)
    ids = [site.client.send("bills", "x", key=key).id for key in ("bill-1", "bill-2")]
    for _ in range(2):
        site.stack.advance(minutes=1)
        for message in consumer.receive(max_messages=10):
            try:
                raise ValueError("no such account")
            except ValueError:
                consumer.retry_later(message)
    page = tab.go(f"/topics/bills/messages/{ids[0]}")
    assert page.locator("[aria-current=step]").inner_text() == "dead letter"
    page.get_by_role("region", name="Queues").get_by_role("link", name="dead letter").click()
    table = page.get_by_role("table", name="Dead letters")
    assert "no such account" in table.inner_text()
    assert "bill-1" in table.inner_text() and "bill-2" not in table.inner_text()
    assert table.get_by_role("button", name="Redrive group").count() == 0, "the group has letters that are not shown"
    table.get_by_role("button", name="Redrive").click()
    assert result(tab) == "Letters that went back to their queue: 1."
    page.get_by_role("link", name="show all").click()
    assert "bill-2" in table.inner_text() and "bill-1" not in table.inner_text()


def test_the_cost_is_of_what_the_overview_counted(site: Site, tab: Tab) -> None:
    site.client.send_many("orders", [Message(body="x", delay="2h") for _ in range(3)])
    site.stack.advance(hours=3)
    rows = tab.go("/").get_by_role("table", name="Sent and due").inner_text()
    sent = rows.partition("sent in 24 hours")[2].split()[0]
    assert int(sent) >= 3
    assert f"for {sent} messages a day" in tab.go("/cost").locator("main").inner_text()


def test_a_recurring_message_is_ended(site: Site, tab: Tab) -> None:
    site.client.send_recurring("orders", "report", "x", every="1d")
    page = tab.go("/topics/orders/recurring")
    assert page.get_by_role("table", name="Recurring messages").locator("time").count() == 5 + 1
    page.get_by_role("button", name="Send one now").click()
    assert result(tab).startswith("Sent report once, now.")
    site.stack.advance(minutes=1)
    assert "x" in [each.body for each in site.stack.receive("orders", "mail")]
    page.get_by_role("button", name="End report").click()
    assert "report is ended" in result(tab)
    assert site.client.recurring("orders") == []


def test_time_is_moved(site: Site, tab: Tab) -> None:
    before = site.stack.clock.now_ms()
    page = tab.go("/")
    page.get_by_label("Move time by").fill("3h")
    page.get_by_role("button", name="Move time").click()
    assert "The time is" in result(tab)
    assert site.stack.clock.now_ms() - before == 3 * 3600 * 1000


def test_each_change_writes_one_audit_line_without_its_body(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.client.create_topic("audit")
    with caplog.at_level(logging.INFO, "tidewheel.console.audit"):
        site.after("/topics/audit/send", {"body": "my secret", "delay": "3d", "key": "k"})
        site.after("/topics/audit/purge", {"typed": "x"})
    first, second = [json.loads(each.message) for each in caplog.records if each.name == "tidewheel.console.audit"]
    assert (first["audit"], first["who"], first["topic"], first["key"], first["done"]) == (
        "send",
        "tester",
        "audit",
        "k",
        True,
    )
    assert "secret" not in json.dumps(first)
    assert (second["audit"], second["done"]) == ("purge", False)


def test_an_action_on_what_is_gone_tells_and_the_console_goes_on(site: Site) -> None:
    told = site.after("/topics/nothing/subscriptions/x/pause", {"back": "/"})
    assert "topic &#39;nothing&#39; does not exist" in told
    assert site.ask("/")[0] == 200
