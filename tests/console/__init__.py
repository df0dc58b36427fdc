"""Tests of the console: by its addresses, and in a real browser."""
