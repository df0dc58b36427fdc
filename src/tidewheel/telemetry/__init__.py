"""What the functions tell of themselves: logs, metrics and traces. Only the functions and the constructs import it."""
