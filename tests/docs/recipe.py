"""Helpers of the recipe tests, with an in-memory service that records the arrival of messages."""

from __future__ import annotations

from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tidewheel import Tidewheel
from tidewheel.local import MemoryTidewheel

if TYPE_CHECKING:
    from tidewheel.local import LocalTidewheel  # loads moto, which the independent parts of the tests refuse

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPES = ROOT / "examples" / "recipes"
RECURRING = ROOT / "examples" / "recurring.py"


def load(name: str, folder: Path = RECIPES) -> ModuleType:
    """Imports a recipe."""
    spec = spec_from_file_location(f"recipe_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def download(stack: LocalTidewheel, folder: Path) -> None:
    """Copies all objects of a stack into a folder."""
    s3, s3_bucket = stack.session.client("s3"), stack.client().core.connection.settings.s3_bucket
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=s3_bucket):
        for found in page["Contents"]:
            path = folder / found["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(s3.get_object(Bucket=s3_bucket, Key=found["Key"])["Body"].read())


class Service:
    """A service in memory, and when each message of a subscription came."""

    def __init__(self) -> None:
        self.stack = MemoryTidewheel()
        self.tw: Tidewheel = self.stack.client()
        self.start = self.stack.now()

    def make(self, topic: str, subscription: str) -> None:
        self.tw.create_topic(topic)
        self.tw.create_subscription(topic, subscription)

    def minutes(self) -> int:
        """The minutes since the start."""
        return (self.stack.now() - self.start) // timedelta(minutes=1)

    def arrivals(self, topic: str, subscription: str, *, minutes: int) -> list[tuple[int, Any]]:
        """Returns minute and body of each message received within the next minutes."""
        found = []
        for _ in range(minutes):
            self.stack.advance(minutes=1)
            found += [(self.minutes(), message) for message in self.stack.receive(topic, subscription)]
        assert self.stack.failures == []
        return found
