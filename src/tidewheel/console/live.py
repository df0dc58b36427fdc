"""Tells a tab whether its page has changed, by a mark of what the page shows.

A visible tab asks for the mark again and again (static/console.js), and fetches the page if the mark differs. Tabs with
the same page share one reading. A hidden tab does not ask, so nobody reads for it.
"""

from __future__ import annotations

import hashlib
import re

_MOVING = re.compile(r'<span class="rel".*?</span>|<[^>]* data-moving[^>]*>', re.DOTALL)
"""Parts that differ each time: times from now, and elements whose attributes depend on the time."""
LOCAL_S, DEPLOYED_S = 1.0, 5.0
"""How often a tab asks, locally and with AWS."""


def mark(page: str) -> str:
    """Returns a text that differs for pages whose main part shows something else."""
    main = page.partition("<main")[2].partition("</main>")[0]
    return hashlib.blake2b(_MOVING.sub("", main).encode(), digest_size=12).hexdigest()
