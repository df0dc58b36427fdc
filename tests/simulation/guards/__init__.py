"""The guards of the protocol, and the small worlds that break a promise without them."""
