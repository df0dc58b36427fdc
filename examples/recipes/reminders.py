"""A reminder a day before an appointment, which moves and goes with it."""

# region recipe
from datetime import datetime, timedelta

from tidewheel import Tidewheel

DAY = timedelta(days=1)


def book(tw: Tidewheel, appointment: str, customer: str, starts_at: datetime) -> None:
    body = {"appointment": appointment, "customer": customer}
    tw.send("reminders", body, deliver_at=starts_at - DAY, key=appointment, replace=True, expires_in=DAY)


def move(tw: Tidewheel, appointment: str, starts_at: datetime) -> bool:
    """Returns False if the reminder went out: book again for a second one."""
    return bool(tw.reschedule("reminders", key=appointment, deliver_at=starts_at - DAY))


def call_off(tw: Tidewheel, appointment: str) -> bool:
    """Returns False if the reminder went out: send a correction."""
    return bool(tw.cancel("reminders", key=appointment))


# endregion


def test_a_reminder_comes_a_day_before_wherever_the_appointment_is_moved() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic("reminders")
    tw.create_subscription("reminders", "mailer", reader="tidewheel")
    monday = stack.now()
    for appointment in ("dentist", "barber", "bank"):
        book(tw, appointment, "c-1", monday + 3 * DAY)
    stack.advance(hours=1)
    assert move(tw, "dentist", monday + 9 * DAY)
    stack.advance(days=2, hours=-1, seconds=-1)
    assert call_off(tw, "barber")  # a second before
    stack.advance(seconds=1)
    assert [message.key for message in stack.receive("reminders", "mailer")] == ["bank"]
    assert not call_off(tw, "bank")
    stack.advance(days=6, seconds=-1)
    assert stack.receive("reminders", "mailer") == []
    stack.advance(seconds=1)
    assert [message.key for message in stack.receive("reminders", "mailer")] == ["dentist"]
