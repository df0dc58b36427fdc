"""Emits the functions' logs and metrics. Only functions and constructs import this package."""
