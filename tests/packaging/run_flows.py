"""Runs the whole service in memory on a bundle's packages: `python -I -S run_flows.py BUNDLE SRC`.

The package comes whole, from SRC, for the service in memory is in no bundle; all else comes from the bundle.
"""

import sys
from pathlib import Path

BUNDLE, SOURCE = sys.argv[1:]
sys.path[:0] = [SOURCE, BUNDLE]

from tidewheel.local.memory_stack import MemoryTidewheel  # noqa: E402

with MemoryTidewheel(start="2026-01-01T00:00:00Z") as stack:
    tw = stack.client()
    tw.create_topic("orders", max_buckets=24)
    tw.create_subscription("orders", "all")
    tw.create_subscription("orders", "red", filter_policy={"color": ["red"]})
    sent = []
    for batch in range(60):
        for number in range(4):
            color = "red" if number % 2 else "blue"
            body = {"n": [batch, number]}
            sent.append(tw.send("orders", body, delay="2d", attributes={"color": color}, expires_in="4d"))
        stack.advance(minutes=10)
    tw.send("orders", "old", delay="2d", key="k")
    tw.send("orders", "new", delay="2d", key="k", replace=True)
    tw.send("orders", {"soon": True}, delay="30s")
    tw.send_recurring("orders", "noon", {"noon": True}, cron="0 12 * * *", timezone="Europe/Zurich")
    stack.advance(hours=1)
    cancelled = sent.pop()
    tw.cancel("orders", cancelled.id)
    assert tw.get("orders", sent[0].id).state == "waiting"
    assert len(tw.peek("orders", 10)) == 10
    assert stack.invocations["compact"] >= 1, stack.invocations
    stack.advance(days=3)
    received = stack.receive("orders", "all")
    ids = {message.id for message in received}
    assert {each.id for each in sent} <= ids and cancelled.id not in ids
    bodies = [message.body for message in received]
    assert bodies.count("new") == 1 and "old" not in bodies
    # Noon in Zurich is 11:00 UTC: the first comes at once, the last as the third day ends.
    assert sum('"noon"' in body for body in bodies) == 4
    reds = {message.id for message in stack.receive("orders", "red")}
    assert reds == {message.id for message in received if message.attributes.get("color") == "red"}
    assert stack.failures == [], stack.failures

import pyarrow  # noqa: E402

assert Path(pyarrow.__file__).is_relative_to(BUNDLE), pyarrow.__file__
print(len(received))
