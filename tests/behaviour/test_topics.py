"""What administration refuses, and which queues it deletes."""

from __future__ import annotations

from typing import Any

import pytest

from tidewheel.errors import InvalidValue, QueueUnavailable
from tidewheel.local import MemoryTidewheel


class Service:
    """A topic "orders" with the subscription "billing", in memory."""

    def __init__(self) -> None:
        self.stack = MemoryTidewheel(start="2026-01-01T00:00:00Z")
        self.sqs: Any = self.stack.sqs
        self.tw = self.stack.client()
        self.tw.create_topic("orders")
        self.queue_url = self.tw.create_subscription("orders", "billing").queue_url


@pytest.fixture
def service() -> Service:
    return Service()


def test_settings_change_and_stay_changed(service: Service) -> None:
    assert service.tw.update_topic("orders", max_waiting=5).settings.max_waiting == 5
    changed = service.tw.update_topic("orders", retention_days=30, delay_levels=(1, 5), max_waiting=None)
    assert (changed.settings.retention_days, changed.settings.delay_levels) == (30, (1, 5))
    [state] = service.tw.topics()
    assert state.settings == changed.settings and state.settings.max_waiting is None
    assert service.tw.update_topic("orders").settings == changed.settings


def test_queues_stay_unless_asked_for_and_those_of_others_stay_always(service: Service) -> None:
    sqs, made = service.sqs, service.queue_url
    own = sqs.create_queue(QueueName="mine")["QueueUrl"]
    service.tw.create_subscription("orders", "mine", queue_url=own)
    service.tw.create_topic("mail")
    service.tw.create_subscription("mail", "s")
    [mail] = [each.queue_url for each in service.tw.subscriptions("mail")]
    service.tw.delete_topic("mail")
    assert sqs.get_queue_attributes(QueueUrl=mail, AttributeNames=["QueueArn"])["Attributes"]
    service.tw.delete_topic("orders", delete_queues=True)
    assert sqs.get_queue_attributes(QueueUrl=own, AttributeNames=["QueueArn"])["Attributes"]
    for name in (made, f"{made}-dead"):
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            sqs.get_queue_url(QueueName=name.rpartition("/")[2])


def test_a_queue_without_dead_letters_and_one_that_is_gone_are_told(service: Service) -> None:
    sqs = service.sqs
    own = sqs.create_queue(QueueName="mine")["QueueUrl"]
    service.tw.create_subscription("orders", "mine", queue_url=own)
    with pytest.raises(InvalidValue, match="has no dead-letter queue"):
        service.tw.redrive("orders", "mine")
    sqs.delete_queue(QueueUrl=own)
    with pytest.raises(QueueUnavailable, match="mine"):
        service.tw.redrive("orders", "mine")
