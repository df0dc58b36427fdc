"""Send a message three days ahead and receive it, on this machine: no AWS account, no waiting."""

# region quickstart
from tidewheel.local import LocalTidewheel

with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
    tw = stack.client()  # the ordinary client
    tw.create_topic("orders")
    tw.create_subscription("orders", "billing")

    sent = tw.send("orders", {"id": 17}, delay="3d")

    stack.advance(days=3)  # everything due in these days happens, in order
    [message] = stack.receive("orders", "billing")
    assert message.id == sent.id
    assert message.json() == {"id": 17}
    assert message.deliver_at == sent.deliver_at
# endregion
