"""Test your own code with the fixture `local_tidewheel`, which comes with the package."""

# region test
from tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel


def remind(tw: Tidewheel, customer: str) -> None:
    """Stands for your own code."""
    tw.send("reminders", {"customer": customer}, delay="30d", attributes={"kind": "renewal"})


def test_a_customer_is_reminded_after_thirty_days(local_tidewheel: LocalTidewheel) -> None:
    """The fixture is a new open stack with a virtual clock for each test."""
    tw = local_tidewheel.client()
    tw.create_topic("reminders")
    tw.create_subscription("reminders", "mailer")

    remind(tw, "c-1")

    local_tidewheel.advance(days=29)
    assert local_tidewheel.receive("reminders", "mailer") == []
    local_tidewheel.advance(days=1)
    [message] = local_tidewheel.receive("reminders", "mailer")
    assert message.json() == {"customer": "c-1"}
    assert message.attributes == {"kind": "renewal"}


# endregion


# region healing
def test_a_message_arrives_though_its_schedule_is_lost(local_tidewheel: LocalTidewheel) -> None:
    """The sweep finds the work of a lost schedule ahead of time."""
    tw = local_tidewheel.client()
    tw.create_topic("reminders")
    tw.create_subscription("reminders", "mailer")
    local_tidewheel.drop_schedules = True

    sent = tw.send("reminders", "buy milk", delay="2h")

    local_tidewheel.advance(hours=2)
    [message] = local_tidewheel.receive("reminders", "mailer")
    assert message.id == sent.id
    assert local_tidewheel.failures == []


# endregion
