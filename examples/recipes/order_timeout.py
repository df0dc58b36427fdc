"""An order that is not paid within a quarter of an hour is closed."""

import sqlite3

from tidewheel import Consumer, ReceivedMessage, Tidewheel

TOPIC = "order-timeouts"


def set_up(tw: Tidewheel) -> Consumer:
    """Creates a topic with short slots: a time-out can be cancelled until about three minutes before."""
    tw.create_topic(TOPIC, slot_s=60, lookahead_s=150)
    tw.create_subscription(TOPIC, "orders")
    return Consumer(tw, TOPIC, "orders", drop_superseded=True)


# region recipe
def place(tw: Tidewheel, db: sqlite3.Connection, order: int) -> None:
    """Stores an order. The time-out goes first: a time-out without an order does no harm."""
    tw.send(TOPIC, {"order": order}, delay="15m", key=f"order:{order}")
    with db:
        db.execute("INSERT INTO orders VALUES (?, 'open')", (order,))


def pay(tw: Tidewheel, db: sqlite3.Connection, order: int) -> bool:
    """Pays an open order, and tells whether it was open. The database decides, the cancel saves work."""
    with db:
        paid = db.execute("UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'open'", (order,)).rowcount == 1
    if paid:
        tw.cancel(TOPIC, key=f"order:{order}")  # TooLate is fine: see `close`
    return paid


# endregion


def close(message: ReceivedMessage, db: sqlite3.Connection) -> bool:
    """Closes an order if it is still open, and tells whether it was."""
    order = message.json()["order"]
    with db:
        return db.execute("UPDATE orders SET state = 'closed' WHERE id = ? AND state = 'open'", (order,)).rowcount == 1


def main() -> None:
    """Three orders, of which one is paid in time, one at the last moment and one never; in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    consumer = set_up(tw)
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
    for order in (1, 2, 3):
        place(tw, db, order)
    stack.advance(minutes=5)
    pay(tw, db, 1)
    stack.advance(minutes=9)
    pay(tw, db, 2)
    stack.advance(minutes=1, seconds=1)
    for message in consumer.receive():
        print(message.json(), "closed" if close(message, db) else "was paid")
        tw.delete(TOPIC, "orders", [message])
    print(db.execute("SELECT * FROM orders").fetchall(), consumer.counts)


if __name__ == "__main__":
    main()
