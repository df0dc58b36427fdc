"""A process that handles a subscription's messages, and retries some of them later."""

# region worker
from tidewheel import Backoff, Consumer, ReceivedMessage, RetryLater, Tidewheel

BACKOFF = Backoff(base="30s", factor=3, maximum="6h", jitter=0.2)


class Busy(Exception):
    """The bank asks for patience."""


def charge(order: dict[str, int]) -> None:
    """Stands for your work."""
    if order["id"] % 2:
        raise Busy
    print(f"order {order['id']} is paid")


def handle(message: ReceivedMessage) -> None:
    """Handles a message. After any other error, the message comes again after the visibility time-out."""
    try:
        charge(message.json())
    except Busy:
        raise RetryLater(backoff=BACKOFF) from None


def main() -> None:
    """Works until SIGTERM or Ctrl-C. After five attempts, a message goes to the dead-letter queue."""
    Consumer(Tidewheel(), "orders", "billing", max_attempts=5, drop_superseded=True).run(handle)


# endregion

if __name__ == "__main__":
    main()
