"""Audits and rebuilds of a topic's index."""
