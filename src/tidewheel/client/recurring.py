"""Creates, lists and ends recurring messages.

    now                sealed                     first                                  time
     |--------------------|-------------------------|----------------------------------->
     | sent as ordinary messages, now               | made by planning, until the rule ends

Occurrences due before `first` are too early for planning to know the rule, so they are sent like any message. `first`
is so far ahead that the sweep has created the schedule by then.

Whoever ends a message notes when it would come next. One that is made again before this time, with the same name and
rule, goes on there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from tidewheel.clock import utc
from tidewheel.errors import (
    AlreadyExists,
    ConcurrentModification,
    CorruptMetadata,
    InvalidValue,
    TidewheelError,
    UnknownRecurring,
)
from tidewheel.model.duration import delay_ms, window_ms
from tidewheel.model.message import TIMES_END_MS, IdSource, Message, MessageId, id_text
from tidewheel.model.recurrence import Rule, rule_of
from tidewheel.model.recurring import MAX_BODY_BYTES, MAX_NAME_BYTES, Recurring, occurrence_id
from tidewheel.model.topic_state import TopicState, above
from tidewheel.model.validation import Options, OutgoingMessage, check_key, check_message
from tidewheel.model.wheel import open_from
from tidewheel.storage.storage import Storage

SWEEP_MS = 360_000
"""A sweep's interval and a minute. By then the sweep has created the schedule."""
MOST_EARLY = 1_000
_SHOWN = 5
_MOST_BACK_MS = 10 * 365 * 86_400_000
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringMessage:
    """A message that is sent repeatedly by a rule.

    Attributes:
        key: the name by which the message is cancelled.
        cron: five fields, in the time zone; None for a fixed rate.
        every_s: the fixed rate in seconds; None with cron.
        window_s: the window in seconds; None without.
        next_at: the next due time, shifted within the window; None if there is none.
        next_times: the next five due times, or fewer if the rule ends.
        last_at: the last due time until now; None if there was none.
        body: the body as SQS carries it.
        group: the group of each occurrence.
    """

    topic: str
    key: str
    cron: str | None
    every_s: int | None
    timezone: str
    window_s: float | None
    next_at: datetime | None
    next_times: tuple[datetime, ...]
    body: str
    group: str | None = None
    last_at: datetime | None = None


def make(
    storage: Storage,
    send_checked: Callable[[list[OutgoingMessage]], object],
    read_topic_state: Callable[[], TopicState],
    now_ms: int,
    key: str,
    message: Message,
    rule: Rule,
    *,
    starts_now: bool,
    replaces: bool,
) -> RecurringMessage:
    """Creates a recurring message, unless an equal message exists.

    The early occurrences are sent first, with ids made from their content. If the writes stop after this, a repetition
    sends copies with the same ids. After the item is put, the creation is complete.

    Args:
        send_checked: sends the early occurrences.
        read_topic_state: reads the topic state again.
        starts_now: whether the caller gave no start; an existing message with the same rule then keeps its start.
        replaces: whether to replace an existing message with another rule or body.

    Raises:
        InvalidValue: the key is too long, or the body too large.
        AlreadyExists: a message with this key has another rule or body.
        ConcurrentModification: the topic changed during every attempt.
    """
    state = read_topic_state()
    try:
        known = _known(storage, state.topic, key)
    except CorruptMetadata:
        if not replaces:
            raise AlreadyExists("recurring message", key, "a content that cannot be read; give replace=True") from None
        end(storage, read_topic_state, key)
        known = None
    if starts_now and known is not None:
        begun = Rule.from_json(known.rule)
        if replace(rule, start_ms=begun.start_ms) == begun:
            rule = begun
    wanted = _checked(state, key, message, rule, now_ms)
    note = storage.notes.read(state.topic, _series(wanted)) if known is None else None
    next_ms = None if note is None or note.number <= now_ms else note.number
    if next_ms is not None and starts_now:
        wanted = _checked(state, key, message, replace(rule, start_ms=next_ms - rule_of(wanted).shift_ms), now_ms)
    rule = rule_of(wanted)
    sent_until_ms = next_ms if next_ms is not None and rule.next_after(next_ms - 1) == next_ms else None
    for _ in range(_ATTEMPTS):
        state = read_topic_state()
        seen = storage.recurring.read(state.topic, key)
        if seen is not None and seen.says_the_same(wanted):
            return described(seen, now_ms)
        if seen is not None and not replaces:
            raise AlreadyExists("recurring message", key, "another rule or body; give replace=True")
        first_ms = max(state.sealed, open_from(now_ms + SWEEP_MS, state.settings)) * state.slot_ms
        if sent_until_ms is None:
            # Occurrences of the old rule in sealed slots, and those sent at its creation, are already on their way.
            sent_until_ms = now_ms if seen is None else max(now_ms, state.sealed * state.slot_ms, seen.first_ms)
        if sent_until_ms < first_ms:
            early = [_early(wanted, due_ms) for due_ms in rule.between(sent_until_ms, first_ms, MOST_EARLY)]
            if early:
                send_checked(early)
            sent_until_ms = first_ms
        wanted = replace(wanted, first_ms=first_ms)
        due_ms = rule.next_after(first_ms - 1)
        slot = None if due_ms is None else due_ms // state.slot_ms
        lowers = slot is not None and above(state.next_slot, slot)
        if storage.recurring.put(state, wanted, seen, slot if lowers else None):
            return described(wanted, now_ms)
    raise ConcurrentModification("send_recurring", wanted.topic, _ATTEMPTS)


