"""A page stays up to date by itself, and costs nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.console.site import Site, Tab

pytestmark = pytest.mark.long

OpenTab = Callable[..., AbstractContextManager[Tab]]

HIDE = """hidden => { Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
          document.dispatchEvent(new Event("visibilitychange")); }"""


@pytest.fixture(scope="module", autouse=True)
def topic(site: Site) -> None:
    site.client.create_topic("orders", slot_s=5, lookahead_s=10)
    site.client.create_subscription("orders", "billing")


def is_live(tab: Tab) -> None:
    tab.page.get_by_role("status", name="Live").get_by_text("live", exact=True).wait_for()


def test_a_page_shows_what_others_changed(site: Site, open_tab: OpenTab) -> None:
    with open_tab() as tab:
        page = tab.go("/topics/orders")
        is_live(tab)
        site.client.pause("orders", "billing")
        page.get_by_role("button", name="Resume billing").wait_for()
        site.client.resume("orders", "billing")
        page.get_by_role("button", name="Pause billing").wait_for()
        assert tab.complaints == []


def test_what_is_being_typed_stays_with_its_focus(site: Site, open_tab: OpenTab) -> None:
    with open_tab() as tab:
        page = tab.go("/topics/orders")
        is_live(tab)
        page.get_by_text("New message").click()
        page.get_by_label("Body").fill("half a sen")
        page.get_by_label("Key").click()
        page.keyboard.type("cart")
        site.client.pause("orders", "billing")
        page.get_by_role("button", name="Resume billing").wait_for()
        page.keyboard.type("-17")
        assert page.get_by_label("Key").input_value() == "cart-17"
        assert page.get_by_label("Body").input_value() == "half a sen"
        site.client.resume("orders", "billing")


def test_what_was_opened_or_closed_stays_so(site: Site, open_tab: OpenTab) -> None:
    site.client.send("orders", "x", delay="20d")
    site.stack.advance(minutes=6)
    with open_tab() as tab:
        page = tab.go("/topics/orders/messages")
        is_live(tab)
        page.get_by_text("Change all that match").click()
        page.get_by_label("Type the topic's name").fill("ord")
        site.client.send("orders", "y", delay="21d")
        site.stack.advance(minutes=6)
        page.locator("tbody tr").nth(1).wait_for()
        assert page.get_by_label("Type the topic's name").is_visible()
        assert page.get_by_label("Type the topic's name").input_value() == "ord"
        page = tab.go("/topics/orders")
        is_live(tab)
        page.get_by_text("New message").click()
        site.client.pause("orders", "billing")
        page.get_by_role("button", name="Resume billing").wait_for()
        assert page.get_by_label("Body").is_visible()
        site.client.resume("orders", "billing")
        assert tab.complaints == []


def test_a_hidden_tab_does_not_ask_and_a_shown_one_asks_at_once(site: Site, open_tab: OpenTab) -> None:
    with open_tab() as tab:
        page = tab.go("/topics/orders")
        is_live(tab)
        page.evaluate(HIDE, True)
        page.wait_for_timeout(2500)
        before = sum(site.meter.values())
        page.wait_for_timeout(2500)
        assert sum(site.meter.values()) == before, "nobody reads for a hidden tab"
        site.client.pause("orders", "billing")
        page.evaluate(HIDE, False)
        page.get_by_role("button", name="Resume billing").wait_for()
        site.client.resume("orders", "billing")


def test_tabs_with_the_same_page_share_one_reading(site: Site, open_tab: OpenTab) -> None:
    with open_tab() as tab:
        tab.go("/topics/orders")
        is_live(tab)
        other = tab.page.context.new_page()
        other.goto(site.origin + "/topics/orders")
        before = sum(site.meter.values())
        tab.page.wait_for_timeout(5000)
        spent = sum(site.meter.values()) - before
        assert spent <= 10 * 10, "about one reading a second, and not two"


def test_a_page_that_does_not_change_is_asked_for_seldom(site: Site, open_tab: OpenTab) -> None:
    with open_tab() as tab:
        tab.page.clock.install()
        page = tab.go("/topics/orders")
        is_live(tab)
        with page.expect_response(lambda answer: answer.request.method == "HEAD"):
            page.clock.fast_forward(310_000)
        page.wait_for_timeout(500)
        asked = list[str]()
        page.on("request", lambda request: asked.append(request.method))
        page.clock.fast_forward(20_000)
        page.wait_for_timeout(500)
        assert asked == []
        with page.expect_response(lambda answer: answer.request.method == "HEAD"):
            page.clock.fast_forward(10_000)


def test_a_tab_that_lost_its_console_goes_on_by_itself(site: Site, open_tab: OpenTab) -> None:
    with open_tab() as tab:
        page = tab.go("/topics/orders")
        is_live(tab)
        page.context.set_offline(True)
        page.get_by_role("status", name="Live").get_by_text("not connected").wait_for()
        page.context.set_offline(False)
        is_live(tab)
