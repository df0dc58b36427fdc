"""The guards of the protocol, and a small world for each guard to break a promise without the guard."""
