"""Writes or compares generated files in the repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(
    path: Path, text: Callable[[], str], *, module: str, about: str | None, arguments: list[str] | None
) -> int:
    """Writes a file. With `--check`, compares the file instead. Returns the exit code.

    Args:
        path: The file.
        text: Makes what is to be in it.
        module: What the command line is called as, `python -m <module>`.
        about: Its help.
        arguments: The command line's; None: those of the process.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--check", action="store_true", help="fail when the file is stale, write nothing")
    check: bool = parser.parse_args(arguments).check
    wanted = text()
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted, encoding="utf-8")
        print(f"Wrote {path} ({len(wanted):,} bytes).")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == wanted:
        print(f"{path} is current.")
        return 0
    print(f"{path} is stale: run `python -m {module}` and commit it.", file=sys.stderr)
    return 1
