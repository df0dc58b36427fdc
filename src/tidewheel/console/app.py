"""The console as an ASGI application: its addresses, and how a page is made.

A visible tab asks for the mark of what its page shows again and again (static/console.js), and fetches the page if the
mark differs. Tabs with the same page share one reading. A hidden tab does not ask, so nobody reads for it.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tidewheel.client.history import SentHour
from tidewheel.client.operations.dead_letters import DeadLetter
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.clock import utc
from tidewheel.console import changes, text
from tidewheel.console.guard import LOOPBACK, Guard
from tidewheel.console.pages import cost, message, messages, overview, sent, topic
from tidewheel.console.reading import Read, Reader, RequestMeter, reason
from tidewheel.errors import TidewheelError, UnknownTopic
from tidewheel.model.message import MessageId

_log = logging.getLogger(__name__)
_HERE = Path(__file__).parent
_MARK = "MARK-OF-THE-PAGE"
"""Stands in a template for the page's mark."""
_PAGES_KEPT = 50
"""Pages that are kept for the tabs that show them."""
_MOVING = re.compile(r'<span class="rel".*?</span>|<[^>]* data-moving[^>]*>', re.DOTALL)
"""Parts that differ each time: times from now, and elements whose attributes depend on the time."""
LOCAL_S, DEPLOYED_S = 1.0, 5.0
"""How often a tab asks, locally and with AWS."""

Screen = Callable[["Console", Request], tuple[str, dict[str, Any]]]
"""Reads a page's data. Returns the template and its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalService:
    """The abilities of a service on this machine only.

    Attributes:
        requests: requests to AWS of the whole service so far, by "service.Operation".
        units: their billed units, by the names of `model.prices`.
        since: when the service began to count.
        move_time: moves the service's time forward by seconds.
        dead_letters: looks at the dead letters of a topic's subscription, at most n, without taking them.
        queued: looks for a message in its topic's queues. Returns subscription -> state in the queue.
        oldest: since when a topic's oldest message can be received and is not. None: there is none.
    """

    requests: Mapping[str, int]
    units: Mapping[str, int]
    since: datetime
    move_time: Callable[[float], object]
    dead_letters: Callable[[str, str, int], Sequence[DeadLetter]]
    queued: Callable[[str, MessageId], Mapping[str, str]]
    oldest: Callable[[str], datetime | None]


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was made. mark differs if the page shows something else."""

    made_at: float
    text: str
    mark: str
    status: int


def mark(page: str) -> str:
    """Returns a text that differs for pages whose main part shows something else."""
    main = page.partition("<main")[2].partition("</main>")[0]
    return hashlib.blake2b(_MOVING.sub("", main).encode(), digest_size=12).hexdigest()


class Console:
    """The state that all pages share.

    Attributes:
        attention: the number of things that need attention, as last counted.
        per_day: messages that were sent in the last 24 hours, as the overview last counted.
        topic: the topic that a message was last sent to.
        sent: the ids of the last messages that were sent here, and when.
    """

    def __init__(
        self,
        client: Tidewheel,
        *,
        may_change: bool,
        requests: RequestMeter | None,
        local: LocalService | None,
        hide_bodies: bool,
        who: str,
    ) -> None:
        self.client, self.may_change, self.local = client, may_change, local
        self.hide_bodies, self.who = hide_bodies, who
        self.reader, self.results = Reader(requests), changes.Results()
        self.attention, self.per_day, self.topic = 0, 0, ""
        self.sent: dict[str, datetime] = {}
        self.every_s = LOCAL_S if local else DEPLOYED_S
        self._kept: OrderedDict[str, Page] = OrderedDict()
        self._made: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._sent: dict[str, tuple[float, Read[Any]]] = {}
        self._changes, self._lock = 0, threading.Lock()  # of the lines above
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            finalize=text.printed,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters = {
            name: getattr(text, name)
            for name in ("short", "exact", "number", "size", "money", "duration", "rel", "zoned")
        }
        self._templates.filters.update(filters, path=partial(quote, safe=""))

    def now(self) -> datetime:
        """Returns the service's time."""
        return utc(self.client.core.clock.now_ms())

    def sent_by_hour(self, names: Sequence[str]) -> list[Read[list[SentHour]]]:
        """Reads the numbers of sent messages of topics, which are then kept for a minute. Local ones are not kept."""
        now_s, kept = time.monotonic(), {} if self.local else self._sent
        old = [name for name in names if name not in kept or now_s - kept[name][0] > 60]
        found = self.reader.read_all(partial(self.client.sent_by_hour, name) for name in old)
        kept = kept | {name: (now_s, each) for name, each in zip(old, found, strict=True)}
        self._sent = kept
        return [kept[name][1] for name in names]

    def page(self, request: Request, screen: Screen, newest_s: float = 0.0) -> Page:
        """Returns a page. With newest_s, a page of this address that is younger will do.

        Pages of one address are read one after the other, and share a reading. Others are read meanwhile.
        """
        address = request.url.path + "?" + request.url.query
        if (kept := self._kept_since(address, newest_s)) is not None:
            return kept
        with self._lock:
            same_page = self._made.setdefault(address, threading.Lock())
        with same_page, self.reader.page():
            if (kept := self._kept_since(address, newest_s)) is not None:  # another tab has read it meanwhile
                return kept
            changes, status = self._changes, 200
            try:
                made = self.render(request, *screen(self, request))
            except UnknownTopic as error:
                status, made = 404, self.problem(request, "Not found", reason(error))
            except TidewheelError as error:
                status, made = 400, self.problem(request, "Not valid", reason(error))
            except Exception:  # the other pages go on
                _log.exception("the page %s failed", request.url.path)
                told = "This page failed by a defect: the console's log has it."
                status, made = 500, self.problem(request, "Failed", told)
        shown = mark(made)
        page = Page(time.monotonic(), made.replace(_MARK, shown), shown, status)
        with self._lock:
            if status == 200 and changes == self._changes:
                self._kept[address] = page
                self._kept.move_to_end(address)
                while len(self._kept) > _PAGES_KEPT:
                    self._kept.popitem(last=False)
        return page

    def _kept_since(self, address: str, newest_s: float) -> Page | None:
        kept = self._kept.get(address)
        return kept if kept is not None and time.monotonic() - kept.made_at < newest_s else None

    def forget(self) -> None:
        """Forgets the kept pages, and those that are being made: something changed."""
        with self._lock:
            self._changes += 1
            self._kept.clear()
            self._sent = {}

    def problem(self, request: Request, heading: str, text: str) -> str:
        """Returns a page that tells why there is no other."""
        return self.render(request, "problem.html", {"heading": heading, "problem": text})

    def render(self, request: Request, template: str, values: Mapping[str, Any]) -> str:
        """Returns a template with the values that every page has."""
        now = self.now()
        query = request.url.query
        return self._templates.get_template(template).render(
            {
                "console": self,
                "stack": self.client.core.connection.stack,
                "now": now,
                "now_ms": int(now.timestamp() * 1000),
                "moved_ms": getattr(self.client.core.clock, "offset_ms", 0),
                "here": now.astimezone(),
                "moment": lambda at, **options: text.moment(at, now, **options),
                "mark": _MARK,
                "address": request.url.path + ("?" + query if query else ""),
                "path": request.url.path,
                "result": self.results.get(request.query_params.get("result")),
                "cost": self.reader.cost(),
                "still": False,
                **values,
            }
        )


