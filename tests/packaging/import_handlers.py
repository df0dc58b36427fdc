"""Runs with a bundle alone on the path, as a function does: `python -I -S import_handlers.py BUNDLE FUNCTION...`.

It imports the handlers, makes every client that they may need, and prints as JSON what was loaded, and
what of it by the handlers.
"""

import importlib
import json
import sys
from pathlib import Path
from zoneinfo import ZoneInfo, reset_tzpath

BUNDLE = Path(sys.argv[1])
CLIENTS = sys.argv[2].split(",")
sys.path.insert(0, str(BUNDLE))

modules = [importlib.import_module(f"functions.{name}.handler") for name in sys.argv[3:]]
at_start = sorted({name.partition(".")[0] for name in sys.modules})

import boto3  # noqa: E402  - only now is the bundle on the path

for client in CLIENTS:
    boto3.client(client)

# Lambda's machine has no time zones: they come with the bundle.
reset_tzpath(())
ZoneInfo("Europe/Zurich")

loaded = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
print(
    json.dumps(
        {
            "handlers": [callable(module.handler) for module in modules],
            "at_start": at_start,
            "modules": sorted(str(path.relative_to(BUNDLE)) for path in loaded if path.is_relative_to(BUNDLE)),
        }
    )
)
