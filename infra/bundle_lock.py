"""Writes the lock file of the bundles, with `python -m infra.bundle_lock [--check]`.

It holds the entries of requirements.lock that the functions' bundles and the Glue jobs need, and is kept in the
package, so that another team's app bundles what was tested here; `--check` fails when it is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from infra.kept_file import write_or_check
from tidewheel.bundling.functions import PACKAGES
from tidewheel.bundling.jobs import GLUE_PACKAGES
from tidewheel.bundling.pinned_packages import ENTRY, LOCK

REPOSITORY_LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"


def rendered() -> str:
    """Returns the text of the file."""
    entries = ENTRY.finditer(REPOSITORY_LOCK.read_text(encoding="utf-8"))
    return "".join(match[0] for match in entries if match["name"] in {*PACKAGES, *GLUE_PACKAGES})


def main(arguments: list[str] | None = None) -> int:
    """Writes the file, or compares the file with requirements.lock. Returns the exit code."""
    return write_or_check(LOCK, rendered, module="infra.bundle_lock", about=__doc__, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
