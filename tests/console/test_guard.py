"""Who may ask the console. No browser is needed: an attacker chooses the headers that a browser would not."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import socket
from pathlib import Path

import pytest

from tests.console.asgi import ask
from tests.console.site import Site
from tidewheel import console
from tidewheel.console.changes import ACTIONS

NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


@pytest.fixture(autouse=True, scope="module")
def topic(site: Site) -> None:
    site.client.create_topic("orders")
    site.client.create_subscription("orders", "billing")


def test_without_the_token_nothing_is_answered(site: Site) -> None:
    for path in ("/", "/topics/orders", "/static/console.css", "/nothing"):
        status, _, text = site.ask(path, headers={"Cookie": ""})
        assert status == 403, path
        assert "token" in text
        assert "orders" not in text


@pytest.mark.parametrize("wrong", ["", "x", "é"])
def test_a_wrong_token_opens_nothing(site: Site, wrong: str) -> None:
    cookie = f"tidewheel-{site.server.port}={wrong}"
    assert site.ask("/", headers={"Cookie": cookie.encode().decode("latin-1")})[0] == 403
    assert site.ask(f"/?token={wrong.encode('utf-8').hex()}", headers={"Cookie": ""})[0] == 403


def test_the_token_leaves_the_address_for_a_cookie_of_this_port(site: Site) -> None:
    status, headers, _ = site.ask(f"/cost?per_day=5&token={site.token}", headers={"Cookie": ""})
    assert (status, headers["location"]) == (303, "/cost?per_day=5")
    cookie = headers["set-cookie"].lower()
    assert cookie.startswith(f"tidewheel-{site.server.port}={site.session}")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_the_token_opens_the_console_once_and_is_not_the_cookie(site: Site) -> None:
    path = f"/?token={site.token}"
    assert site.ask(path, headers={"Cookie": ""})[0] == 303
    status, _, text = site.ask(path, headers={"Cookie": ""})
    assert (status, "newest address" in text) == (403, True)
    assert site.ask("/", headers={"Cookie": f"tidewheel-{site.server.port}={site.token}"})[0] == 403
    assert site.ask(path)[:2][0] == 303, "the browser that it has opened takes the address again"
    assert site.ask(f"/?token={site.token}", headers={"Cookie": ""})[0] == 303, "the next address opens it once more"


def test_a_page_that_was_open_before_a_restart_stays_open(site: Site) -> None:
    later = Site(site, session=site.session)
    try:
        assert later.ask("/", headers={"Cookie": f"tidewheel-{later.server.port}={site.session}"})[0] == 200
    finally:
        later.close()


def test_in_a_program_of_ones_own_names_that_are_not_given_are_refused(site: Site) -> None:
    pause = "/topics/orders/subscriptions/billing/pause"
    application = console.app(site.client, changes=True)
    for host in ("evil.example:8000", "127.0.0.1.evil.example", "localhost@evil.example", "localhost:x", ""):
        assert ask(application, "/", host=host).status == 403, host
        assert ask(application, pause, {}, host=host).status == 403, host
    assert site.client.subscriptions("orders")[0].state == "ACTIVE"
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000"):
        assert ask(application, "/", host=host).status == 200, host
    behind = console.app(site.client, hosts=["console.example"])
    assert ask(behind, "/", host="console.example").status == 200
    assert ask(behind, "/", host="localhost").status == 403


def test_the_token_does_not_lead_to_another_site(site: Site) -> None:
    status, headers, _ = site.ask(f"//evil.example/?token={site.token}", headers={"Cookie": ""})
    assert status == 303
    assert headers["location"].startswith("/evil.example")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:{port}", "127.0.0.1", "localhost.evil:{port}", "127.0.0.1:{other}", ""],
)
def test_another_host_is_refused(site: Site, host: str) -> None:
    name = host.format(port=site.server.port, other=site.server.port + 1)
    status, _, text = site.ask("/", headers={"Host": name or " "})
    assert status == 403
    assert "Host" in text


@pytest.mark.parametrize("host", ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_the_names_of_this_machine_are_taken(site: Site, host: str) -> None:
    assert site.ask("/", headers={"Host": host.format(port=site.server.port)})[0] == 200


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://127.0.0.1:3000", "https://127.0.0.1:{port}", "http://localhost:{port}", ""],
)
def test_a_form_of_another_origin_changes_nothing(site: Site, origin: str) -> None:
    path = "/topics/orders/subscriptions/billing/pause"
    status, _, _ = site.ask(path, {}, headers={"Origin": origin.format(port=site.server.port)})
    assert status == 403
    assert site.client.subscriptions("orders")[0].state == "ACTIVE"


def test_a_form_that_a_browser_marks_as_another_sites_changes_nothing(site: Site) -> None:
    for value in ("cross-site", "same-site", "none"):
        assert site.ask("/topics/orders/send", {"body": "x"}, headers={"Sec-Fetch-Site": value})[0] == 403


def test_another_page_reads_nothing_and_may_link_here(site: Site) -> None:
    assert site.ask("/", headers={"Origin": "http://evil.example"})[0] == 403
    assert site.ask("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403
    other_port = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}  # such as the address of a picture
    assert site.ask("/", headers=other_port)[0] == 403
    assert site.ask("/", headers=NAVIGATION)[0] == 200


def test_every_answer_has_the_headers_that_keep_it_in_place(site: Site) -> None:
    for path in ("/", "/static/console.js", "/nothing", "/topics/nothing"):
        _, headers, _ = site.ask(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_a_read_only_console_refuses_every_form(site: Site) -> None:
    site = Site(site, changes=False)
    try:
        sent = site.client.send("orders", "x", delay="1h")
        names = {"topic": "orders", "subscription": "billing", "id": sent.id}
        for path in ACTIONS:
            status, _, text = site.ask(
                path.format(**names), {"typed": "orders", "body": "x", "by": "1h", "do": "cancel"}
            )
            assert status == 403, path
            assert "--allow-changes" in text
        for path in (
            "/",
            "/topics/orders",
            f"/topics/orders/messages/{sent.id}",
            "/topics/orders/messages",
            "/trouble",
        ):
            assert 'method="post"' not in site.ask(path)[2], path
        assert "read only" in site.ask("/")[2]
    finally:
        site.close()


def test_a_form_that_is_too_large_is_refused(site: Site) -> None:
    status, _, text = site.ask("/topics/orders/send", {"body": "x" * 2_100_000})
    assert status == 413
    assert "bytes" in text


def test_a_form_leads_to_no_other_site(site: Site) -> None:
    for back in (
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "/\r\nSet-Cookie: a=b",
        "javascript:alert(1)",
    ):
        _, headers, _ = site.ask("/topics/orders/subscriptions/billing/resume", {"back": back})
        assert headers["location"].startswith("/topics/orders?result="), back


def test_it_listens_on_this_machine_only(site: Site) -> None:
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError):
        http.client.HTTPConnection(own, site.server.port, timeout=5).request("GET", "/")


def test_no_asset_comes_from_elsewhere_and_nothing_needs_eval() -> None:
    room = Path(console.__file__).parent
    for each in [*room.glob("templates/*.html"), room / "static" / "console.js", room / "static" / "console.css"]:
        text = each.read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org)", text), each
        assert not re.search(r"\bhx-on|hx-vals|\bon[a-z]+=|style=|eval\(|javascript:|\| *safe", text), each


def test_the_vendored_files_are_those_that_were_published() -> None:
    known = {
        "htmx-4.0.1.min.js": "Qp9rdC8H7EqOoX+nR0P3RPG2Noji+qdwJlGpfzwQJsfOpp3sGwIdSP9xO3+UlEhn",
    }
    for name, digest in known.items():
        data = (Path(console.__file__).parent / "static" / name).read_bytes()
        assert base64.b64encode(hashlib.sha384(data).digest()).decode() == digest, name
