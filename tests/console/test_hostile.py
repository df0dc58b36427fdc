"""What a hostile message, and a hostile page in the same browser, can do: nothing."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.console.site import HOSTILE, Site, Tab
from tests.console.site import tab as opened

OpenTab = Callable[..., AbstractContextManager[Tab]]


@contextmanager
def other_page(text: str) -> Iterator[int]:
    """Serves a page on another port of this machine. Yields the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module", autouse=True)
def sent(site: Site) -> str:
    site.client.create_topic("orders")
    site.client.create_subscription("orders", "billing", filter_policy={"kind": [HOSTILE]})
    found = site.client.send(
        "orders", HOSTILE, delay="3d", key="\u202e" + HOSTILE[:100], attributes={"kind": HOSTILE[:60]}
    )
    site.client.send_recurring("orders", "<b onclick=x>" + "\u202e", HOSTILE, every="1d")
    site.stack.advance(minutes=6)
    return found.id


def test_bodies_keys_and_attributes_are_text_on_every_page(open_tab: OpenTab, sent: str) -> None:
    with open_tab() as tab:
        for path in (
            "/topics/orders",
            "/topics/orders/messages",
            f"/topics/orders/messages/{sent}",
            "/topics/orders/recurring",
        ):
            page = tab.go(path)
            page.get_by_role("status", name="Live").get_by_text("live", exact=True).wait_for()
            assert page.title() != "owned", path
            assert page.locator("main script, main img").count() == 0, path
            shown = re.sub(r'<input type="hidden" [^>]*>', "", page.content())
            assert "\u202e" not in shown, f"{path}: a character that turns the text around"
        page = tab.go(f"/topics/orders/messages/{sent}")
        body = page.get_by_role("region", name="Body").locator("pre").inner_text()
        assert body == HOSTILE.replace("\u202e", "\\u202e")
        assert tab.complaints == [], "the policy of the page had nothing to block"


def test_a_search_text_is_text_too(open_tab: OpenTab) -> None:
    with open_tab() as tab:
        page = tab.go(
            "/topics/orders/messages?by=%3Cscript%3E&q=%22%3E%3Cscript%3Edocument.title='owned'%3C/script%3E&from=%3Cb%3E"
        )
        assert page.title() != "owned"
        assert page.locator("main script").count() == 0


def test_the_download_is_byte_for_byte_and_never_a_page(site: Site, sent: str) -> None:
    status, headers, _ = site.ask(f"/topics/orders/messages/{sent}/body")
    assert status == 200
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment")


def test_a_long_body_is_shown_in_part(site: Site) -> None:
    found = site.client.send("orders", "é" * 120_000, delay="3d")
    site.stack.advance(minutes=6)
    _, _, text = site.ask(f"/topics/orders/messages/{found.id}")
    assert text.count("é") == 65_536
    assert "of which the first 65,536 are shown" in text
    assert site.ask(f"/topics/orders/messages/{found.id}/body")[2] == "é" * 120_000


def test_a_large_body_is_read_in_part_only(site: Site) -> None:
    found = site.client.send("orders", "y" * 3_000_000, delay="3d")
    site.stack.advance(minutes=6)
    before = site.meter["s3.GetObject"]
    _, _, text = site.ask(f"/topics/orders/messages/{found.id}")
    assert "Its first 65,536 bytes are shown" in text
    assert text.count("y" * 65_536) == 1
    assert "y" * 65_537 not in text
    assert site.meter["s3.GetObject"] - before == 2, "the ledger, and the beginning of the body"
    assert site.ask(f"/topics/orders/messages/{found.id}/body")[0] == 404


def test_another_page_of_the_same_browser_reads_and_changes_nothing(site: Site, open_tab: OpenTab) -> None:
    attack = f"""<title>attack</title><form id=f method=post action="{site.origin}/topics/orders/purge">
      <input name=typed value=orders></form><script>
      const tries = [];
      for (const mode of ["cors", "no-cors"]) for (const path of ["/", "/topics/orders"])
        tries.push(fetch("{site.origin}" + path, {{mode, credentials: "include"}}).then(a => a.text(), () => "").then(
          text => {{ if (text.includes("orders")) document.title = "read"; }}));
      tries.push(fetch("{site.origin}/topics/orders/purge", {{method: "POST", mode: "no-cors", credentials: "include",
        headers: {{"Content-Type": "application/x-www-form-urlencoded"}}, body: "typed=orders"}}).catch(() => ""));
      Promise.all(tries).then(() => {{ if (document.title === "attack") document.title = "done"; }});
    </script>"""
    before = site.client.stats("orders").waiting
    with other_page(attack) as port, open_tab() as tab:
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"evil.example:{port}"):
            page = tab.page
            page.goto(f"http://{host}/")
            page.wait_for_function("document.title !== 'attack'")
            assert page.title() == "done", host
            page.evaluate("document.getElementById('f').submit()")
            page.wait_for_url("**/purge")
            assert "Refused" in page.content(), host
    assert site.client.stats("orders").waiting == before


def test_bodies_can_be_hidden(site: Site, browser: Any) -> None:
    site = Site(site, hide_bodies=True)
    try:
        found = site.client.send("orders", "my secret", delay="3d", attributes={"a": "my other secret"})
        site.client.send_recurring("orders", "r2", "my secret", every="1d")
        site.client.create_subscription("orders", "choosy", filter_policy={"a": ["a secret"]})
        site.stack.advance(minutes=6)
        paths = (
            "/topics/orders",
            "/topics/orders/messages",
            f"/topics/orders/messages/{found.id}",
            "/topics/orders/recurring",
        )
        with opened(site, browser) as tab:
            for path in paths:
                assert "secret" not in tab.go(path).content()
        assert site.ask(f"/topics/orders/messages/{found.id}/body")[0] == 403
    finally:
        site.close()
