"""Reads the marks of the protocol through a client's ports."""

from __future__ import annotations

from tidewheel.client.tidewheel import Tidewheel
from tidewheel.model.subscription_state import SubscriptionState
from tidewheel.model.topic_state import TopicState


def topic_state(client: Tidewheel, topic: str) -> TopicState:
    """Returns the state of an existing topic."""
    found = client.core.connection.storage.topic_states.read(topic)
    assert found is not None
    return found


def subscription_state(client: Tidewheel, topic: str, name: str) -> SubscriptionState:
    """Returns the state of an existing subscription."""
    found = client.core.connection.storage.subscriptions.read(topic, name)
    assert found is not None
    return found
