"""Reads of waiting messages."""
