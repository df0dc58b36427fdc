"""Keeps the agreed template of the production stack, with `python -m infra.snapshot [--check]`.

A change of a construct shows in the diff of this file, resource by resource, so that a review sees what a deployment
would do. `--check` fails when the stack says something else than the file, and says what.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.environments import environment_named
from infra.local_template import Template, normalized, rendered, synthesize

PATH = Path(__file__).resolve().parent.parent / "tests" / "infra" / "snapshots" / "production.json"
ENVIRONMENT = "production"
COMMAND = "python -m infra.snapshot"

_SHOWN = 120


def differences(agreed: Any, found: Any, where: str = "") -> Iterator[str]:
    """Yields a line for each difference of two templates, which is an addition, a removal or a change.

    Args:
        agreed: The snapshot, or a part of it.
        found: The same part of the stack.
        where: The path to it.
    """
    if isinstance(agreed, dict) and isinstance(found, dict):
        for key in sorted(agreed.keys() | found.keys()):
            path = f"{where}.{key}" if where else key
            if key not in found:
                yield f"- {path}: {_short(agreed[key])}"
            elif key not in agreed:
                yield f"+ {path}: {_short(found[key])}"
            else:
                yield from differences(agreed[key], found[key], path)
    elif isinstance(agreed, list) and isinstance(found, list) and len(agreed) == len(found):
        for number, (old, new) in enumerate(zip(agreed, found, strict=True)):
            yield from differences(old, new, f"{where}[{number}]")
    elif isinstance(agreed, list) and isinstance(found, list):
        before, after = (Counter(json.dumps(each, sort_keys=True) for each in items) for items in (agreed, found))
        yield from (f"- {where}: {_short(json.loads(each))}" for each in (before - after).elements())
        yield from (f"+ {where}: {_short(json.loads(each))}" for each in (after - before).elements())
    elif agreed != found:
        yield f"~ {where}: {_short(agreed)} -> {_short(found)}"


def production_template() -> Template:
    """Returns the template of the production stack, as the CDK writes the template."""
    return synthesize(environment_named(ENVIRONMENT))


def main(arguments: list[str] | None = None) -> int:
    """Writes the file, or compares the file with the stack. Returns the exit code."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the stack differs, write nothing")
    check: bool = parser.parse_args(arguments).check
    template = production_template()
    if not check:
        PATH.parent.mkdir(parents=True, exist_ok=True)
        PATH.write_text(rendered(template), encoding="utf-8")
        print(f"Wrote {PATH}.")
        return 0
    agreed = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    found = list(differences(agreed, normalized(template)))
    if not found:
        print(f"{PATH} is what the stack says.")
        return 0
    print("\n".join(found), file=sys.stderr)
    print(f"The stack differs: if that is meant, run `{COMMAND}` and commit the file.", file=sys.stderr)
    return 1


def _short(value: Any) -> str:
    """Returns a value as a short line. For a resource, returns the type."""
    if isinstance(value, dict) and "Type" in value:
        return str(value["Type"])
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


if __name__ == "__main__":
    sys.exit(main())
