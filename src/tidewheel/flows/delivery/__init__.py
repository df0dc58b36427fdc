"""The send path, from a pack in the ingest queue to a message in a subscription's queue."""
