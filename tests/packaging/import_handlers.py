"""Imports handlers from an archive's folder alone, as `python -I -S import_handlers.py FOLDER HANDLER...`."""

import importlib
import sys
from zoneinfo import ZoneInfo, reset_tzpath

FOLDER, *HANDLERS = sys.argv[1:]
sys.path.insert(0, FOLDER)

for handler in HANDLERS:
    module, _, name = handler.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name)), handler

# Dispatch loads these when it has rows; only now is the folder on the path.
import pyarrow.compute  # noqa: E402
import pyarrow.parquet  # noqa: E402, F401

# Lambda's machine has no time zones: they come with the archive.
reset_tzpath(())
ZoneInfo("Europe/Zurich")
print(*sys.argv[2:])
