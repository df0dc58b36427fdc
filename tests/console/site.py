"""A console over a local stack in virtual time, and what the browser saw of it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import utc
from tidewheel.console import ConsoleServer, LocalService, RequestMeter
from tidewheel.local import LocalTidewheel

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

START = "2026-11-25T14:02:11Z"
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202egnp.exe"
"""A text that would run in a page, and one that would deceive the eye."""


Form = Mapping[str, str] | list[tuple[str, str]]


class Site:
    """A stack, its console, and a client for the test.

    Args:
        beside: another site whose stack this console shows too.
        changes, local, hide_bodies, session: of the console.
    """

    def __init__(
        self,
        beside: Site | None = None,
        *,
        changes: bool = True,
        local: bool = True,
        hide_bodies: bool = False,
        session: str = "session-of-the-test",
    ) -> None:
        self._owned = beside is None
        self.stack = LocalTidewheel(start=START).open() if beside is None else beside.stack
        self.client: Tidewheel = self.stack.client()
        self.meter = RequestMeter(self.stack.session)
        service = LocalService(
            requests=self.stack.requests,
            units=self.stack.requests.units,
            since=utc(self.stack.clock.now_ms()),
            move_time=lambda seconds: self.stack.advance(seconds=seconds),
            dead_letters=self.stack.dead_letters,
            queued=self.stack.queued,
            oldest=self.stack.oldest,
        )
        self.console_client = self.stack.client()
        self.server = ConsoleServer(
            self.console_client,
            changes=changes,
            requests=self.meter,
            local=service if local else None,
            hide_bodies=hide_bodies,
            who="tester",
            session=session,
        )
        self.session = session
        self.server.start()

    def close(self) -> None:
        """Stops the console and the stack."""
        self.server.stop()
        if self._owned:
            self.stack.close()

    @property
    def origin(self) -> str:
        """The console's scheme, host and port."""
        return self.server.url.partition("/?")[0]

    @property
    def token(self) -> str:
        """What opens the console once."""
        return self.server.url.partition("token=")[2]

    def ask(
        self, path: str, form: Form | None = None, *, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], str]:
        """Asks as a program would: with the cookie, and with the Origin of the console for a form."""
        given = {"Cookie": f"tidewheel-{self.server.port}={self.session}"}
        body = None
        if form is not None:
            body = urlencode(form)
            given |= {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded"}
        given |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request("GET" if form is None else "POST", path, body, {k: v for k, v in given.items() if v})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
        finally:
            connection.close()

    def after(self, path: str, form: Form) -> str:
        """Sends a form, and returns the page that it leads to."""
        status, headers, text = self.ask(path, form)
        assert status == 303, text
        return self.ask(headers["location"])[2]


class Tab:
    """A page of the browser, with what it complained of."""

    def __init__(self, site: Site, page: Page) -> None:
        self.site, self.page = site, page
        self.complaints: list[str] = []
        page.on(
            "console", lambda told: self.complaints.append(told.text) if told.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path: str) -> Page:
        """Opens a page of the console."""
        self.page.goto(self.site.origin + path)
        return self.page


@contextmanager
def tab(site: Site, browser: Browser, **options: Any) -> Iterator[Tab]:
    """Opens the console in a browser of its own: the token is in its cookie."""
    context: BrowserContext = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    try:
        found = Tab(site, context.new_page())
        found.page.goto(site.server.url)
        assert urlsplit(found.page.url).query == "", "the token has left the address bar"
        yield found
    finally:
        context.close()
