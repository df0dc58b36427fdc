"""Celery tasks with countdowns of days. Needs `tidewheel[celery]`."""

# region tasks
from datetime import timedelta

from celery import Celery

from tidewheel import Receipt, Tidewheel
from tidewheel.integrations.celery import install, prepare, task_delayed

app = Celery("shop", broker="sqs://")
tw = Tidewheel()
install(app, tidewheel=tw)


@app.task
def remind(customer: str) -> None:
    """A task like any other."""
    print(f"a reminder for {customer}")


def sign_up(customer: str) -> str:
    """Sends a task that runs in three days. Returns the task's id."""
    return remind.apply_async((customer,), countdown=timedelta(days=3).total_seconds()).id


# endregion


# region prepare
def deploy() -> None:
    """Creates the topic of each queue. Run it once."""
    prepare(app)


# endregion


# region cancel
waiting: dict[str, tuple[str, str]] = {}
"""Stands for your database: a task's id -> topic and message id."""


@task_delayed.connect
def remember(task_id: str, receipt: Receipt, **_: object) -> None:
    """Runs in the producer when a task was sent to a topic."""
    waiting[task_id] = (receipt.topic, receipt.id)


def sign_off(task_id: str) -> bool:
    """Cancels a task. Returns False if the call is too late."""
    topic, message_id = waiting.pop(task_id)
    return bool(tw.cancel(topic, message_id))


# endregion
