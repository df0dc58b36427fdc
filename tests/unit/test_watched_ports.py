"""The functions' wrappers of ports have each of the port's calls, with the same arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tidewheel.flows.ports.queues import Queues
from tidewheel.flows.ports.wheel import Wheel
from tidewheel.telemetry.watched import WatchedQueues, WatchedWheel


def calls(port: Any) -> dict[str, inspect.Signature]:
    """Returns the port's calls and their arguments."""
    return {name: inspect.signature(each) for name, each in vars(port).items() if not name.startswith("_")}


@pytest.mark.parametrize(("port", "watched"), [(Queues, WatchedQueues), (Wheel, WatchedWheel)])
def test_a_watched_port_forwards_each_call(port: Any, watched: Any) -> None:
    own = {name: inspect.signature(getattr(watched, name, None) or (lambda: None)) for name in calls(port)}
    arguments = {name: list(signature.parameters.items()) for name, signature in own.items()}
    assert arguments == {name: list(signature.parameters.items()) for name, signature in calls(port).items()}
