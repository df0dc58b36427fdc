"""The oracle. Derives from the answers to callers which messages must, may and must not come.

A call that ended without an answer may have taken effect: it leaves a doubt, and either outcome is then allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from tidewheel.model.message import MessageId
from tidewheel.model.recurrence import Rule
from tidewheel.model.settings import Claims, TopicSettings
from tidewheel.model.subscription_state import Delivery
from tidewheel.model.topic_state import TopicState, new_topic_state


class Violation(AssertionError):
    """A promise was broken.

    Attributes:
        about: names that the trace is searched for: the topic, and the message or object.
    """

    def __init__(self, what: str, *about: str) -> None:
        super().__init__(what)
        self.about = about


@dataclass(slots=True, kw_only=True)
class Pause:
    """A time in which a subscription is paused.

    Attributes:
        step: when the caller was told so.
        sealed: the topic's mark then: what lies in lower slots may have been handed out before.
    """

    step: int
    sealed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying:
    """A delivery of a plan's second or later time.

    Attributes:
        first_slot, end_slot: the plan's.
        first_ms, end_ms: what is due in this range comes again.
        before: messages of it that must come -> how many copies had come when it was opened.
    """

    first_slot: int
    end_slot: int
    first_ms: int
    end_ms: int
    before: Mapping[MessageId, int]

    def may_bring(self, due_ms: int, slot_ms: int) -> bool:
        """Whether the replay may repeat a message."""
        return self.first_ms <= due_ms < self.end_ms and self.first_slot <= due_ms // slot_ms < self.end_slot


@dataclass(slots=True, kw_only=True)
class Reader:
    """A subscription.

    Attributes:
        queue_url: its own, and nobody's before or after it.
        policies: every filter that was ever asked for; None: everything.
        made: whether its creator was told so.
        ended: whether somebody began to delete it.
        replays: deliveries that were opened to replay something to it.
        hindered: whether anybody began to pause it, or its queue was ever gone: what comes may then be late.
        refused_for_long: whether its queue refuses messages for a long time, or ever did.
        broken_off: how often its queue went away while something of its topic was under way: what was sent of a part,
            or of a batch, is then sent again.
        again_from: slots from which everything may come once more: a rebuild has planned it anew.
        pause: since when it is paused for sure.
    """

    name: str
    queue_url: str
    policies: list[str | None]
    made: bool = False
    ended: bool = False
    replays: list[Replaying] = field(default_factory=list)
    hindered: bool = False
    refused_for_long: bool = False
    broken_off: int = 0
    again_from: list[int] = field(default_factory=list)
    pause: Pause | None = None

    def most_copies(self, due_ms: int, slot_ms: int) -> int:
        """Returns how often a message comes at most, if nothing goes wrong."""
        replayed = sum(replaying.may_bring(due_ms, slot_ms) for replaying in self.replays)
        return 1 + replayed + self.broken_off + sum(due_ms // slot_ms >= each for each in self.again_from)

    def takes(self, sent: Sent) -> set[bool]:
        """Returns the answers of the reader's filters for a message."""
        return {sent.only == self.name} if sent.only is not None else self.takes_colour(sent.colour)

    def takes_colour(self, colour: str | None) -> set[bool]:
        """Returns the answers of the reader's filters for messages with a colour, or without."""
        return {policy is None or (colour is not None and f'"{colour}"' in policy) for policy in self.policies}


@dataclass(slots=True, kw_only=True)
class Purging:
    """A purge, under way or done.

    Attributes:
        first_ms, end_ms: what is due in this range, and
        sent_before_ms: was sent before, is dropped; a guess above it while nobody knows.
    """

    first_ms: int
    end_ms: int
    sent_before_ms: int

    def drops(self, sent: Sent) -> bool:
        """Whether the purge covers a message."""
        sent_ms = max(sent.sent_ms, sent.begun_ms)
        return self.first_ms <= sent.deliver_at_ms < self.end_ms and sent_ms < self.sent_before_ms


