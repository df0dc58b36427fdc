"""Where the files are that come with the package: in the wheel inside it, in a checkout beside `src`."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

FUNCTIONS = "functions"
GLUE_JOBS = "glue_jobs"
PUBLIC_NAMES = "__init__.pyi"
"""The stub that `__init__.py` reads: every archive with this package needs the file."""
DOCS = "docs"
EXAMPLES = "examples"


def shipped(name: str) -> Path:
    """Returns the path of a file or folder: `tidewheel/_<name>` in the wheel, `<name>` in a checkout.

    Raises:
        FileNotFoundError: neither is there.
    """
    candidates = (PACKAGE / f"_{name}", PACKAGE.parent.parent / name)
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{name} is at none of {', '.join(map(str, candidates))}: install the package again")
