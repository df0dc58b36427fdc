"""Measures the path of a plain message by the called files of `src`."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import tidewheel
from tests.flows.world import HOUR, MINUTE, TOPIC, World
from tidewheel.flows.delivery.dispatch import dispatch
from tidewheel.model.pack import Arrival

SRC = Path(tidewheel.__file__).parent
MEMORY = "memory/"
STORAGE = ("aws/", "storage/")
EXCEPTIONS = {
    "away",
    "buckets_again",
    "damage",
    "drain",
    "keys",
    "load_index",
    "occurrences",
    "parking",
    "plan_anew",
    "progress",
    "recur",
    "refusing",
    "replaced",
    "set_aside",
    "try_again",
}
"""Files about keys, notes, parks, holds, damage, recurring messages, and indexes that no item can hold."""


def entered(call: Callable[[], object]) -> set[str]:
    """Returns the files of `src` of which a call enters a function, without the clients in memory."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    files = {str(Path(name).relative_to(SRC)) for name in found if Path(name).is_relative_to(SRC)}
    return {each for each in files if not each.startswith(MEMORY)}


def of_flows(files: set[str]) -> set[str]:
    return {each for each in files if not each.startswith(STORAGE)}


def exceptions(files: set[str]) -> set[str]:
    return {Path(each).stem for each in files if each.startswith("flows/delivery/")} & EXCEPTIONS


def a_message_on_its_way() -> tuple[World, Callable[[], object]]:
    """Returns a world, and the ingest of a message received for the first time."""
    world = World()
    world.send(HOUR)
    world.run(2 * HOUR)  # lazily made caches are there
    pack = replace(world.pack(HOUR), arrival=Arrival(name="pack", retried=False))
    return world, lambda: world.ingest(pack)


def test_ingest_of_a_plain_message_enters_few_files_and_no_exception() -> None:
    _, ingest = a_message_on_its_way()

    files = entered(ingest)

    assert not exceptions(files)
    assert len(of_flows(files)) <= 21, sorted(files)
    assert len(files) <= 27, sorted(files)


def test_dispatch_and_delivery_of_a_plain_message_enter_few_files_and_no_exception() -> None:
    world, ingest = a_message_on_its_way()
    ingest()
    world.clock.advance_ms(HOUR - 5 * MINUTE)

    files = entered(lambda: dispatch(world.ports, TOPIC))

    assert len(world.service.queues.sent()) == 2
    assert not exceptions(files)
    assert len(of_flows(files)) <= 24, sorted(files)
    assert len(files) <= 36, sorted(files)


def test_a_message_with_a_key_enters_the_files_of_keys() -> None:
    world = World()

    assert exceptions(entered(lambda: world.send(HOUR, key="cart"))) >= {"keys", "progress"}
