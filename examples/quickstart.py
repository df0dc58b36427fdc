"""A shop's time-outs, mails and nightly report, the worker that handles them, and a test of three days."""

# region program
from tidewheel import ReceivedMessage, Tidewheel, Worker

worker = Worker()


def order(tw: Tidewheel, number: int) -> None:
    tw.send("shop", {"close": number}, delay="3d", key=f"close-{number}")
    tw.send("shop", {"mail": number}, delay="30s", key=f"mail-{number}", replace=True, max_wait="10m")  # debounced


def paid(tw: Tidewheel, number: int) -> bool:
    return bool(tw.cancel("shop", key=f"close-{number}"))  # False: a consumer has it


@worker.handles("shop/worker")
def handle(message: ReceivedMessage) -> None:
    print(message.json())  # your work. After an error, it is tried again: eight times in nine hours


def main(tw: Tidewheel) -> None:
    tw.create_topic("shop")
    tw.create_subscription("shop", "worker", reader="tidewheel")
    tw.send_recurring("shop", "nightly", {"report": "sales"}, cron="0 2 * * *", timezone="Europe/Berlin")
    worker.run()


# endregion


# region test
def test_an_order_is_closed_after_three_days_unless_it_is_paid() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()  # the ordinary client
    tw.create_topic("shop")
    tw.create_subscription("shop", "worker", reader="tidewheel")
    for number in (17, 18, 18, 18):
        order(tw, number)
    stack.advance(days=3, seconds=-1)
    assert paid(tw, 18)  # a second before its time
    assert stack.drain(worker, until="1s")["shop/worker"].handled == 3  # 17 is closed, and two mails were sent


# endregion
