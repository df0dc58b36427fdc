"""Runs moto's server as a process. Prints the URL and serves until the input ends.

Run by `launch.py`, it lives in moved time. Each workaround has its reason:

| what | why |
|---|---|
| one lock for each request | moto is not safe under threads: two transactions that exclude each other may both win |
| `MotoTime` | moto makes milliseconds of a float and loses some: a delayed message would be early |
| `patching` | each request makes a random id, and lists the methods of a class |
| `tables` | a transaction copies whole tables, a query sorts them: seconds for thousands of items |
| `queues` | a queue is walked at each request; a stale receipt handle deletes; StartMessageMoveTask is missing |
| `_untracked` | moto keeps each model that it ever made |
"""

from __future__ import annotations

import sys
from threading import Condition, RLock
from typing import Any

from moto.core.common_models import BaseModel

from tidewheel.clock import SystemClock
from tidewheel.local.emulator.patching import MotoTime, Patches
from tidewheel.local.emulator.queues import EmulatedSqs
from tidewheel.local.emulator.tables import EmulatedTables
from tidewheel.local.emulator.wire import Wire


def _untracked(cls: type, *_: Any, **__: Any) -> Any:
    return object.__new__(cls)


def main() -> None:
    """Serves until standard input ends, so that a killed harness leaves no server behind."""
    lock, patches = RLock(), Patches()
    MotoTime(SystemClock()).install()
    patches.set(BaseModel, "__new__", staticmethod(_untracked))
    patches.speed_up_moto()
    EmulatedTables().install(patches)
    EmulatedSqs(SystemClock(), Condition(lock), virtual=False).install(patches)
    server = Wire(lock, {}, SystemClock(), commit=lambda: None)
    print(server.endpoint_url, flush=True)
    sys.stdin.read()
    server.close()


main()
