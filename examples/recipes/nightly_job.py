"""A job at two o'clock each night, which goes on after a crash."""

# region recipe
from tidewheel import ReceivedMessage, Tidewheel, Worker

worker = Worker()


def set_up(tw: Tidewheel) -> None:
    tw.create_topic("jobs")
    tw.create_subscription("jobs", "nightly", reader="tidewheel")
    tw.send_recurring("jobs", "report", {"report": "sales"}, cron="0 2 * * *", timezone="Europe/Berlin")


@worker.handles("jobs/nightly", at_once=1, timeout="3h")
def report(message: ReceivedMessage) -> None:
    """May take three hours. If the process dies, another begins the job anew a minute later."""
    print("report of", message.json()["report"])


# endregion


def test_the_job_comes_at_two_in_berlin_also_when_the_clocks_change() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel(start="2026-03-27T12:00:00Z")  # a Friday. On Sunday, two o'clock is skipped
    tw = stack.client()
    set_up(tw)
    came = []
    for _ in range(3):
        stack.advance(days=1)
        came += [f"{message.deliver_at:%a %H:%M}" for message in stack.receive("jobs", "nightly")]
    assert came == ["Sat 01:00", "Sun 01:00", "Mon 00:00"]
