"""A reminder's trace that links to the trace of its order, thirty days before. Needs `tidewheel[otel]`."""

# region traces
from opentelemetry import trace

from tidewheel import ReceivedMessage, Tidewheel, Worker

tracer = trace.get_tracer("shop")


def order(tw: Tidewheel, number: int) -> None:
    """Makes the spans "order" and "reminders send"."""
    with tracer.start_as_current_span("order"):
        tw.send("reminders", {"order": number}, delay="30d")


def remind(message: ReceivedMessage) -> None:
    """Runs in the span "reminders process", the first of a new trace, with a link to "reminders send"."""
    with tracer.start_as_current_span("mail"):
        print(f"order {message.json()['order']} was a month ago")


def work(tw: Tidewheel) -> None:
    """Works until SIGTERM or Ctrl-C."""
    worker = Worker(tw)
    worker.handles("reminders/mailer")(remind)
    worker.run()


# endregion

if __name__ == "__main__":
    work(Tidewheel())
