"""Messages that come again and again: on working days at nine in Berlin, and every quarter of an hour."""

# region recurring
from tidewheel import Tidewheel


def set_up(tw: Tidewheel) -> None:
    """Creates the topic and two recurring messages."""
    tw.create_topic("reports")
    tw.create_subscription("reports", "writer")
    tw.send_recurring("reports", "daily", {"report": "sales"}, cron="0 9 * * MON-FRI", timezone="Europe/Berlin")
    tw.send_recurring("reports", "heartbeat", "tick", every="15m", expires_in="10m")


def change(tw: Tidewheel) -> None:
    """Moves the report to ten o'clock, and ends the heartbeat."""
    tw.send_recurring(
        "reports", "daily", {"report": "sales"}, cron="0 10 * * MON-FRI", timezone="Europe/Berlin", replace=True
    )
    tw.cancel_recurring("reports", "heartbeat")
    for each in tw.recurring("reports"):
        print(each.key, each.cron, each.next_at)


# endregion


def main() -> None:
    """Five days in virtual time; after the second, another rule."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    set_up(tw)
    for day in range(5):
        stack.advance(days=1)
        for message in stack.receive("reports", "writer"):
            if message.key == "daily":
                print(f"{message.deliver_at:%A %d %B %H:%M}", message.json())
        if day == 1:
            change(tw)


if __name__ == "__main__":
    main()
