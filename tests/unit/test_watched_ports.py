"""The functions' wrappers of ports have each of the port's calls, with the same arguments."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.flows.ports import Queues, Wheel
from tidewheel.telemetry.watched import WatchedQueues, WatchedWheel


def calls(port: Any) -> dict[str, inspect.Signature]:
    """Returns the port's calls and their arguments."""
    return {name: inspect.signature(each) for name, each in vars(port).items() if not name.startswith("_")}


@pytest.mark.parametrize(("port", "watched"), [(Queues, WatchedQueues), (Wheel, WatchedWheel)])
def test_a_watched_port_has_each_call_with_its_arguments_or_is_the_ports_own(port: Any, watched: Any) -> None:
    inner = SimpleNamespace(**{name: object() for name in calls(port)})
    wrapper = watched(inner, None)
    for name, signature in calls(port).items():
        if name in vars(watched):
            found = inspect.signature(vars(watched)[name])
            assert list(found.parameters.items()) == list(signature.parameters.items()), name
        else:
            assert getattr(wrapper, name) is getattr(inner, name), name
