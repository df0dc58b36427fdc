"""Reminders of an appointment: a day and an hour before it; they move and go with it."""

from datetime import datetime, timedelta

from tidewheel import ReceivedMessage, Tidewheel

TOPIC = "reminders"
BEFORE = {"day": timedelta(days=1), "hour": timedelta(hours=1)}


# region recipe
def book(tw: Tidewheel, appointment: str, starts_at: datetime, now: datetime) -> None:
    """Sets or moves the reminders of an appointment."""
    for name, before in BEFORE.items():
        key = f"{appointment}:{name}"
        if starts_at - before > now:
            body = {"appointment": appointment, "starts_at": starts_at.isoformat()}
            # A reminder expires with the appointment.
            tw.send(TOPIC, body, deliver_at=starts_at - before, key=key, replace=True, expires_in=before)
        else:
            tw.cancel(TOPIC, key=key)  # a past time would mean now


# endregion


def call_off(tw: Tidewheel, appointment: str) -> None:
    """Cancels the waiting reminders."""
    for name in BEFORE:
        tw.cancel(TOPIC, key=f"{appointment}:{name}")


def is_wanted(message: ReceivedMessage, calendar: dict[str, datetime]) -> bool:
    """Tells whether the calendar still agrees with a reminder that may be stale."""
    reminder = message.json()
    starts_at = calendar.get(reminder["appointment"])
    return starts_at is not None and starts_at.isoformat() == reminder["starts_at"]


def main() -> None:
    """Books, moves and calls off, in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic(TOPIC)
    tw.create_subscription(TOPIC, "mailer")
    calendar = {
        "dentist": stack.now() + timedelta(days=9),
        "barber": stack.now() + timedelta(days=2),
    }
    for appointment, starts_at in calendar.items():
        book(tw, appointment, stack.now() + timedelta(days=5), stack.now())
        book(tw, appointment, starts_at, stack.now())  # it was moved
    call_off(tw, "barber")
    for _ in range(10 * 24):
        stack.advance(hours=1)
        for message in stack.receive(TOPIC, "mailer"):
            print(f"{stack.now():%d %B %H:%M}", message.json(), "wanted" if is_wanted(message, calendar) else "stale")


if __name__ == "__main__":
    main()
