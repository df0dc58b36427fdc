"""Holds the objects that the parts of a client share, such as consumers, buffered senders and integrations."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidewheel.aws.tries import patient
from tidewheel.client.connection import Connection
from tidewheel.client.topic_cache import TopicCache
from tidewheel.clock import Clock
from tidewheel.model.message import IdSource, Message
from tidewheel.model.topic_state import TopicState
from tidewheel.model.validation import OutgoingMessage, check_message


@dataclass(slots=True, kw_only=True)
class Core:
    """The objects that the parts of a client share, for consumers, buffered senders and integrations.

    Attributes:
        connection: the AWS clients and the stack's settings.
        clock: the source of time.
        ids: makes the ids of messages.
        cache: the topics and subscriptions that the client has read.
        begun: topic and subscription that this client receives from -> what `receiving.begin` returned, until when (ms)
            that counts, and the generation of the subscription.
    """

    connection: Connection
    clock: Clock
    ids: IdSource = field(default_factory=IdSource)
    cache: TopicCache = field(init=False)
    begun: dict[tuple[str, str], tuple[bool, float, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cache = TopicCache(self.connection, self.clock)

    @patient()
    def check(self, topic: str, message: Message) -> tuple[TopicState, OutgoingMessage]:
        """Does all steps of `Tidewheel.send` before the sending."""
        state = self.cache.state(topic)
        levels = state.settings.delay_levels
        checked = check_message(message, self.ids, self.clock.now_ms(), topic=topic, levels=levels, large=True)
        self.cache.check_replaceable(state, message, checked.deliver_at_ms)
        self.cache.admit(state)
        return state, checked
