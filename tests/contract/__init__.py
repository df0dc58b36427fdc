"""What each port promises, proved once for every implementation."""
