"""dramatiq tasks with delays of days. Needs `tidewheel[dramatiq]`."""

# region tasks
from datetime import timedelta

import dramatiq

from tidewheel import Tidewheel
from tidewheel.integrations.dramatiq import TidewheelSQSBroker

tw = Tidewheel()
broker = TidewheelSQSBroker(tidewheel=tw)
dramatiq.set_broker(broker)


@dramatiq.actor
def remind(customer: str) -> None:
    """An actor like any other."""
    print(f"a reminder for {customer}")


def sign_up(customer: str) -> None:
    """Sends a task that runs in three days."""
    remind.send_with_options(args=(customer,), delay=timedelta(days=3))


# endregion


# region prepare
def deploy() -> None:
    """Creates the topic of each declared queue. Run it once, with the actors imported."""
    broker.prepare()


# endregion


# region cancel
def sign_up_until_cancelled(customer: str) -> tuple[str, str]:
    """Sends a task. Returns its topic and message id, for your database."""
    message = remind.send_with_options(args=(customer,), delay=timedelta(days=3))
    return message.options["tidewheel_topic"], message.options["tidewheel_id"]


def sign_off(topic: str, message_id: str) -> bool:
    """Cancels a task. Returns False if the call is too late."""
    return bool(tw.cancel(topic, message_id))


# endregion
