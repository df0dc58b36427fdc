"""Fetches SDKs for the tests here: python -m tests.languages [js java go php]. Exits with 3 without a tool."""

from __future__ import annotations

import sys

from tests.independent.fetch import ToolMissing
from tests.languages.sdks import TOOLS, fetch


def main(languages: list[str]) -> int:
    """Fetches the SDKs of these languages; of all by default."""
    try:
        for language in languages or TOOLS:
            fetch(language)
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