def end(storage: Storage, read_topic_state: Callable[[], TopicState], key: str) -> None:
    """Ends a recurring message, readable or not. Occurrences not planned yet do not come.

    Raises:
        UnknownRecurring: no recurring message has this key.
        ConcurrentModification: the topic changed during every attempt.
    """
    check_key(key)
    for _ in range(_ATTEMPTS):
        state = read_topic_state()
        try:
            seen = storage.recurring.read(state.topic, key)
        except CorruptMetadata:
            generation = None
        else:
            if seen is None:
                raise UnknownRecurring(state.topic, key)
            generation = seen.generation
            _note_next(storage, state, seen)
        if storage.recurring.delete(state, key, generation):
            return
    raise ConcurrentModification("cancel_recurring", state.topic, _ATTEMPTS)


def described(recurring: Recurring, now_ms: int) -> RecurringMessage:
    """Returns a recurring message in the form for callers.

    Raises:
        CorruptMetadata: its rule cannot be read.
    """
    rule = _rule(recurring)
    next_times = tuple(map(utc, rule.between(now_ms + 1, TIMES_END_MS, _SHOWN)))
    past: list[int] = []
    back_ms = 3_600_000
    while not past and back_ms < _MOST_BACK_MS:
        past = list(rule.times(now_ms - back_ms, now_ms + 1))
        back_ms *= 4
    return RecurringMessage(
        topic=recurring.topic,
        key=recurring.name,
        cron=rule.cron,
        every_s=rule.period_s,
        timezone=rule.timezone,
        window_s=None if recurring.window_ms is None else recurring.window_ms / 1000,
        next_at=next(iter(next_times), None),
        next_times=next_times,
        body=recurring.text,
        group=recurring.group,
        last_at=utc(past[-1]) if past else None,
    )


def send_now(
    storage: Storage, send_checked: Callable[[list[OutgoingMessage]], object], topic: str, key: str, now_ms: int
) -> MessageId:
    """Sends an occurrence of a recurring message, due now. Returns its id.

    Raises:
        UnknownRecurring: no recurring message has this key.
    """
    known = _known(storage, topic, key)
    if known is None:
        raise UnknownRecurring(topic, key)
    message = _early(known, now_ms)
    send_checked([message])
    return id_text(message.id)


def _known(storage: Storage, topic: str, key: str) -> Recurring | None:
    """Reads a recurring message with its rule.

    Raises:
        CorruptMetadata: it cannot be read.
    """
    found = storage.recurring.read(topic, key)
    if found is not None:
        _rule(found)
    return found


def _rule(recurring: Recurring) -> Rule:
    try:
        return rule_of(recurring)
    except (TidewheelError, ValueError) as error:
        raise CorruptMetadata(f"the rule of recurring message {recurring.name!r} is not readable ({error})") from None


def _checked(state: TopicState, key: str, message: Message, rule: Rule, now_ms: int) -> Recurring:
    check_key(key)
    if len(key.encode()) > MAX_NAME_BYTES:
        raise InvalidValue("key", key, f"the key of a recurring message has at most {MAX_NAME_BYTES} bytes of UTF-8")
    expires_in_ms = None if message.expires_in is None else delay_ms(message.expires_in, "expires_in")
    checked = check_message(message, IdSource(), now_ms)
    if checked.size > MAX_BODY_BYTES:
        how = f"body and attributes of a recurring message have at most {MAX_BODY_BYTES} bytes"
        raise InvalidValue("body", message.body, how)
    recurring = Recurring(
        topic=state.topic,
        name=key,
        generation="",
        rule=rule.to_json(),
        first_ms=0,
        text=checked.text,
        encoding=checked.encoding,
        attributes=checked.attributes,
        expires_in_ms=expires_in_ms,
        group=message.group,
        window_ms=None if message.window is None else window_ms(message.window),
    )
    # Made from the content, so that a repetition after a crash makes the same ids.
    times = rule.to_json() if rule.cron is None else replace(rule, start_ms=0).to_json()
    given = [each for each in (recurring.group, recurring.window_ms) if each is not None]
    content = (state.generation, times, recurring.text, sorted(recurring.attributes.items()), expires_in_ms, *given)
    return replace(recurring, generation=hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest())


def _note_next(storage: Storage, state: TopicState, ended: Recurring) -> None:
    """Notes when a message would come next, if it ends now. Earlier occurrences are on their way."""
    with suppress(TidewheelError, ValueError):  # a rule that cannot be read does not go on
        next_ms = rule_of(ended).next_after(max(state.planned * state.slot_ms, ended.first_ms) - 1)
        if next_ms is not None:
            storage.notes.put(state.topic, _series(ended), next_ms, next_ms // 1000)


def _series(recurring: Recurring) -> str:
    """Returns the name of the note of all messages with a name and rule, whenever they start."""
    content = recurring.name, replace(Rule.from_json(recurring.rule), start_ms=0).to_json(), recurring.window_ms
    return f"recurring {hashlib.blake2b(repr(content).encode(), digest_size=16).hexdigest()}"


def _early(recurring: Recurring, due_ms: int) -> OutgoingMessage:
    expires_at_ms = None if recurring.expires_in_ms is None else due_ms + recurring.expires_in_ms
    options = Options(recurring=recurring.name, expires_at_ms=expires_at_ms, group=recurring.group)
    return OutgoingMessage(
        id=occurrence_id(recurring.generation, recurring.name, due_ms),
        text=recurring.text,
        encoding=recurring.encoding,
        attributes=recurring.attributes,
        options=options,
    )
