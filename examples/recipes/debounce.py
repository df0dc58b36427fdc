"""Debounce: a document is indexed an hour after its last change, and at latest six hours after the first."""

from tidewheel import Consumer, Tidewheel

TOPIC = "reindex"


def set_up(tw: Tidewheel) -> Consumer:
    """Creates a topic with short slots: a message can be replaced until about three minutes before."""
    tw.create_topic(TOPIC, slot_s=60, lookahead_s=150)
    tw.create_subscription(TOPIC, "indexer")
    # Drops messages that were replaced in their last three minutes.
    return Consumer(tw, TOPIC, "indexer", drop_superseded=True)


# region recipe
def changed(tw: Tidewheel, document: str) -> None:
    """Indexes a document an hour after its last change, and at latest six hours after the first."""
    tw.send(TOPIC, {"document": document}, delay="1h", key=f"last:{document}", replace=True, max_wait="6h")


def changed_first(tw: Tidewheel, document: str) -> None:
    """Indexes a document an hour after its first change: later messages are dropped."""
    tw.send(TOPIC, {"document": document}, delay="1h", key=f"first:{document}")


# endregion


def main() -> None:
    """Ten changes, five minutes apart, in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    consumer = set_up(tw)
    for minute in range(3 * 60):
        if minute % 5 == 0 and minute < 50:
            changed(tw, "a.md")
            changed_first(tw, "b.md")
            print(f"{stack.now():%H:%M} changed")
        stack.advance(minutes=1)
        for message in consumer.receive():
            print(f"{stack.now():%H:%M} index {message.json()['document']}")
            tw.delete(TOPIC, "indexer", [message])


if __name__ == "__main__":
    main()
