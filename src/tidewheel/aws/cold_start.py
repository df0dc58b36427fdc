"""Nothing is collected while a function starts: a handler imports this first, and says when it has.

Almost nothing that modules make is garbage, yet each collection walks over all of it: 4% of the instructions of a start
of dispatch. What is there in the end stays: frozen, no later collection walks over it either. In Lambda only: the local
runtime loads handlers into its user's process.
"""

from __future__ import annotations

import gc
import os

_waiting = gc.isenabled() and "AWS_LAMBDA_INITIALIZATION_TYPE" in os.environ
if _waiting:
    gc.disable()


def started() -> None:
    """Lets Python collect again, once a process; what was made so far is left alone."""
    global _waiting  # noqa: PLW0603 - a process starts once
    if _waiting:
        _waiting = False
        gc.freeze()
        gc.enable()
