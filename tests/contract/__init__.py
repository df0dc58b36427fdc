"""Contract tests of each port, run over every implementation."""
