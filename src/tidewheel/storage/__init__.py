"""Stored state: the table, one file a kind of item, and the objects."""
