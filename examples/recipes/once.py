"""Does the work of each message once: the database keeps the change and the message's id together, or neither."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tidewheel import ReceivedMessage, Tidewheel, Worker

TOPIC, SUBSCRIPTION = "orders", "billing"


def set_up(db: sqlite3.Connection) -> None:
    """Creates a subscription's table of handled messages."""
    db.execute("CREATE TABLE handled (id TEXT PRIMARY KEY, at TEXT DEFAULT CURRENT_TIMESTAMP)")


# region recipe
def once(db: sqlite3.Connection, message: ReceivedMessage, work: Callable[[Any], object]) -> bool:
    """Does the work, and tells whether the message was new. An error undoes both the change and the id."""
    with db:
        insert = "INSERT INTO handled (id) VALUES (?) ON CONFLICT DO NOTHING"
        if db.execute(insert, (message.original_id or message.id,)).rowcount == 0:
            return False
        work(message.json())
    return True


# endregion


def forget(db: sqlite3.Connection) -> None:
    """Run daily. A copy can be 28 days old: 14 in the queue, 14 among the dead letters."""
    with db:
        db.execute("DELETE FROM handled WHERE at < datetime('now', '-28 days')")


def run(tw: Tidewheel, path: str, work: Callable[[Any], object]) -> None:
    """Works until SIGTERM, with a connection for each message: a handler runs in a thread."""
    worker = Worker(tw)

    @worker.handles(f"{TOPIC}/{SUBSCRIPTION}")
    def handle(message: ReceivedMessage) -> None:
        with closing(sqlite3.connect(path)) as db:
            once(db, message, work)

    worker.run()


def main() -> None:
    """A message that comes twice, in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic(TOPIC)
    tw.create_subscription(TOPIC, SUBSCRIPTION)
    db = sqlite3.connect(":memory:")
    set_up(db)
    tw.send(TOPIC, {"order": 17})
    stack.advance(seconds=1)
    [message] = stack.receive(TOPIC, SUBSCRIPTION)
    for _ in range(2):
        print("new:", once(db, message, print))


if __name__ == "__main__":
    main()
