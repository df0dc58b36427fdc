"""The lock file of the bundles: `python -m infra.bundle_lock [--check]`.

It holds the entries of requirements.lock that the functions' bundles and the Glue jobs need, and is kept in the
package, so that another team's app bundles what was tested here; `--check` fails when it is stale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tidewheel.cdk.bundles import ARROW_PACKAGES
from tidewheel.cdk.pinned_packages import LOCK, entries_of

REPOSITORY_LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"


def rendered() -> str:
    """Return the text of the file."""
    return entries_of(ARROW_PACKAGES, REPOSITORY_LOCK.read_text(encoding="utf-8"))


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or compare it with requirements.lock; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.bundle_lock", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the file is stale, write nothing")
    check: bool = parser.parse_args(arguments).check
    text = rendered()
    if not check:
        LOCK.write_text(text, encoding="utf-8")
        print(f"Wrote {LOCK} ({len(text):,} bytes).")
        return 0
    if LOCK.exists() and LOCK.read_text(encoding="utf-8") == text:
        print(f"{LOCK} is current.")
        return 0
    print(f"{LOCK} is stale: run `python -m infra.bundle_lock` and commit it.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
