"""Each screen in a browser: its names, in light and dark, wide and narrow, with and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.console.site import Site, Tab
from tidewheel.model.message import Message

pytestmark = pytest.mark.long

OpenTab = Callable[..., AbstractContextManager[Tab]]

TWICE = """() => { const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  return ids.filter((id, i) => ids.indexOf(id) !== i); }"""
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return Array.from(canvas.getImageData(0, 0, 1, 1).data); };
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const paper = (element) => { for (let e = element; e; e = e.parentElement) {
    const color = rgba(getComputedStyle(e).backgroundColor); if (color[3] === 255) return color; }
    return rgba(getComputedStyle(document.body).backgroundColor); };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const color = rgba(element instanceof SVGElement ? style.fill : style.color);
    const under = paper(element instanceof SVGElement ? element.ownerSVGElement : element);
    const [a, b] = [light(color), light(under)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(element.tagName + ": " + element.textContent.trim().slice(0, 40));
  }
  return poor;
}"""


@pytest.fixture(scope="module")
def ids(site: Site) -> Iterator[dict[str, str]]:
    """Fills a stack with a bit of everything. Returns a message's id by what became of it."""
    tw = site.client
    tw.create_topic("orders")
    tw.create_subscription("orders", "billing")
    tw.create_subscription("orders", "fraud", filter_policy={"amount": ["large"]})
    tw.create_topic("retries", slot_s=5, lookahead_s=20)
    tw.create_subscription("retries", "billing")
    tw.send_recurring("orders", "report", {"day": 1}, cron="0 9 * * MON-FRI", timezone="Europe/Berlin")
    waiting = tw.send("orders", {"id": 17}, delay="3d", key="cart-17", attributes={"kind": "reminder"})
    moved = tw.send("orders", "later", delay="5d")
    tw.send_many("orders", [Message(body=f"n {i}", delay=3600 * (i + 1), key=f"bulk-{i:03}") for i in range(120)])
    tw.pause("retries", "billing")
    late = tw.send("retries", "late", delay=60)
    site.stack.advance(minutes=6)
    cancelled = tw.reschedule("orders", moved.id, delay="6d")
    assert cancelled
    site.stack.advance(minutes=6)
    yield {"waiting": waiting.id, "late": late.id, "cancelled": moved.id, "new": cancelled.receipt.id}


def paths(ids: dict[str, str]) -> dict[str, list[str]]:
    """Returns the tables of each screen by its address."""
    return {
        "/": ["Topics", "Sent and due"],
        "/topics/orders": ["Subscriptions", "Upcoming", "Messages by time until due"],
        "/topics/orders/sent": ["Sent messages"],
        "/search?q=cart-17": ["Found"],
        "/dead": ["Dead letters"],
        "/topics/orders/messages": ["Messages"],
        f"/topics/orders/messages/{ids['waiting']}": ["Attributes"],
        "/topics/orders/recurring": ["Recurring messages"],
        "/topics/orders/dead": ["Dead letters"],
        "/trouble": ["Trouble"],
        "/cost": ["Cost"],
    }


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400), ("dark", 400)])
def test_every_screen_has_its_names_and_fits_and_can_be_read(
    open_tab: OpenTab, ids: dict[str, str], scheme: str, width: int
) -> None:
    titles = set()
    with open_tab(color_scheme=scheme, viewport={"width": width, "height": 900}) as tab:
        for path, tables in paths(ids).items():
            page = tab.go(path)
            page.get_by_role("status", name="Live").get_by_text("live", exact=True).wait_for()
            assert page.locator("h1").count() == 1, path
            titles.add(page.title())
            for name in tables:
                assert page.get_by_role("table", name=name, exact=True).count() == 1, (path, name)
            assert page.get_by_role("navigation", name="Main").count() == 1, path
            for name in ("Live", "Result", "Requests"):
                assert page.get_by_role("status", name=name).count() == 1, (path, name)
            assert "for this page" in page.get_by_role("status", name="Requests").inner_text()
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert beyond <= 0, f"{path} is {beyond} pixels too wide"
            assert page.evaluate(CONTRAST) == [], path
            assert page.evaluate(TWICE) == [], path
        assert tab.complaints == []
    assert len(titles) == len(paths(ids)), "each screen has a title of its own"


