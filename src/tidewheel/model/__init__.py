"""Values and arithmetic of Tidewheel. Nothing here does I/O."""
