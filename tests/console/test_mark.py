"""The mark by which a tab sees that its page has changed, without a browser."""

from __future__ import annotations

import http.client

from tests.console.site import Site
from tidewheel.console.app import mark


def test_times_from_now_and_the_cost_of_a_page_are_no_change() -> None:
    page = '<main><p>{}</p><span class="rel" data-at="5">{}</span></main><p role="status">{} requests</p>'
    assert mark(page.format("a", "in 3 s", 9)) == mark(page.format("a", "in 2 s", 18))
    assert mark(page.format("a", "in 3 s", 9)) != mark(page.format("b", "in 3 s", 9))


def test_a_tab_that_asks_gets_the_mark_alone_and_a_change_is_told_at_once(site: Site) -> None:
    site.client.create_topic("orders")
    site.client.create_subscription("orders", "billing")

    def ask() -> tuple[str | None, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", site.server.port, timeout=60)
        headers = {"Cookie": f"tidewheel-{site.server.port}={site.session}"}
        connection.request("HEAD", "/topics/orders", headers=headers)
        answer = connection.getresponse()
        found = answer.getheader("Tidewheel-Mark"), answer.read()
        connection.close()
        return found

    _, headers, shown = site.ask("/topics/orders")
    assert f'data-mark="{headers["tidewheel-mark"]}"' in shown
    assert ask() == (headers["tidewheel-mark"], b"")
    site.after("/topics/orders/subscriptions/billing/pause", {"back": "/topics/orders"})
    assert ask()[0] != headers["tidewheel-mark"]
