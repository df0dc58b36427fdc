"""Send to a deployed stack and receive from it."""

# region service
from datetime import UTC, datetime, timedelta

from tidewheel import Message, Tidewheel


def set_up(tw: Tidewheel) -> None:
    """Creates a topic and a subscription, unless they exist."""
    tw.create_topic("orders")
    tw.create_subscription("orders", "billing")


def send(tw: Tidewheel) -> None:
    """Sends one message, then a hundred in one call."""
    receipt = tw.send("orders", {"id": 17}, delay="15m", attributes={"kind": "reminder"})
    print(receipt.id, receipt.deliver_at)

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    tw.send_many("orders", [Message(body=f"order {n}", deliver_at=tomorrow) for n in range(100)])


def work(tw: Tidewheel) -> int:
    """Receives, handles and acknowledges due messages."""
    messages = tw.receive("orders", "billing", max_messages=100, wait_s=20)
    for message in messages:
        print(message.id, message.deliver_at, message.body)
    tw.delete("orders", "billing", messages)
    return len(messages)


def main() -> None:
    """Runs against the stack `tidewheel` in the region of your AWS profile."""
    tw = Tidewheel("tidewheel")
    set_up(tw)
    send(tw)
    work(tw)


# endregion

if __name__ == "__main__":
    main()
