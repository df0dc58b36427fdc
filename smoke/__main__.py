"""`python -m smoke`; the command itself is in `command`."""

from __future__ import annotations

import sys

_INTERRUPTED = 130

if __name__ == "__main__":
    try:
        # Imported here: it takes a second or two, in which somebody may think better of it.
        from smoke.command import main

        code = main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = _INTERRUPTED
    sys.exit(code)
