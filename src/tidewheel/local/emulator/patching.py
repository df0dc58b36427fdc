"""Replaces attributes of moto while a local stack is open, and restores them."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from functools import cache
from typing import Any
from unittest.mock import patch

from moto.core import responses
from moto.core.utils import method_names_from_class


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
