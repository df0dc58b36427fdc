"""Lets consumers and cancels race for sealed messages. Each message is handed out, or cancelled, and never both."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tidewheel.clock import Clock
from tidewheel.flows.administration.subscribe import create_subscription, create_topic
from tidewheel.flows.delivery.cancel import cancel
from tidewheel.model.message import IdSource, MessageId, id_text
from tidewheel.model.settings import StoredSettings, TopicSettings
from tidewheel.model.tombstone import Holder
from tidewheel.storage.storage import Storage

TOPIC = "claimed"
SUBSCRIPTIONS = ("billing", "audit")
THREADS = 8


def claim_race(
    storage: Storage, clock: Clock, given_up: Sequence[type[Exception]], *, messages: int, seed: int
) -> tuple[Counter[str], list[str]]:
    """Runs the race. Returns the counts of what happened, and the violations.

    A consumer or a caller whose request gets no answer dies. SQS gives the message to another consumer of the
    subscription, until one knows whether the message is its own.

    Args:
        given_up: errors after which a call may or may not have taken effect.
    """
    order, ids = random.Random(seed), IdSource()
    create_topic(storage, clock, TOPIC, TopicSettings())
    holders = {}
    for name in SUBSCRIPTIONS:
        made = create_subscription(
            storage, clock, TOPIC, name, f"queue-{name}", settings=StoredSettings(reader="tidewheel")
        )
        holders[name] = Holder(subscription=name, generation=made.generation)
    due_ms = clock.now_ms() + 1000
    state = storage.topic_states.existing(TOPIC)
    storage.topic_states.seal(state, due_ms // state.slot_ms + 2)
    handed: defaultdict[MessageId, set[str]] = defaultdict(set)
    answers: defaultdict[MessageId, list[bool | None]] = defaultdict(list)

    def consume(id: MessageId, name: str) -> None:
        while True:
            try:
                count = storage.claims.claim(TOPIC, id, holders[name], due_ms // 1000 + 3600)
            except tuple(given_up):
                continue
            if count is not None:
                handed[id].add(name)
            return

    def stop(id: MessageId) -> None:
        answer: Any = None
        try:
            answer = bool(cancel(storage, state, id, due_ms))
        except tuple(given_up):
            pass
        answers[id].append(answer)

    sent = [id_text(ids.next(due_ms + number, keyed=True)) for number in range(messages)]
    work: list[Callable[[], None]] = []
    for id in sent:
        each: list[Callable[[], None]] = [partial(consume, id, name) for name in SUBSCRIPTIONS]
        each += [partial(stop, id)] * order.choice((1, 2))
        work += order.sample(each, len(each))
    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(each) for each in work]:
            done.result()
    violations = []
    for id in sent:
        if True in answers[id] and handed[id]:
            violations.append(f"cancelled, and handed out to {sorted(handed[id])}: {id}")
        if set(answers[id]) == {False} and handed[id] != set(SUBSCRIPTIONS):
            violations.append(f"too late to cancel, and handed out to {sorted(handed[id])} only: {id}")
    happened = Counter("handed out" if handed[id] else "cancelled until consumed" for id in sent)
    happened["late cancels without an answer"] = sum(each.count(None) for each in answers.values())
    return happened, violations
