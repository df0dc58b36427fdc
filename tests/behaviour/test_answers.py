"""Every call, about a message in every state, gives the same true answer, whoever reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.behaviour.topic import receive_raw
from tidewheel import Cancelled, Rescheduled, Tidewheel, TooLate, UnknownMessage
from tidewheel.local import MemoryTidewheel
from tidewheel.model.received import parse_received

TOPIC = "orders"
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


BY_ID = ("cancel", "cancel_many", "reschedule", "deliver_now", "get")
BARE = " without a key"


class Answers(NamedTuple):
    """What the calls say of a message.

    `+`: of the message that took its place, or its key. `!`: a consumer has it. `p`: it may come to a plain reader.

    Attributes:
        where, move_where: the count of `cancel_where` and `reschedule_where`.
        late: with `replace`, to whom the message comes, or has come, all the same.
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
LATE = Answers("L", "L", "L", "L", "sent", "it", "too_late", "too_late", "both")
HANDLED = Answers("L!", "L!", "L!", "L!", "sent", "it", "too_late", "too_late", "billing")
NO_LEDGER = WAITS._replace(move="L", move_key="L", get="unknown", move_where="too_late")
QUEUED = Answers("C", "C0", "U", "U", "unknown", "", "", "")
PURGED = Answers("C", "C", "U", "U", "unknown", "", "", "")
BOTH_COME = LATE._replace(by_key="C+", move_key="R+", find="+", where="done", move_where="done")
NO_LEDGER_PLAIN = NO_LEDGER._replace(cancel="Lp", by_key="Lp", where="too_late", late="audit")
PLAIN = Answers("Lp", "Lp", "L+p", "L+p", "sent", "it", "too_late", "too_late", "audit")
STOPPED = Answers("Lp", "Lp", "Lp", "Lp", "sent", "", "", "", "audit")


def both_ways(claimed: Answers, unclaimed: Answers) -> tuple[Answers, Answers, Answers]:
    """Returns the answers about a message that a consumer has: a plain reader beside gets it in any case."""
    return unclaimed, claimed, claimed._replace(late="both")


TABLE: dict[str, tuple[Answers, Answers, Answers]] = {  # nobody claims, all claim, a plain reader is beside
    "in an ingest queue": (QUEUED, QUEUED, QUEUED),
    "in a ledger": (WAITS, WAITS, WAITS),
    "sealed": (LATE, WAITS._replace(get="sent"), PLAIN),
    "direct": (LATE._replace(get="unknown"), NO_LEDGER, NO_LEDGER_PLAIN),
    "due": (LATE, WAITS._replace(get="sent"), PLAIN),
    "due, ledger collected": (
        LATE._replace(get="unknown"),
        NO_LEDGER._replace(late="both"),
        NO_LEDGER_PLAIN._replace(late="both"),
    ),
    "handled": both_ways(HANDLED, LATE),
    "handled, direct": both_ways(HANDLED, LATE._replace(get="unknown")),
    "handled, ledger collected": both_ways(HANDLED._replace(late="both"), LATE._replace(get="unknown")),
    "replaced": (REPLACED, REPLACED, REPLACED),
    "replaced, sealed": (BOTH_COME, REPLACED, REPLACED._replace(cancel="Lp", move="Lp", get="sent", late="audit")),
    "handled, then replaced": both_ways(BOTH_COME._replace(cancel="L!", move="L!", late="billing"), BOTH_COME),
    "handled, direct, then replaced": both_ways(
        BOTH_COME._replace(cancel="L!", move="L!", late="billing"), BOTH_COME._replace(get="unknown")
    ),
    "cancelled": (GONE, GONE, GONE),
    "cancelled, sealed": (LATE, GONE, STOPPED),
    "cancelled by key": (GONE, GONE, GONE),
    "handled, then cancelled by key": both_ways(
        HANDLED._replace(find="", where="", move_where=""), LATE._replace(find="", where="", move_where="")
    ),
    "moved": (MOVED, MOVED, MOVED),
    "moved, sealed": (LATE, MOVED, MOVED._replace(late="audit")),
    "dropped": (REPLACED, REPLACED, REPLACED),
    "purged": (PURGED, PURGED, PURGED),
    "purged, sealed": (
        LATE._replace(find="", where="", move_where=""),
        GONE._replace(get="sent", late="both"),
        STOPPED._replace(late="both"),
    ),
}


class Column(NamedTuple):
    """A topic with subscriptions.

    Attributes:
        readers: the setting `reader` of "billing" and "audit".
        received: whether consumers of the SDK have received from the subscriptions before.
        told: the place in the table of messages with a key, and without.
    """

    claims: str
    readers: tuple[str | None, str | None]
    received: bool
    told: tuple[int, int]

    def is_plain(self, subscription: str) -> bool:
        """Whether nobody knows that a subscription's reader claims, and it does not."""
        reader = self.readers[NAMES.index(subscription)]
        return reader == "plain" or (reader is None and not self.received)


NAMES = ("billing", "audit")
COLUMNS = {
    "none": Column("none", ("tidewheel", "plain"), False, (0, 0)),
    "keyed": Column("keyed", ("tidewheel", None), True, (1, 0)),
    "all": Column("all", ("tidewheel", "tidewheel"), False, (1, 1)),
    "plain beside": Column("keyed", ("tidewheel", "plain"), False, (2, 0)),
    "not declared": Column("keyed", ("tidewheel", None), False, (2, 0)),
}


