"""A trial: two mails before it ends, and its end; all of them stop when the customer buys."""

from datetime import datetime, timedelta

from tidewheel import Message, ReceivedMessage, Tidewheel

TOPIC = "trials"
STEPS = {"three-days-left": timedelta(days=3), "ends-tomorrow": timedelta(days=1), "ended": timedelta(0)}


def set_up(tw: Tidewheel) -> None:
    """Creates one topic for all steps of a trial, and a queue for each consumer."""
    tw.create_topic(TOPIC)
    mails = [step for step in STEPS if step != "ended"]
    tw.create_subscription(TOPIC, "mailer", filter_policy={"step": mails})
    tw.create_subscription(TOPIC, "accounts", filter_policy={"step": ["ended"]})


# region recipe
def begin(tw: Tidewheel, account: str, ends_at: datetime, now: datetime) -> None:
    """Sends all steps. Another call with a later end extends the trial."""
    body = {"account": account, "ends_at": ends_at.isoformat()}
    messages = [
        Message(
            body=body, deliver_at=ends_at - before, attributes={"step": step}, key=f"{account}:{step}", replace=True
        )
        for step, before in STEPS.items()
        if ends_at - before > now
    ]
    tw.send_many(TOPIC, messages)


# endregion


def bought(tw: Tidewheel, account: str) -> None:
    """Cancels the remaining steps."""
    for step in STEPS:
        tw.cancel(TOPIC, key=f"{account}:{step}")


def still_ends(message: ReceivedMessage, trials: dict[str, datetime]) -> bool:
    """Tells whether the account's record agrees with a message that may be stale."""
    trial = message.json()
    ends_at = trials.get(trial["account"])
    return ends_at is not None and ends_at.isoformat() == trial["ends_at"]


def main() -> None:
    """Three trials: one runs out, one is extended, one ends with a purchase; in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    set_up(tw)
    trials = {account: stack.now() + timedelta(days=14) for account in ("ann", "bob", "eve")}
    for account, ends_at in trials.items():
        begin(tw, account, ends_at, stack.now())
    for day in range(1, 22):
        stack.advance(days=1)
        if day == 5:
            trials["bob"] += timedelta(days=7)
            begin(tw, "bob", trials["bob"], stack.now())
        if day == 12:
            del trials["eve"]
            bought(tw, "eve")
        for subscription in ("mailer", "accounts"):
            for message in stack.receive(TOPIC, subscription):
                wanted = "wanted" if still_ends(message, trials) else "stale"
                print(f"{stack.now():%d %B}", subscription, message.json()["account"], message.attributes, wanted)


if __name__ == "__main__":
    main()
