"""An order that is not paid within a quarter of an hour is closed."""

# region recipe
from tidewheel import ReceivedMessage, Tidewheel, Worker

worker = Worker()


def set_up(tw: Tidewheel) -> None:
    tw.create_topic("time-outs")
    tw.create_subscription("time-outs", "orders", reader="tidewheel")


def place(tw: Tidewheel, order: int) -> None:
    tw.send("time-outs", {"order": order}, delay="15m", key=f"order-{order}")


def pay(tw: Tidewheel, order: int) -> bool:
    """Returns False if the consumer has the time-out: the order is closed."""
    return bool(tw.cancel("time-outs", key=f"order-{order}"))


@worker.handles("time-outs/orders")
def close(message: ReceivedMessage) -> None:
    """A second call does no harm."""
    print("closed:", message.json()["order"])


# endregion


def test_an_order_is_paid_in_the_last_second_or_closed() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    set_up(tw)
    for order in (1, 2, 3):
        place(tw, order)
    stack.advance(minutes=5)
    assert pay(tw, 1)
    stack.advance(minutes=9, seconds=59)
    assert pay(tw, 2)
    stack.advance(seconds=1)
    assert [message.json() for message in stack.receive("time-outs", "orders")] == [{"order": 3}]
    assert not pay(tw, 3)
    stack.advance(days=1)
    assert stack.receive("time-outs", "orders") == []