class Bench:
    """A topic with a message for each call, all in one state.

    Attributes:
        ids: the message of each call, whose key is the call's name with a slash, or which has none.
        handed: (subscription, id) of all that was handed out, in order.
    """

    def __init__(self, stack: MemoryTidewheel, state: str, column: Column) -> None:
        self.stack, self.client, self.column = stack, stack.client(), column
        self.client.create_topic(TOPIC, claims=column.claims, retention_days=0)  # type: ignore[arg-type]
        self.urls = {
            name: self.client.create_subscription(TOPIC, name, reader=reader).queue_url  # type: ignore[arg-type]
            for name, reader in zip(NAMES, column.readers, strict=True)
        }
        self.handed: list[tuple[str, str]] = []
        if column.received:
            self.hand_out()
        first, _, after = state.partition(", then ")
        self.names = [*CALLS]
        if first.split(", ")[0] not in ("replaced", "dropped", "cancelled by key") and not after:
            self.names += [call + BARE for call in BY_ID]
        self.ids = self.arranged(*first.partition(", ")[::2])
        if after == "replaced":
            self.send("9h", replace=True)
        elif after:
            self.each(lambda key, id: self.client.cancel(TOPIC, key=key))

    def send(self, delay: str, *, settles: bool = True, **options: Any) -> dict[str, str]:
        keys = {name: None if name.endswith(BARE) else f"{name}/" for name in self.names}
        found = {name: self.client.send(TOPIC, "x", delay=delay, key=keys[name], **options).id for name in keys}
        if settles:
            self.stack.advance(seconds=301)
        return dict(found)

    def each(self, do: Callable[[str, str], object]) -> None:
        for name, id in self.ids.items():
            do(f"{name}/", id)

    def arranged(self, state: str, where: str) -> dict[str, str]:
        """Brings messages into a state. `where` says from which place they begin."""
        if state == "in an ingest queue":
            return self.send("3h", settles=False)
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

    def hand_out(self, *subscriptions: str) -> None:
        for name in subscriptions or self.urls:
            if self.column.is_plain(name):
                while taken := receive_raw(self.stack.sqs, self.urls[name]):
                    self.handed += [(name, parse_received(each).id) for each in taken]
                    for each in taken:
                        self.stack.sqs.delete_message(QueueUrl=self.urls[name], ReceiptHandle=each["ReceiptHandle"])
            else:
                self.handed += [(name, each.id) for each in self.stack.receive(TOPIC, name)]

    def came(self, id: str) -> set[str]:
        return {subscription for subscription, each in self.handed if each == id}


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
            marks = "!" * len(answer.subscriptions) + "p" * len(answer.plain + answer.unseen)
            return ("L" if answer.id == id else "L+") + marks
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


def asked(bench: Bench, name: str) -> Any:
    try:
        return CALLS[name.removesuffix(BARE)](bench.client, f"{name}/", bench.ids[name])
    except UnknownMessage as error:
        return error


def assert_true(bench: Bench, id: str, answer: Any, later: set[str]) -> None:
    """Asserts that what came to each subscription is what an answer about a message said."""
    everyone, plain = set(bench.urls), {name for name in bench.urls if bench.column.is_plain(name)}
    match answer:
        case Cancelled():
            assert not {answer.id} & later
        case TooLate(subscriptions=()) if answer.plain or answer.unseen:
            named = (("audit",), ()) if "plain" in bench.column.readers else ((), ("audit",))
            assert (answer.plain, answer.unseen) == named
            assert bench.came(id) <= plain
            assert answer.id == id or bench.came(answer.id) == everyone
        case TooLate():
            assert bench.came(answer.id) >= {*(answer.subscriptions or everyone)}
        case Rescheduled():
            assert answer.old_id not in later
            assert bench.came(answer.receipt.id) == everyone


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("state", TABLE)
def test_each_call_tells_the_truth_of_a_message_in_each_state(stack: MemoryTidewheel, state: str, column: str) -> None:
    bench = Bench(stack, state, COLUMNS[column])
    answers = {name: asked(bench, name) for name in bench.names}
    before = len(bench.handed)
    stack.advance(hours=11)
    bench.hand_out()
    found = {name: told(name, bench.ids[name], answer) for name, answer in answers.items()}
    keyed, bare = (TABLE[state][place] for place in bench.column.told)
    came = bench.came(bench.ids["replace"])
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
            late="both" if len(came) == 2 else "".join(came),
        )
        == keyed
    )
    assert (found["cancel_many"], found["deliver_now"]) == (found["cancel"], found["reschedule"])
    if "cancel" + BARE in found:
        told_bare = [bare.cancel, bare.cancel, bare.move, bare.move, bare.get]
        assert [found[call + BARE] for call in BY_ID] == told_bare
    later = {id for _, id in bench.handed[before:]}
    for name, answer in answers.items():
        assert_true(bench, bench.ids[name], answer, later)


@pytest.mark.parametrize("phase_s", range(0, 3600, 900))
def test_where_consumers_claim_a_message_can_be_moved_until_it_is_due(stack: MemoryTidewheel, phase_s: int) -> None:
    client = stack.client()
    client.create_topic(TOPIC, claims="all", retention_days=0)
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
