"""Test your own code with a service in memory: thousands of cases a minute."""

# region memory
from tidewheel import Tidewheel
from tidewheel.local import MemoryTidewheel


def order(tw: Tidewheel, number: int) -> None:
    """Stands for your own code."""
    tw.send("time-outs", {"order": number}, delay="15m")


def test_an_order_times_out_after_a_quarter_of_an_hour() -> None:
    """As with LocalTidewheel. A new service for each case costs next to nothing."""
    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic("time-outs")
    tw.create_subscription("time-outs", "orders")

    order(tw, 17)

    stack.advance(minutes=14)
    assert stack.receive("time-outs", "orders") == []
    stack.advance(minutes=1)
    [message] = stack.receive("time-outs", "orders")
    assert message.json() == {"order": 17}


# endregion
