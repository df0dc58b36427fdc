"""Every call, about a message in every state, gives the same true answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tidewheel import Cancelled, Rescheduled, Tidewheel, TooLate, UnknownMessage
from tidewheel.local import MemoryTidewheel

TOPIC = "orders"
CLAIMED: Any = {"claims": "all"}
CALLS: dict[str, Callable[[Tidewheel, str, str], Any]] = {
    "cancel": lambda tw, key, id: tw.cancel(TOPIC, id),
    "cancel_many": lambda tw, key, id: tw.cancel_many(TOPIC, [id])[0],
    "cancel by key": lambda tw, key, id: tw.cancel(TOPIC, key=key),
    "reschedule": lambda tw, key, id: tw.reschedule(TOPIC, id, delay="9h"),
    "reschedule by key": lambda tw, key, id: tw.reschedule(TOPIC, key=key, delay="9h"),
    "deliver_now": lambda tw, key, id: tw.deliver_now(TOPIC, id),
    "get": lambda tw, key, id: tw.get(TOPIC, id).state,
    "find": lambda tw, key, id: next((each.id for each in tw.find(TOPIC, key_prefix=key, first=0)), None),
    "cancel_where": lambda tw, key, id: tw.cancel_where(TOPIC, key_prefix=key, first=0),
    "reschedule_where": lambda tw, key, id: tw.reschedule_where(TOPIC, by="9h", key_prefix=key, first=0),
    "replace": lambda tw, key, id: tw.send(TOPIC, "newer", key=key, delay="9h", replace=True).id,
}


class Answers(NamedTuple):
    """What the calls say of a message. `+`: of the message that took its place, or its key. `!`: a consumer has it.

    Attributes:
        where, move_where: the count of `cancel_where` and `reschedule_where`.
        late: with `replace`, the message comes, or has come, all the same.
    """

    cancel: str
    by_key: str
    move: str
    move_key: str
    get: str
    find: str
    where: str
    move_where: str
    late: str = ""


GONE = Answers("C", "C", "C", "C", "cancelled", "", "", "")
WAITS = Answers("C", "C", "R", "R", "waiting", "it", "done", "done")
REPLACED = Answers("C", "C+", "C", "R+", "cancelled", "+", "done", "done")
MOVED = Answers("C+", "C+", "R+", "R+", "cancelled", "+", "done", "done")
LATE = Answers("L", "L", "L", "L", "sent", "it", "too_late", "too_late", "late")
HANDLED = Answers("L!", "L!", "L!", "L!", "sent", "it", "too_late", "too_late", "late")
NO_LEDGER = WAITS._replace(move="L", move_key="L", get="unknown", move_where="too_late")
QUEUED = Answers("C", "C0", "U", "U", "unknown", "", "", "")
PURGED = Answers("C", "C", "U", "U", "unknown", "", "", "")
BOTH_COME = LATE._replace(by_key="C+", move_key="R+", find="+", where="done", move_where="done")
TABLE: dict[str, tuple[Answers, Answers]] = {  # until sealed, until consumed
    "in an ingest queue": (QUEUED, QUEUED),
    "in a ledger": (WAITS, WAITS),
    "sealed": (LATE, WAITS._replace(get="sent")),
    "direct": (LATE._replace(get="unknown"), NO_LEDGER),
    "due": (LATE, WAITS._replace(get="sent")),
    "due, ledger collected": (LATE._replace(get="unknown"), NO_LEDGER._replace(late="late")),
    "handled": (LATE, HANDLED),
    "handled, direct": (LATE._replace(get="unknown"), HANDLED._replace(get="unknown")),
    "handled, ledger collected": (LATE._replace(get="unknown"), HANDLED._replace(get="unknown")),
    "replaced": (REPLACED, REPLACED),
    "replaced, sealed": (BOTH_COME, REPLACED),
    "handled, then replaced": (BOTH_COME, BOTH_COME._replace(cancel="L!", move="L!")),
    "handled, direct, then replaced": (
        BOTH_COME._replace(get="unknown"),
        BOTH_COME._replace(cancel="L!", move="L!", get="unknown"),
    ),
    "cancelled": (GONE, GONE),
    "cancelled, sealed": (LATE, GONE),
    "cancelled by key": (GONE, GONE),
    "handled, then cancelled by key": tuple(
        each._replace(find="", where="", move_where="") for each in (LATE, HANDLED)
    ),
    "moved": (MOVED, MOVED),
    "moved, sealed": (LATE, MOVED),
    "dropped": (REPLACED, REPLACED),
    "purged": (PURGED, PURGED),
    "purged, sealed": (
        LATE._replace(find="", where="", move_where=""),
        GONE._replace(get="sent", late="late"),
    ),
}
STATES = [(state, claimed, n) for state in TABLE for claimed in (False, True) for n in (1, 2)]


class Bench:
    """A topic with a message for each call, all in one state.

    Attributes:
        ids: the message of each call, whose key is the call's name with a slash.
        handed: (subscription, id) of all that was handed out, in order.
    """

    def __init__(self, stack: MemoryTidewheel, state: str, claimed: bool, subscriptions: int) -> None:
        self.stack, self.client = stack, stack.client()
        self.claimed, self.subscriptions = claimed, ["billing", "audit"][:subscriptions]
        self.client.create_topic(TOPIC, **(CLAIMED if claimed else {}))
        for each in self.subscriptions:
            self.client.create_subscription(TOPIC, each)
        self.handed: list[tuple[str, str]] = []
        first, _, after = state.partition(", then ")
        self.ids = self.arranged(*first.partition(", ")[::2])
        if after == "replaced":
            self.send("9h", replace=True)
        elif after:
            self.each(lambda key, id: self.client.cancel(TOPIC, key=key))

    def send(self, delay: str, **options: Any) -> dict[str, str]:
        found = {call: self.client.send(TOPIC, "x", delay=delay, key=f"{call}/", **options).id for call in CALLS}
        self.stack.advance(seconds=301)
        return dict(found)

    def each(self, do: Callable[[str, str], object]) -> None:
        for call, id in self.ids.items():
            do(f"{call}/", id)

    def arranged(self, state: str, where: str) -> dict[str, str]:
        """Brings messages into a state. `where` says from which place they begin."""
        if state == "in an ingest queue":
            return {call: self.client.send(TOPIC, "x", delay="3h", key=f"{call}/").id for call in CALLS}
        if state == "dropped":
            self.send("3h")
            return self.send("4h")
        self.ids = self.send("6m" if "direct" in (state, where) else "71m")
        if state == "sealed" or where == "sealed":
            self.stack.advance(minutes=61)
        if state in ("due", "handled"):
            self.stack.advance(minutes=67 if where != "direct" else 3)
        if state == "handled":
            self.hand_out("billing")
        if where == "ledger collected":
            self.stack.advance(hours=2)
        match state:
            case "replaced":
                self.send("9h", replace=True)
            case "cancelled":
                self.each(lambda key, id: self.client.cancel(TOPIC, id))
            case "cancelled by key":
                self.each(lambda key, id: self.client.cancel(TOPIC, key=key))
            case "moved":
                self.each(lambda key, id: self.client.reschedule(TOPIC, id, delay="9h"))
                self.stack.advance(seconds=301)
            case "purged":
                self.client.purge(TOPIC)
        return self.ids

    def hand_out(self, subscription: str) -> None:
        self.handed += [(subscription, each.id) for each in self.stack.receive(TOPIC, subscription)]

    def came(self, id: str) -> list[str]:
        return [subscription for subscription, each in self.handed if each == id]


@pytest.fixture
def stack() -> Iterator[MemoryTidewheel]:
    with MemoryTidewheel() as opened:
        yield opened


def told(call: str, id: str, answer: Any) -> str:
    """Returns an answer as the table has it."""
    match answer:
        case Cancelled():
            return "C0" if answer.id is None else "C" if answer.id == id else "C+"
        case TooLate():
            assert answer.subscriptions in ((), ("billing",))
            return ("L" if answer.id == id else "L+") + "!" * len(answer.subscriptions)
        case Rescheduled():
            return "R" if answer.old_id == id else "R+"
        case UnknownMessage():
            return "U"
        case None:
            return ""
    if call == "find":
        return "it" if answer == id else "+"
    if call.endswith("_where"):
        return next((each for each in ("done", "too_late", "gone") if getattr(answer, each)), "")
    return str(answer)


def asked(bench: Bench, call: str) -> Any:
    try:
        return CALLS[call](bench.client, f"{call}/", bench.ids[call])
    except UnknownMessage as error:
        return error


@pytest.mark.parametrize(("state", "claimed", "subscriptions"), STATES)
def test_each_call_tells_the_truth_of_a_message_in_each_state(
    stack: MemoryTidewheel, state: str, claimed: bool, subscriptions: int
) -> None:
    bench = Bench(stack, state, claimed, subscriptions)
    answers = {call: asked(bench, call) for call in CALLS}
    before = len(bench.handed)
    for _ in range(11):
        stack.advance(hours=1)
        for each in bench.subscriptions:
            bench.hand_out(each)
    expected = TABLE[state][claimed]
    found = {call: told(call, bench.ids[call], answer) for call, answer in answers.items()}
    replaced = bench.ids["replace"]
    assert (
        Answers(
            cancel=found["cancel"],
            by_key=found["cancel by key"],
            move=found["reschedule"],
            move_key=found["reschedule by key"],
            get=found["get"],
            find=found["find"],
            where=found["cancel_where"],
            move_where=found["reschedule_where"],
            late="late" if bench.came(replaced) else "",
        )
        == expected
    )
    assert (found["cancel_many"], found["deliver_now"]) == (found["cancel"], found["reschedule"])
    later = {id for _, id in bench.handed[before:]}
    for call, answer in answers.items():
        match answer:
            case Cancelled():
                assert (
                    not {answer.id, bench.ids[call] if not found[call].endswith("+") or call == "cancel" else ""}
                    & later
                ), call
            case TooLate():
                assert {*bench.came(answer.id)} >= {*(answer.subscriptions or bench.subscriptions)}, call
            case Rescheduled():
                assert answer.old_id not in later and sorted(bench.came(answer.receipt.id)) == sorted(
                    bench.subscriptions
                ), call


@pytest.mark.parametrize("phase_s", range(0, 3600, 900))
def test_where_consumers_claim_a_message_can_be_moved_until_it_is_due(stack: MemoryTidewheel, phase_s: int) -> None:
    client = stack.client()
    client.create_topic(TOPIC, claims="all")
    client.create_subscription(TOPIC, "billing")
    client.send(TOPIC, "begins the hourly collections", delay=4_000)
    sent = client.send(TOPIC, "x", delay=5_000 + phase_s)
    stack.advance(seconds=4_990 + phase_s)
    stack.receive(TOPIC, "billing")
    moved = client.reschedule(TOPIC, sent.id, delay="1h")
    assert isinstance(moved, Rescheduled)
    stack.advance(hours=2)
    assert [each.id for each in stack.receive(TOPIC, "billing")] == [moved.receipt.id]
    stack.advance(hours=2)
    assert stack.service.objects.names("ledgers/") == []
