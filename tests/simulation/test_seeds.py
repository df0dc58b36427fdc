"""Seeds of each mode keep every promise. In the night they do all that can be done, and all that can go wrong."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.simulation.modes import MODES
from tests.simulation.runs import one_run, sound_runs
from tests.stored_ports import STORED_PORTS
from tidewheel.flows.maintenance.retention import Dead

STEPS = 800
FEW = (1, 2)
"""Seeds of each mode by day."""
FRESH = range(10_000, 10_060)
"""Seeds of each mode for the night."""

HAPPENS = {
    "fault": "fails before, fails after, dies before, dies after, throttled, half sent, timed out, killed, lasts, "
    "clock doubted, queues for long, key for long, wheel for long, table for long, objects for long, jobs for long, "
    "topic for long",
    "trigger": "schedule lost, schedule late, schedule twice, dispatch call lost, dispatch repeated, packs twice, "
    "plain messages twice, packs to dead letters, job twice, sweep lost, merge lost",
    "client": "send, messages, plain messages, cancel in time, cancel too late, cancel by key in time, "
    "cancel by key too late, plain cancel in time, reschedule in time, large body moved, purged, pause, resume, "
    "a queue is gone, subscribe, unsubscribe, set filter, change settings, plans replayed, make recurring, "
    "end recurring, rebuild, rebuilt, keys lost, delete topic, create topic again",
    "unanswered": "send, plain send, cancel, cancel by key, reschedule, purge, pause, resume",
    "latency": "out of time, a machine stands still, dynamodb.get_item hangs, dynamodb.query hangs, s3.put hangs, "
    "dynamodb.transact_write_items hangs, sqs.send_message_batch hangs, wheel.schedule hangs, "
    "dynamodb.get_item throttled, sqs.send_message_batch throttled, s3.put throttled",
    "consumer": "handed out, dropped what was cancelled",
    "ingest": "direct_rows, ledger_rows, superseded, cancelled, expired, parked",
    "dispatch": "messages, parts left to the work queue",
    "deliver": "messages, parked",
    "collect": "buckets",
    "sweep": "dispatches started, parts enqueued again, parks enqueued, orphans deleted, payloads deleted, "
    "topics deleted",
    "check": "topics with live and dead bytes",
}
CALLS = """
buckets.commit -> committed, buckets.commit -> exists, buckets.commit -> moved, buckets.delete,
deletions.forget -> yes, deliveries.hand_out -> yes, deliveries.lease_part, deliveries.open_replay -> opened,
deliveries.part_done, keys.claim, keys.move -> yes, merges.delete_trash, merges.swap -> yes, notes.put, notes.read,
parks.delete, parks.lease, parks.put -> exists, parks.put -> parked, plans.delete,
plans.commit in one transaction -> no, plans.commit in one transaction -> yes, plans.commit in single steps -> yes,
queues.forward, queues.refuse, recurring.delete -> yes, recurring.put -> yes,
subscriptions.mark_broken -> yes, subscriptions.resume -> yes, tombstones.cancel_batch -> no,
tombstones.cancel_batch -> yes, tombstones.put, topic_states.merge_considered -> yes,
topic_states.raise_collected_until -> no, topic_states.raise_collected_until -> yes, topic_states.seal,
topic_states.update_settings -> yes
"""
WANTED = (
    *(f"{kind}: {each}" for kind, text in HAPPENS.items() for each in text.split(", ")),
    *CALLS.replace("\n", " ").strip().split(", "),
)
"""A simulation without events proves nothing."""


@cache
def happened(mode: str) -> Counter[str]:
    """Runs a few seeds of a mode. Returns their counted events."""
    return sound_runs(FEW, mode, STEPS)


@pytest.mark.parametrize("mode", MODES)
def test_a_few_seeds_keep_every_promise(mode: str) -> None:
    assert happened(mode)["client: messages"] > 10


@cache
def _in_the_night(mode: str) -> Counter[str]:
    return sound_runs(FRESH, mode, 2 * STEPS)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
def test_seeds_that_nobody_has_chosen_keep_every_promise(mode: str) -> None:
    assert _in_the_night(mode)["client: messages"] > 1000


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_seeds_do_all_that_can_be_done_and_that_can_go_wrong() -> None:
    assert _missing(sum(map(_in_the_night, MODES), Counter[str]())) == []


def _missing(found: Counter[str]) -> list[str]:
    """Returns the events that did not happen, and the ports of which no call failed."""
    faulty = {each.partition(": ")[2].partition(".")[0] for each in found if each.startswith("faulty: ")}
    # No function of the simulation adopts a topic or asks for unreadable items.
    ports = {*STORED_PORTS, "queues", "wheel", "runs", "ingest_queue"} - {"unreadable", "adoptions"}
    return [each for each in WANTED if not found[each]] + sorted(ports - faulty)


@pytest.mark.parametrize("mode", ["calm", "timed", "claims_calm"])
def test_where_no_call_fails_nothing_goes_wrong(mode: str) -> None:
    assert [each for each in happened(mode) if each.startswith(("fault: ", "unanswered: ", "trigger: "))] == []


@pytest.mark.nightly
def test_without_rewrites_a_topic_stores_too_many_dead_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dead, "deadest", lambda *_: [])
    runs = (one_run(seed, "calm", 2500) for seed in range(77, 400, 8))
    assert any(run.violation is not None and "are live" in run.violation for run in runs)
