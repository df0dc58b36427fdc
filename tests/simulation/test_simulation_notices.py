"""What the simulation looks at: a service that breaks one promise is found out, whichever it is."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.runs import one_run
from tidewheel.fence import Fence
from tidewheel.flows import addressed, collect, deliver, drain, occurrences, payloads, release
from tidewheel.flows.keys import _Settling
from tidewheel.flows.keys_port import Entombed
from tidewheel.memory import MemoryTopics
from tidewheel.subscription import Subscription
from tidewheel.tombstone import Tombstone

STEPS = 900
MOST_SEEDS = 40

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def found(mode: str = "calm") -> str:
    """Returns the first violation of the seeds; none is a violation of this test."""
    for seed in range(MOST_SEEDS):
        run = one_run(seed, mode, STEPS)
        if run.violation is not None:
            return run.violation
    raise AssertionError(f"{MOST_SEEDS} seeds find nothing")


def early(patch: Patch) -> None:
    patch.setattr(release, "fine_delay_s", lambda due_ms, now_ms, _: max(0, (due_ms - now_ms) // 1000))


def cancelled(patch: Patch) -> None:
    patch.setattr(MemoryTopics, "tombstones", lambda *_: frozenset())


def paused(patch: Patch) -> None:
    patch.setattr(Subscription, "takes_plans", property(lambda _: True))


def purged(patch: Patch) -> None:
    patch.setattr(MemoryTopics, "set_purges", lambda *_: True)


def filtered(patch: Patch) -> None:
    patch.setattr(addressed, "taken", lambda rows, _: rows)


def lost(patch: Patch) -> None:
    releases = release.releases
    patch.setattr(release, "releases", lambda rows: releases(rows)[:3])


def twice(patch: Patch) -> None:
    patch.setattr(MemoryTopics, "delete_deliveries", lambda *_: None)


def collected_early(patch: Patch) -> None:
    patch.setattr(collect, "_until", lambda _ports, fence, _needed, _now_ms: fence.planned)


def left_behind(patch: Patch) -> None:
    patch.setattr(MemoryTopics, "delete_plan", lambda *_: None)


def moved_back(patch: Patch) -> None:
    def raise_gc(self: Any, fence: Fence, gc_until: int) -> bool:
        current = self._same(fence)
        if current is None or current.gc_until >= gc_until:
            return False
        self._of(fence.topic).fence = replace(current, gc_until=current.gc_until - 1)
        return True

    patch.setattr(MemoryTopics, "raise_gc", raise_gc)


def moved(patch: Patch) -> None:
    cancel = MemoryTopics.cancel

    def forgetful(self: MemoryTopics, topic: str, tombstone: Tombstone) -> Entombed:
        return cancel(self, topic, tombstone) if tombstone.to is None else Entombed(done=True)

    patch.setattr(MemoryTopics, "cancel", forgetful)


def superseded(patch: Patch) -> None:
    patch.setattr(_Settling, "_drop", lambda *_: None)


def recurring(patch: Patch) -> None:
    patch.setattr(occurrences, "store_occurrences", lambda *_: None)


def bodies(patch: Patch) -> None:
    patch.setattr(payloads, "KEPT_MS", -86_400_000 * 2)
    patch.setattr(payloads, "_due_day_end_ms", lambda _: 0)


def expired(patch: Patch) -> None:
    for flow in (deliver, drain):
        patch.setattr(flow, "without_expired", lambda rows, _: rows)


@pytest.mark.parametrize(
    ("plant", "mode", "says"),
    [
        (early, "calm", "before its time"),
        (cancelled, "calm", "and came to"),
        (paused, "calm", "which is paused"),
        (purged, "calm", "was purged"),
        (filtered, "calm", "which does not take it"),
        (lost, "calm", "never came"),
        (twice, "calm", "times"),
        (collected_early, "calm", "is gone"),
        (left_behind, "calm", "plans are left"),
        (moved_back, "calm", "went back"),
        (moved, "calm", "was moved to"),
        (superseded, "calm", "had replaced it"),
        (recurring, "calm", "of rule-"),
        (bodies, "calm", "without its body"),
        (expired, "late", "long after it had expired"),
    ],
)
def test_a_service_that_breaks_a_promise_is_found_out(
    plant: Plant, mode: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert says in found(mode)
