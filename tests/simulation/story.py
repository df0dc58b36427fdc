"""The short trace of a failed run, with the last relevant steps and the command for the whole trace."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.simulation.promises import Violation

MOST_LINES = 40
_READS = re.compile(
    r": (?:\w+\.(?:read|all|ids)|plans\.(?:next|ranges|objects)|merges\.trash|buckets\.imported|checks\.due)\b"
    r"(?!.*(?:fails|dies|throttled))"
    r"|: objects\.(?:get_range|list)\b(?!.*(?:fails|dies|throttled))"
)


def story(command: str, trace: Sequence[str], error: Violation) -> str:
    """Returns the steps about the subject of a violation, and the command to show all steps.

    That is: those that name it; what else the functions wrote that had it in hands; and, as far as there is room, what
    others wrote to its topic next.
    """
    topic, *things = error.about or ("",)
    named = [place for place, line in enumerate(trace) if any(thing in line for thing in things if thing)]
    hands = {_who(trace[place]) for place in named}
    chosen = {place for place, line in enumerate(trace) if _who(line) in hands and not _READS.search(line)}
    chosen = set(sorted(chosen.union(named))[-MOST_LINES:])
    others = [place for place, line in enumerate(trace) if topic in line and not _READS.search(line)]
    begin = max(named, default=0)
    behind = [place for place in others if place >= begin] if named else others[-MOST_LINES:]
    chosen.update([place for place in behind if place not in chosen][: MOST_LINES - len(chosen)])
    return "\n".join(
        [
            f"again: {command}",
            f"all {len(trace):,} steps: {command} --trace",
            "ms since the start, who: what",
            *(trace[place] for place in sorted(chosen)),
        ]
    )


def _who(line: str) -> str:
    return line[12:].partition(":")[0]
