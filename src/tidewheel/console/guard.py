"""Decides who may ask the console: the person who opened it with the token, from the console's own pages.

A web page of another origin can send forms and start reads here, with the console's cookie if it is on another port of
this machine. It cannot know the cookie, and it cannot choose `Host` and `Origin`:

| attack | refused by |
|---|---|
| another user of the machine, a guessing page | no cookie |
| a token out of a process list, a log or a history | the token opens the console once; the cookie is another secret |
| a form or a fetch of another page, other ports included | Origin is not this origin |
| a name that was made to resolve to 127.0.0.1 (DNS rebinding) | Host is not this host |
| a frame around the page | frame-ancestors |
| markup in a body, a key or a name | escaping, and a policy without inline scripts and styles |
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Collection
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, Chromium sends "Origin: null" with our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TOKEN = "token"
_CLOSED = "this page needs a token, which opens it once. Open the newest address that the command printed"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Wraps an ASGI application.

    Attributes:
        token: opens the console once. Then another takes its place. None: everybody may ask.
        opened: called when a token has opened the console.

    Args:
        application: the console.
        hosts: the names by which browsers may ask, without a port.
        token: the first token.
        session: the cookie of a browser that had a token. None: a new one.
        port: the only port that `Host` may have; None takes any.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        hosts: Collection[str] = LOOPBACK,
        token: str | None = None,
        session: str | None = None,
        port: int | None = None,
    ) -> None:
        self._application, self.token, self._session = application, token, session or secrets.token_urlsafe(24)
        self.opened: Callable[[], object] = lambda: None
        self._cookie = f"tidewheel-{port}"  # cookies know no ports
        self._hosts = re.compile(f"({'|'.join(map(re.escape, hosts))}){r'(:[0-9]+)?' if port is None else f':{port}'}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope) or self._entry(scope) or self._application
        await answer(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts.fullmatch(host) is None:
            return _refused(f"the header Host is {host!a}. Open the address that the command printed, or add to hosts=")
        site = headers.get("sec-fetch-site", "same-origin")
        own = f"{scope['scheme']}://{host}"
        if scope["method"] in ("GET", "HEAD"):
            # A link to here from another page may be followed: the other page sees no answer.
            foreign = site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate"
            if origin not in (None, own) or foreign:
                return _refused("the request comes from another page")
        elif origin != own or site != "same-origin":
            return _refused(f"the header Origin is {origin!a}. Only the console's own pages may change anything")
        return None

    def _entry(self, scope: Scope) -> RedirectResponse | PlainTextResponse | None:
        """Takes the token out of the address, for a cookie. None if the request has the cookie."""
        if self.token is None:
            return None
        try:
            cookies: Any = SimpleCookie(Headers(scope=scope).get("cookie", ""))
        except CookieError:
            cookies = {}
        is_open = self._cookie in cookies and _same(cookies[self._cookie].value, self._session)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(_TOKEN)
        if given is None or scope["method"] != "GET" or not (is_open or _same(given, self.token)):
            return None if is_open else _refused(_CLOSED)
        rest = urlencode([(name, value) for name, value in query if name != _TOKEN])
        path = "/" + scope["raw_path"].decode("latin-1").lstrip("/")
        answer = RedirectResponse(path + ("?" + rest if rest else ""), status_code=303)
        if not is_open:
            self.token = secrets.token_urlsafe(24)
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
            self.opened()
        return answer


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _refused(why: str) -> PlainTextResponse:
    return PlainTextResponse(f"Refused: {why}.\n", status_code=403)
