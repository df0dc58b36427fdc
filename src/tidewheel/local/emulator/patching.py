"""Replaces attributes of moto while a local stack is open, such as its functions for the time, and restores them.

Why the time: moto asks the machine. time-machine would move the whole process, including the caller's own code.
"""

from __future__ import annotations

import datetime as dt
import itertools
import sys
from contextlib import ExitStack
from functools import cache
from typing import Any
from unittest.mock import patch

import moto.core.utils as moto_utils
from moto.core import responses
from moto.core.utils import method_names_from_class

from tidewheel.clock import Clock

_EPOCH = dt.datetime(1970, 1, 1)


class Patches(ExitStack):
    """Holds a stack of replaced attributes. `close` restores the last first, whatever happened in between."""

    def set(self, owner: Any, name: str, value: object) -> None:
        """Replaces `owner.name`."""
        self.enter_context(patch.object(owner, name, value, create=True))

    def speed_up_moto(self) -> None:
        """Replaces moto's slow request ids, and remembers the methods of its classes, which each request looks for."""
        numbers = itertools.count(1)

        def request_id(headers: dict[str, str]) -> str:
            headers["x-amzn-requestid"] = name = f"local-{next(numbers)}"
            return name

        self.set(responses, "gen_amzn_requestid_long", request_id)
        self.set(responses, "method_names_from_class", cache(method_names_from_class))


class MotoTime:
    """Replaces moto's time functions between `install` and `remove`, in every loaded module that imported them."""

    def __init__(self, clock: Clock) -> None:
        original_unix_time = moto_utils.unix_time

        def utcnow() -> dt.datetime:
            return _EPOCH + dt.timedelta(milliseconds=clock.now_ms())

        def unix_time(value: dt.datetime | None = None) -> float:
            return clock.now_ms() / 1000 if value is None else original_unix_time(value)

        def unix_time_millis(value: dt.datetime | None = None) -> float:
            # Not unix_time() * 1000, which loses a millisecond to rounding. Messages would be early.
            return float(clock.now_ms()) if value is None else round(original_unix_time(value) * 1000, 3)

        self._ours: dict[str, Any] = {"utcnow": utcnow, "unix_time": unix_time, "unix_time_millis": unix_time_millis}
        self._originals: dict[str, Any] = {name: getattr(moto_utils, name) for name in self._ours}

    def install(self) -> None:
        """Replaces the functions. Modules imported later get the replacements from moto.core.utils."""
        _swap({id(self._originals[name]): ours for name, ours in self._ours.items()})

    def remove(self) -> None:
        """Restores moto's functions everywhere, also in modules that imported the replacements."""
        _swap({id(ours): self._originals[name] for name, ours in self._ours.items()})


def _swap(replacement_by_id: dict[int, Any]) -> None:
    for name, module in list(sys.modules.items()):
        if module is None or not (name == "moto" or name.startswith("moto.")):
            continue
        for attribute, value in list(vars(module).items()):
            replacement = replacement_by_id.get(id(value))
            if replacement is not None:
                setattr(module, attribute, replacement)
