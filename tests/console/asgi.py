"""Asks an ASGI application, as a server does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

HOST = "localhost:8000"


class Answer(NamedTuple):
    """An answer, with its headers in lower case."""

    status: int
    headers: dict[str, str]
    text: str


def ask(application: Any, path: str, form: Mapping[str, str] | None = None, *, host: str = HOST) -> Answer:
    """Gets a page, or posts a form as the page itself would."""
    told: list[dict[str, Any]] = []
    body = b"" if form is None else urlencode(form).encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    path, _, query = path.partition("?")
    headers = [(b"host", host.encode()), (b"content-type", b"application/x-www-form-urlencoded")]
    method = "GET"
    if form is not None:
        method, headers = "POST", [*headers, (b"origin", f"http://{host}".encode())]
    scope = {
        **{"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "root_path": ""},
        **{"raw_path": path.encode(), "query_string": query.encode(), "headers": headers},
        **{"server": (host, 80), "client": ("127.0.0.1", 1), "asgi": {"version": "3.0"}},
    }
    asyncio.run(application(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    text = b"".join(each.get("body", b"") for each in told if each["type"] == "http.response.body")
    return Answer(told[0]["status"], found, text.decode(errors="replace"))