@dataclass(slots=True, kw_only=True)
class Family:
    """A message and its replacements.

    Attributes:
        doubts: changes under way, or that ended without an answer.
        cancels: calls that may have cancelled one of them.
    """

    members: list[MessageId]
    doubts: int = 0
    cancels: int = 0


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message and the requests for it.

    Attributes:
        topic: the life of the topic that it was sent to.
        sent_ms, seq: by its sender's clock and count.
        step: when its sending began.
        accepted: whether the sender was told so; None: it ended without an answer.
        accepted_ms: when, by the true clock; None: never.
        due_from: readers that existed before, and must get it.
        text: its body.
        moves: the message whose place it takes.
        never: whether somebody was told that it does not come; why.
        freed: at which step; it does not count for its key any more. None: never.
        purge_doubt: whether a purge may have dropped it.
        refused: whether SQS refuses its body.
        only: the one subscription that it is for.
        begun_ms: when its sending began, by the true clock and not later.
        ingested_open: whether ingest was done with it while its slot was open.
        tried, ingested: when ingest first began with it, and when it was done with it, as counts; None: not yet.
    """

    id: MessageId
    topic: TopicLife
    deliver_at_ms: int
    sent_ms: int
    seq: int
    step: int
    due_from: tuple[Reader, ...]
    family: Family
    text: str
    key: str | None = None
    replace: bool = False
    colour: str | None = None
    expires_at_ms: int | None = None
    payload: str | None = None
    moves: MessageId | None = None
    accepted: bool | None = None
    accepted_ms: int | None = None
    never: str | None = None
    freed: int | None = None
    purge_doubt: bool = False
    refused: bool = False
    only: str | None = None
    begun_ms: int = 0
    ingested_open: bool = False
    tried: int | None = None
    ingested: int | None = None


@dataclass(slots=True, kw_only=True)
class Repeated:
    """A recurring message.

    Attributes:
        text, colour: of each occurrence.
        made_ms: when its maker was told so; None: never.
        planned, sealed: the topic's marks before somebody began to end it, and after; None: nobody did.
    """

    name: str
    generation: str
    rule: Rule
    first_ms: int
    due_from: tuple[Reader, ...]
    text: str
    colour: str | None
    made_ms: int | None = None
    planned: int | None = None
    sealed: int | None = None


@dataclass(slots=True, kw_only=True)
class KeyCancel:
    """A cancel by key, under way or done.

    Attributes:
        from_ms, until_ms: its version is between these, by its caller's clock and those of senders.
        answered: at which step its caller had an answer; None: never.
    """

    from_ms: int
    until_ms: float = float("inf")
    answered: int | None = None


@dataclass(slots=True, kw_only=True)
class KeyHistory:
    """The messages and cancels of a key.

    Attributes:
        members: messages with it.
        cancels: cancels by it.
        superseded: pairs (older, newer): ingest was done with the newer while the older's slot was open.
    """

    members: list[Sent] = field(default_factory=list)
    cancels: list[KeyCancel] = field(default_factory=list)
    superseded: list[tuple[Sent, Sent]] = field(default_factory=list)

    def cancelled_from(self, sent_ms: int) -> bool:
        """Whether a cancel by the key may have a higher version than a message of a given send time."""
        return any(each.until_ms >= sent_ms for each in self.cancels)


@dataclass(slots=True, kw_only=True, eq=False)
class TopicLife:
    """A topic from its creation to its deletion.

    Attributes:
        lookahead_ms: how long before a slot begins it is planned.
        ending: whether somebody began to delete it: then nothing is promised any more.
        repeated: recurring messages by name.
        claims: which of its messages consumers claim.
    """

    name: str
    generation: str
    slot_ms: int
    lookahead_ms: int
    readers: list[Reader] = field(default_factory=list)
    purges: list[Purging] = field(default_factory=list)
    keys: dict[str, KeyHistory] = field(default_factory=dict)
    repeated: dict[str, Repeated] = field(default_factory=dict)
    ending: bool = False
    claims: Claims = "none"

    @property
    def state(self) -> TopicState:
        """The topic's state, as a client remembers it."""
        lookahead_s = self.lookahead_ms // 1000
        settings = TopicSettings(slot_s=self.slot_ms // 1000, lookahead_s=lookahead_s, claims=self.claims)
        return new_topic_state(self.name, self.generation, settings, 0)

    def lifts(self, older: Sent, newer: Sent) -> bool:
        """Whether a purge, which gives its time to what is sent after it by an older clock, may change their order."""
        return any(older.sent_ms < each.sent_before_ms >= newer.sent_ms for each in self.purges)

    def live(self) -> tuple[Reader, ...]:
        """Returns the readers known to exist."""
        return tuple(each for each in self.readers if each.made and not each.ended)

    def reader(self, name: str) -> Reader | None:
        """Returns the newest reader of a name."""
        return next((each for each in reversed(self.readers) if each.name == name), None)


@dataclass(slots=True)
class Promises:
    """All promises of a run.

    Attributes:
        lives: the topics, each new life of a name behind the last.
        sent: messages by id.
        copies: how often a queue took a message: (queue, id) -> times.
        claimed: whether what comes is what consumers hand out.
        handed: likewise, of copies that a consumer has handed out.
        refused: likewise, what is kept in the queue of refused messages.
        resumes: how many resumes of (topic, subscription) have begun.
        resuming: how many of them are under way.
    """

    lives: list[TopicLife] = field(default_factory=list)
    sent: dict[MessageId, Sent] = field(default_factory=dict)
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    claimed: bool = False
    handed: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: set[tuple[str, str]] = field(default_factory=set)
    resumes: Counter[tuple[str, str]] = field(default_factory=Counter)
    resuming: Counter[tuple[str, str]] = field(default_factory=Counter)
    _count: Iterator[int] = field(default_factory=count)

    def life(self, topic: str) -> TopicLife | None:
        """Returns a topic's newest life."""
        return next((each for each in reversed(self.lives) if each.name == topic), None)

    def of_generation(self, topic: str, generation: str) -> TopicLife | None:
        """Returns the life of a topic state."""
        return next((each for each in self.lives if (each.name, each.generation) == (topic, generation)), None)

    def reader_of(self, queue_url: str) -> tuple[TopicLife, Reader] | None:
        """Returns the owner of a queue."""
        for life in self.lives:
            for reader in life.readers:
                if reader.queue_url == queue_url:
                    return life, reader
        return None

    def belongs(self, reader: Reader, life: TopicLife, generation: str) -> TopicLife:
        """Moves a reader to the topic's life in which the reader was made. Returns the life."""
        made_in = self.of_generation(life.name, generation)
        if made_in is None or made_in is life:
            return life
        life.readers.remove(reader)
        made_in.readers.append(reader)
        return made_in

    def named(self, topic: str, name: str) -> Iterator[Reader]:
        """Yields all readers that ever had a name, in any life of a topic."""
        yield from (each for life in self.lives if life.name == topic for each in life.readers if each.name == name)

    def family(self, sent: Sent) -> Iterator[Sent]:
        """Yields a message and all its replacements, also refused replacements."""
        return (self.sent[each] for each in sent.family.members)

    def replaying(self, life: TopicLife, reader: Reader, delivery: Delivery, end_slot: int) -> None:
        """Notes an opened replay. All delivered messages of its plan must come again, except dropped messages."""
        assert delivery.first_ms is not None and delivery.end_ms is not None
        before: dict[MessageId, int] = {}
        opened = Replaying(
            first_slot=delivery.key.plan,
            end_slot=end_slot,
            first_ms=delivery.first_ms,
            end_ms=delivery.end_ms,
            before=before,
        )
        reader.replays.append(opened)
        for sent in self.sent.values():
            # Ingest was done with it while its slot was open: it was in a ledger, and so in this plan.
            planned = sent.topic is life and sent.ingested_open and opened.may_bring(sent.deliver_at_ms, life.slot_ms)
            count = self.copies[reader.queue_url, sent.id]
            if planned and count and reader.takes(sent) == {True} and sent.expires_at_ms is None and not sent.refused:
                before[sent.id] = count

    def came(self, sent: Sent) -> int:
        """Returns how many copies there are, in all queues."""
        came = self.handed if self.claimed else self.copies
        return sum(came[reader.queue_url, sent.id] for reader in sent.topic.readers)

    def add(self, sent: Sent) -> None:
        """Notes a message before the send."""
        self.sent[sent.id] = sent
        if sent.moves is not None:
            sent.family.members.append(sent.id)
        if sent.key is not None:
            history = sent.topic.keys.setdefault(sent.key, KeyHistory())
            history.members.append(sent)
            if history.cancelled_from(sent.sent_ms):
                sent.family.doubts += 1
        sent.purge_doubt = any(purging.drops(sent) for purging in sent.topic.purges)

    def never(self, sent: Sent, why: str, step: int) -> None:
        """Notes an answer to a caller by which a message does not come.

        Raises:
            Violation: it has come.
        """
        sent.never = why
        sent.freed = step if sent.freed is None else sent.freed
        if self.came(sent):
            raise Violation(f"{sent.id} {why}, but it was sent before", sent.topic.name, sent.id)

    def _version(self, sent: Sent) -> tuple[int, int]:
        """Returns the version of a message for its key. A moved message is newer than its predecessor."""
        own = sent.sent_ms, sent.seq
        if sent.moves is None:
            return own
        sent_ms, seq = self._version(self.sent[sent.moves])
        return max(own, (sent_ms, seq + 1))

    def tried(self, ids: list[MessageId]) -> None:
        """Notes messages with which ingest begins."""
        for each in (self.sent[id] for id in ids if id in self.sent):
            each.tried = next(self._count) if each.tried is None else each.tried

    def ingested(self, ids: list[MessageId], sealed: int) -> None:
        """Notes ingested messages. Messages below `sealed` may have been handed out before."""
        for each in (self.sent[id] for id in ids if id in self.sent):
            each.ingested = next(self._count) if each.ingested is None else each.ingested
            each.ingested_open = each.ingested_open or each.deliver_at_ms // each.topic.slot_ms >= sealed
            if each.key is None or not each.replace or each.moves is not None:
                continue
            history = each.topic.keys[each.key]
            for other in history.members:
                older = self._version(other) < (each.sent_ms, each.seq) and other.deliver_at_ms > each.sent_ms
                if older and not each.topic.lifts(other, each) and other.deliver_at_ms // each.topic.slot_ms >= sealed:
                    history.superseded.append((other, each))
