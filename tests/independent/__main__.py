"""Fetches the servers and SDKs of `make test-independent`, and tests on them.

Exits with 3 without Java, Maven or Go, which only the runs on MiniStack do not need.

python -m tests.independent [--fetch] [--race-s 45] [contract race artifact languages ministack ministack-nightly]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.independent.fetch import Parts, ToolMissing, check_tools, fetch
from tests.independent.ministack import fetch_ministack
from tests.independent.servers import running
from tests.languages import sdks

NO_TOOLS = 3
INTERRUPTED = 130
RACE_S = 45
RUN_S = 1200
MINISTACK, NIGHTLY = "ministack", "ministack-nightly"
"""The runs on MiniStack, an AWS in Python. The second does the same with signatures, policies and TLS, and a proof."""
OF_THEIR_OWN = ("artifact", "languages", MINISTACK, NIGHTLY)
"""The runs that start the parts themselves, in moved time, or use none."""
LANGUAGES = ("java", "go")
"""The languages whose SDKs come with the parts."""
REPOSITORY = Path(__file__).parents[2]


def commands(race_s: float) -> dict[str, list[str]]:
    """Returns the commands run on the servers, by name, in order."""
    pytest = ["-m", "pytest", "-p", "no:xdist", "-p", "tests.independent.no_moto"]
    ministack = [*pytest, "-s", "--timeout", str(RUN_S), "tests/independent/ministack_story.py"]
    return {
        "contract": [*pytest, "-p", "tests.independent.selection", "--timeout", "120", "tests/contract"],
        "race": ["-m", "tests.independent.race", "--seconds", str(race_s)],
        "artifact": [*pytest, "-s", "--timeout", str(RUN_S), "tests/independent/artifact_story.py"],
        MINISTACK: ministack,
        "languages": ["-m", "pytest", "-p", "no:xdist", "--timeout", "180", "tests/languages"],
        NIGHTLY: [*ministack, "-m", "nightly"],
    }


def main() -> int:
    """Runs the requested commands. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.independent", description=__doc__)
    parser.add_argument("runs", nargs="*", help=f"of {', '.join(commands(RACE_S))}; by default all but {NIGHTLY}")
    parser.add_argument("--fetch", action="store_true", help="only fetch the parts, and say whether this can be done")
    parser.add_argument("--race-s", type=float, default=RACE_S, help="how long the race lasts")
    asked = parser.parse_args()
    known = commands(asked.race_s)
    if unknown := [name for name in asked.runs if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = {name: known[name] for name in asked.runs or [each for each in known if each != NIGHTLY]}
    if asked.runs and wanted.keys() <= {MINISTACK, NIGHTLY}:
        fetch_ministack()
        return 0 if asked.fetch else run(None, wanted)
    try:
        check_tools()
        parts = fetch()
        for language in LANGUAGES:
            sdks.fetch(language)
        fetch_ministack()
    except ToolMissing as error:
        print(
            f"The tests on independent parts need java and javac (17 or newer), mvn and go: {error}.\n"
            "Maven fetches DynamoDB Local and ElasticMQ, Go compiles versitygw, and both an SDK. See docs/release.md.",
            file=sys.stderr,
        )
        return NO_TOOLS
    return 0 if asked.fetch else run(parts, wanted)


def run(parts: Parts | None, wanted: Mapping[str, list[str]]) -> int:
    """Runs each command on fresh servers, despite earlier failures."""
    codes: dict[str, int] = {}
    verdicts: list[str] = []
    for name, arguments in wanted.items():
        servers = "MiniStack" if name in (MINISTACK, NIGHTLY) else "DynamoDB Local, ElasticMQ and versitygw"
        print(f"---- {name} on {servers}", flush=True)
        begin = time.monotonic()
        codes[name] = _run(arguments, {}) if parts is None or name in OF_THEIR_OWN else _run_on(parts, arguments)
        said = "passed" if codes[name] == 0 else f"FAILED (exit code {codes[name]})"
        verdicts.append(f"{name}: {said} in {time.monotonic() - begin:.0f} s")
    print("\n".join(verdicts))
    return int(any(codes.values()))


def _run_on(parts: Parts, arguments: list[str]) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="tidewheel-independent-") as folder,
        running(parts, Path(folder)) as environment,
    ):
        return _run(arguments, environment)


def _run(arguments: list[str], environment: Mapping[str, str]) -> int:
    # AWS's own settings of this machine would win over, or mix with, what finds the parts.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    try:
        return subprocess.run(
            [sys.executable, *arguments], cwd=REPOSITORY, env=kept | dict(environment), check=False, timeout=RUN_S
        ).returncode
    except subprocess.TimeoutExpired:
        return 124


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
