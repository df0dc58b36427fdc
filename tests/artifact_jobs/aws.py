"""Runs moto's server for the jobs as a process, with a check of credentials.

`python -m tests.artifact_jobs.aws` prints its address and serves until it is killed. As a container's, a role's
credentials come from `/credentials`, other ones at each request. They expire while a job runs: those that came KEPT
requests for credentials ago are refused, as AWS refuses expired ones. `/seen` says what was asked with which.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

KEPT = 20
"""More than the processes of a job, each of which asks for credentials before each of its requests."""

_ROLE_KEY = re.compile(r"Credential=ASIA(\d+)/\d+/[\w-]+/(\w+)/")
_EXPIRED = {
    "json": json.dumps({"__type": "ExpiredTokenException", "message": "The security token is expired"}),
    "xml": "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>",
}

Start = Callable[[str, list[tuple[str, str]]], Any]


class Door:
    """The server, which passes requests with a role's current credentials, or a developer's, to moto."""

    def __init__(self, moto: Any) -> None:
        self._moto = moto
        self._lock = threading.Lock()
        self._issued = 0
        self._used: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/credentials":
                return _answer(start, "200 OK", self._issue())
            case "/seen":
                seen = {"issued": self._issued, "used": dict(self._used), "refused": dict(self._refused)}
                return _answer(start, "200 OK", json.dumps(seen))
        key = _ROLE_KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
        if key is None:
            return self._moto(environ, start)  # type: ignore[no-any-return]
        with self._lock:
            expired = int(key[1]) <= self._issued - KEPT
            (self._refused if expired else self._used)[key[2]] += 1
        if expired:
            return _answer(start, "400 Bad Request", _EXPIRED["xml" if key[2] == "s3" else "json"])
        return self._moto(environ, start)  # type: ignore[no-any-return]

    def _issue(self) -> str:
        with self._lock:
            self._issued += 1
            number = self._issued
        # botocore asks again before each request for what ends within ten minutes.
        ends = datetime.now(UTC) + timedelta(minutes=5)
        return json.dumps(
            {
                "AccessKeyId": f"ASIA{number:016d}",
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )


def _answer(start: Start, status: str, text: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text.encode()]


def main() -> None:
    """Serves until killed."""
    server = make_server("127.0.0.1", 0, Door(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
