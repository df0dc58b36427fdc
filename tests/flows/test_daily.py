"""Daily work in portions visits every topic once a day, and a failure affects a single topic only."""

from __future__ import annotations

from tests.flows.world import DAY, MINUTE
from tidewheel.clock import ManualClock
from tidewheel.flows.maintenance.daily import PORTION_MS, walk_daily
from tidewheel.memory import MemoryService
from tidewheel.model.object_names import LEDGERS, PLANS
from tidewheel.storage.objects import StoredObject

PREFIXES = (LEDGERS, PLANS)
START_MS = 1_767_225_600_000


class Work:
    """Visits of 20 s each, with failures for some topics."""

    def __init__(self, *topics: str, failing: tuple[str, ...] = ()) -> None:
        self.clock = ManualClock(START_MS)
        self.service = MemoryService.at(self.clock)
        self.failing = failing
        self.visited: list[tuple[str, str, int]] = []
        for topic in topics:
            for name in (f"{LEDGERS}{topic}/1", f"{LEDGERS}{topic}/2", f"{PLANS}{topic}/1"):
                self.service.objects.put(name, b"x")

    def portion(self) -> dict[str, Exception] | None:
        return walk_daily(self.service, "WORK", PREFIXES, self._visit)

    def _visit(self, prefix: str, topic: str, listed: list[StoredObject]) -> None:
        self.clock.advance_ms(PORTION_MS // 3)
        self.visited.append((prefix, topic, len(listed)))
        if topic in self.failing:
            raise RuntimeError(topic)


def test_a_portion_that_has_no_time_left_is_continued_until_all_topics_are_visited_once() -> None:
    # Names that sort around the slash: "a-b/" is before "a/", which is before "a0/".
    work = Work("a", "a-b", "a0", "z")
    portions = 0
    while work.portion() is not None:
        portions += 1
        work.clock.advance_ms(5 * MINUTE)
    assert portions == 3
    expected = [(prefix, topic) for prefix in PREFIXES for topic in ("a-b", "a", "a0", "z")]
    assert work.visited == [(prefix, topic, 2 if prefix == LEDGERS else 1) for prefix, topic in expected]


def test_a_portion_ends_earlier_when_the_sweep_does_and_is_continued_all_the_same() -> None:
    work = Work("a", "b", "c")
    while walk_daily(work.service, "WORK", PREFIXES, work._visit, ends_ms=work.clock.now_ms() + 1) is not None:
        pass
    assert work.visited == [(prefix, topic, 2 if prefix == LEDGERS else 1) for prefix in PREFIXES for topic in "abc"]


def test_the_next_day_begins_at_the_first_topic_again() -> None:
    work = Work("a", "b", "c", "d")
    while work.portion() is not None:
        pass
    work.visited.clear()
    assert work.portion() is None
    work.clock.advance_ms(DAY)
    assert work.portion() == {}
    assert [topic for _, topic, _ in work.visited] == ["a", "b", "c"]


def test_one_topic_s_failure_is_told_and_keeps_no_other_waiting() -> None:
    work = Work("a", "b", failing=("a",))
    failures = work.portion()
    assert failures is not None and {topic: str(error) for topic, error in failures.items()} == {"a": "a"}
    assert [topic for _, topic, _ in work.visited] == ["a", "b", "a"]
