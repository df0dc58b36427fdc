"""Tells a tab that its page has changed, by a stream of server-sent events.

The stream makes the tab's page again and again, and compares. If the page differs, the tab gets the event `changed`,
and fetches the page, which is still kept. Tabs with the same page share one reading. A hidden tab ends its stream (see
hx-sse), so nobody reads for it. A browser has six connections a host: a seventh tab gets no stream, and works without.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable
from threading import Event

from starlette.concurrency import run_in_threadpool

_MOVING = re.compile(r'<span class="rel".*?</span>|<[^>]* data-moving[^>]*>', re.DOTALL)
"""Parts that differ each time: times from now, and elements whose attributes depend on the time."""
_LOOK_S = 0.25
"""How often a waiting stream sees whether the server ends."""
QUIET_AFTER_S = 300.0
QUIET_S = 30.0


LOCAL_S, DEPLOYED_S = 1.0, 5.0
"""How often a page is compared, locally and with AWS."""


def mark(page: str) -> str:
    """Returns a text that differs for pages whose main part shows something else."""
    main = page.partition("<main")[2].partition("</main>")[0]
    return hashlib.blake2b(_MOVING.sub("", main).encode(), digest_size=12).hexdigest()


async def changes(make: Callable[[float], str], seen: str, every_s: float, ended: Event) -> AsyncIterator[str]:
    """Yields the lines of the stream, until the tab ends it.

    Args:
        make: makes the page, unless one is kept that is younger than this many seconds. Returns its mark.
        seen: the mark of the page that the tab shows. After a pause, the first comparison finds the changes.
        ended: the stream ends soon after it is set.
        every_s: how often. A page without changes for `QUIET_AFTER_S` is compared every `QUIET_S`.
    """
    yield "retry: 1000\n\n"
    unchanged_s = wait_s = 0.0
    while not ended.is_set():
        now = await run_in_threadpool(make, max(wait_s, every_s) * 0.9)
        yield ": unchanged\n\n" if now == seen else "event: changed\ndata: \n\n"
        unchanged_s = unchanged_s + wait_s if now == seen else 0.0
        seen = now
        wait_s = every_s if unchanged_s < QUIET_AFTER_S else max(every_s, QUIET_S)
        await _sleep(wait_s, ended)


async def _sleep(wait_s: float, ended: Event) -> None:
    ends_s = time.monotonic() + wait_s
    while (left_s := ends_s - time.monotonic()) > 0 and not ended.is_set():
        await asyncio.sleep(min(left_s, _LOOK_S))
