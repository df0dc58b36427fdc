"""Finds the files that are installed with the package.

In the wheel the files are inside the package, in a checkout beside `src`.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

FUNCTIONS = "functions"
GLUE_JOBS = "glue_jobs"
PUBLIC_NAMES = "__init__.pyi"
"""The stub that `__init__.py` reads. Every archive with this package needs the file."""
DOCS = "docs"
EXAMPLES = "examples"


def shipped(name: str) -> Path:
    """Returns the path of a file or folder of the package.

    The path is `tidewheel/_<name>` in the wheel, and `<name>` in a checkout.

    Raises:
        FileNotFoundError: neither path exists.
    """
    candidates = (PACKAGE / f"_{name}", PACKAGE.parent.parent / name)
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{name} is at none of {', '.join(map(str, candidates))}: install the package again")