def test_every_screen_can_be_read_without_scripts(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab(java_script_enabled=False) as tab:
        for path, tables in paths(ids).items():
            page = tab.go(path)
            for name in tables:
                assert page.get_by_role("table", name=name, exact=True).count() == 1, (path, name)


def test_messages_are_paged_by_due_time_and_by_key(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab() as tab:
        for address in ("/topics/orders/messages", "/topics/orders/messages?by=prefix&q=bulk-"):
            page, seen = tab.go(address), []
            while True:
                seen += page.get_by_role("table", name="Messages").locator(".id").all_inner_texts()
                later = page.get_by_role("link", name="Later")
                if not later.count():
                    break
                before = page.url
                later.click()
                page.wait_for_url(lambda url, before=before: url != before)
            assert len(seen) == len(set(seen)) == (122 if "?" not in address else 120)


def test_a_message_is_found_by_id_key_and_prefix(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab() as tab:
        for by, text in (("id", ids["waiting"]), ("key", "cart-17"), ("key prefix", "cart-")):
            page = tab.go("/topics/orders/messages")
            page.get_by_label("Find by").select_option(by)
            page.get_by_label("Text").fill(text)
            page.get_by_role("button", name="Find").click()
            page.wait_for_url("**q=*")
            assert page.get_by_role("table", name="Messages").locator(".id").all_inner_texts() == [ids["waiting"]]


def test_nonsense_is_told_beside_the_field_and_stays_typed(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab() as tab:
        for by, text, first, field in (("id", "nonsense", "", "Text"), ("key", "", "gestern", "Due from")):
            page = tab.go("/topics/orders/messages")
            page.get_by_label("Find by").select_option(by)
            page.get_by_label("Text").fill(text)
            page.get_by_label("Due from").fill(first)
            page.get_by_role("button", name="Find").click()
            page.wait_for_url("**q=*")
            wrong = page.get_by_label(field)
            assert wrong.get_attribute("aria-invalid") == "true"
            assert page.locator(f"#{wrong.get_attribute('aria-describedby')}").inner_text()
            assert page.get_by_label("Text").input_value() == text
            assert page.get_by_label("Due from").input_value() == first


@pytest.mark.parametrize(
    ("topic", "which", "present"),
    [("orders", "waiting", "waiting"), ("retries", "late", "planned"), ("orders", "cancelled", "cancelled")],
)
def test_the_life_of_a_message_has_its_present(
    open_tab: OpenTab, ids: dict[str, str], topic: str, which: str, present: str
) -> None:
    with open_tab() as tab:
        page = tab.go(f"/topics/{topic}/messages/{ids[which]}")
        life = page.get_by_role("list", name="Life")
        current = life.locator("[aria-current=step]")
        assert current.count() == 1
        assert current.locator(".word").inner_text() == present


def test_who_gets_a_message_and_who_does_not_is_told(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab() as tab:
        told = tab.go(f"/topics/orders/messages/{ids['waiting']}").locator("main").inner_text()
    assert "billing will get it" in told
    assert "fraud will not get it: its filter wants" in told
    assert "segment 1 of 1" in told


def test_a_paused_subscription_is_told_with_since_when(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab() as tab:
        row = tab.go("/topics/retries").get_by_role("table", name="Subscriptions").locator("tbody tr")
        assert "paused" in row.inner_text()
        assert "since" in row.inner_text()
        assert "retries/billing is paused" in tab.go("/").locator("main").inner_text()
        trouble = tab.go("/trouble").get_by_role("table", name="Trouble")
        assert "retries/billing" in trouble.inner_text()


def test_the_keyboard_reaches_everything_in_order(open_tab: OpenTab, ids: dict[str, str]) -> None:
    with open_tab() as tab:
        page = tab.go("/topics/orders")
        seen = []
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.innerText || document.activeElement.name || ''").strip())
            if seen[-1] == "Purge orders":
                break
        assert seen[0] == "Skip to the content"
        for name in ("Overview", "Trouble", "Messages", "New message", "Pause billing", "typed", "Purge orders"):
            assert name in seen, f"{name} is not reached: {seen}"
        page = tab.go("/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"


def test_the_longest_names_fit_on_a_narrow_screen(site: Site, open_tab: OpenTab) -> None:
    topic, name, key = "t" * 48, "S" * 48, "k" * 128
    tw = site.client
    tw.create_topic(topic)
    tw.create_subscription(topic, name)
    tw.send_recurring(topic, key, "x", every="1d")
    dead, sent = tw.send(topic, "x", delay=1), tw.send(topic, "x" * 300, delay="3d", key=key)
    site.stack.advance(minutes=6)
    for _ in range(6):
        tw.receive(topic, name)
        site.stack.advance(minutes=6)
    tw.pause(topic, name)
    own = [f"/topics/{topic}{rest}" for rest in ("", "/messages", f"/messages/{sent.id}", f"/messages/{dead.id}")]
    with open_tab(viewport={"width": 400, "height": 900}) as narrow:
        for path in ("/", *own, own[0] + "/recurring", own[0] + "/dead", "/trouble"):
            page = narrow.go(path)
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert beyond <= 0, f"{path} is {beyond} pixels too wide"
