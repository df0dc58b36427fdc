"""A local stack with a state in a process of its own.

    python -m tests.local.state.served FOLDER [--port N] [--functions FOLDER] [--max-pages N] [--unkeepable]

It prints its endpoint, and serves until its standard input ends.
"""

from __future__ import annotations

import argparse
import select
import sys
from pathlib import Path

from tidewheel.local import LocalTidewheel

SETTINGS = {"slot_s": 1, "lookahead_s": 4}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--functions", type=Path)
    parser.add_argument("--max-pages", type=int, help="the database's limit, as of a full disk")
    parser.add_argument("--unkeepable", action="store_true", help="hold something that cannot be written")
    given = parser.parse_args()
    stack = LocalTidewheel(clock="real", state=given.folder, port=given.port, functions=given.functions)
    with stack:
        assert stack._state is not None
        if given.max_pages:
            stack._state._folder._db.execute(f"PRAGMA max_page_count = {given.max_pages}")
        print(stack.endpoint_url, flush=True)
        if given.unkeepable:
            stack._state._read = lambda *_: object()
            stack._state._touch("clock", "")
        while not select.select([sys.stdin], [], [], 1)[0]:
            stack.check()


if __name__ == "__main__":
    main()
