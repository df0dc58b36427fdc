"""Emits the functions' logs and metrics. Only functions, constructs and `MemoryTidewheel` import this package."""