_SCREENS: dict[str, Screen] = {
    "/": overview.screen,
    "/topics/{topic}": topic.screen,
    "/topics/{topic}/messages": messages.screen,
    "/topics/{topic}/messages/{id}": message.screen,
    "/topics/{topic}/recurring": topic.recurring,
    "/topics/{topic}/sent": sent.screen,
    "/topics/{topic}/dead": overview.dead,
    "/dead": overview.dead,
    "/search": sent.search,
    "/trouble": overview.trouble,
    "/cost": cost.screen,
}


def app(
    client: Tidewheel,
    *,
    changes: bool = False,
    requests: RequestMeter | None = None,
    local: LocalService | None = None,
    hide_bodies: bool = False,
    who: str = "local",
    hosts: Collection[str] = LOOPBACK,
    token: str | None = None,
    session: str | None = None,
    port: int | None = None,
) -> Guard:
    """Returns the console as an ASGI application.

    Without a token, whoever reaches the application reads messages: serve it on 127.0.0.1 only, or behind your own
    sign-in. Changes are refused from pages of other origins in any case.

    Args:
        client: the client, with the rights that the console shall have. `MemoryService().client()` will do.
        changes: whether pages have buttons that change something. Otherwise all changes are refused.
        requests: counts the AWS requests of this client.
        local: the powers over a service on this machine.
        hide_bodies: whether bodies and attributes are left out of all pages.
        who: the person, for the audit line.
        hosts: the names in the addresses that browsers open, without a port. Requests by other names are refused, since
            a web page can make a name of its own lead here.
        token: the first address must have it as `?token=`, which opens the console once. `Guard.token` is the next.
        session: the cookie's value after that. None: a new one. Keep it, and open pages outlive a restart.
        port: the only port at which browsers ask. None: any.
    """
    console = Console(client, may_change=changes, requests=requests, local=local, hide_bodies=hide_bodies, who=who)
    starlette = Starlette(
        routes=[
            *(Route(path, partial(_get, console, screen)) for path, screen in _SCREENS.items()),
            Route("/topics/{topic}/messages/{id}/body", partial(message.download, console)),
            Route("/topics/{topic}/sent.jsonl", partial(sent.download, console)),
            *_changing(console),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ],
        exception_handlers={404: partial(_missing, console), 405: partial(_missing, console)},
    )
    return Guard(starlette, hosts=hosts, token=token, session=session, port=port)


def _get(console: Console, screen: Screen, request: Request) -> Response:
    fresh = request.method == "GET" and request.headers.get("hx-request") is None
    page = console.page(request, screen, newest_s=0.0 if fresh else console.every_s * 0.9)
    return HTMLResponse(page.text, status_code=page.status, headers={"Tidewheel-Mark": page.mark})


def _changing(console: Console) -> list[Route]:
    actions = changes.ACTIONS.items()
    return [Route(path, partial(changes.change, console, action), methods=["POST"]) for path, action in actions]


async def _missing(console: Console, request: Request, error: Exception) -> Response:
    def make() -> str:
        with console.reader.page():
            return console.problem(request, "Not found", "There is no such page.")

    return HTMLResponse(await run_in_threadpool(make), status_code=getattr(error, "status_code", 404))
