"""Stored state: the table, a file a kind of item, and the objects."""
