"""Makes the archives that are deployed, on any machine with uv."""
