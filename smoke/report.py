"""The result of a trial, as lines for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from smoke.cloud import Usage
from smoke.removal import Removal
from smoke.verdict import Check, Precision


@dataclass(slots=True, kw_only=True)
class Report:
    """What a trial found; filled as it goes on, so that one that breaks off is told too.

    Attributes:
        stack: the stack's name.
        began_at: ISO 8601, UTC.
        took_s: from the deployment to the end of the removal.
        checks: what was found, in order.
        precision: how late messages were, by group.
        sent, received, copies: messages, arrivals, and how many of these were repetitions.
        usage: what was used; None if the trial did not come so far.
        dollars: what that comes to, by service.
        removal: what was removed and what is left; None if the stack was to be kept.
        interrupted: whether somebody stopped it.
        emulated: whether it was a rehearsal, of which nothing is left when the program ends.
    """

    stack: str
    began_at: str
    took_s: int = 0
    checks: list[Check] = field(default_factory=list)
    precision: list[Precision] = field(default_factory=list)
    sent: int = 0
    received: int = 0
    copies: int = 0
    usage: Usage | None = None
    dollars: Mapping[str, float] = field(default_factory=dict)
    removal: Removal | None = None
    interrupted: bool = False
    emulated: bool = False

    @property
    def passed(self) -> bool:
        """Whether everything was found as it must be, and nothing is left that was to be removed."""
        clean = self.removal is None or (self.removal.finished and not self.removal.leftovers)
        return bool(self.checks) and all(check.passed for check in self.checks) and clean and not self.interrupted

    def to_json(self) -> str:
        """Returns the report as JSON."""
        values: dict[str, Any] = {"passed": self.passed, **asdict(self)}
        return json.dumps(values, indent=1) + "\n"

    def lines(self) -> Iterator[str]:
        """Yields the report for people."""
        yield f"stack {self.stack}, {self.began_at}, {self.took_s // 60} min {self.took_s % 60} s"
        yield from self._check_lines()
        yield from self._precision_lines()
        yield from self._usage_lines()
        yield from self._removal_lines()
        if self.interrupted:
            yield "it was interrupted"
        yield "passed" if self.passed else "FAILED"

    def _check_lines(self) -> Iterator[str]:
        yield ""
        for check in self.checks:
            yield f"{'ok    ' if check.passed else 'FAILED'}  {check.name}: {check.detail}"

    def _precision_lines(self) -> Iterator[str]:
        if not self.precision:
            return
        yield ""
        yield f"{self.sent:,} messages sent, {self.received:,} received, {self.copies:,} of them repetitions"
        yield f"{'late by (ms)':14}{'messages':>10}{'least':>10}{'p50':>10}{'p99':>10}{'most':>10}"
        for each in self.precision:
            figures = (each.messages, each.least_ms, each.p50_ms, each.p99_ms, each.most_ms)
            yield f"{each.group:14}" + "".join(f"{figure:>10,}" for figure in figures)

    def _usage_lines(self) -> Iterator[str]:
        if self.usage is None:
            return
        yield ""
        for name, count in sorted(self.usage.invocations.items()):
            errors = self.usage.errors.get(name, 0)
            yield f"{name:14}{count:>10,} invocations" + (f", {errors:,} failed" if errors else "")
        for unit, units in sorted(self.usage.units.items()):
            yield f"{unit:24}{units:>12,.0f}"
        if self.usage.gb_seconds is not None:
            yield f"{'lambda.gb_seconds':24}{self.usage.gb_seconds:>12,.1f}"
        yield f"not counted: {', '.join(self.usage.unknown) or 'nothing'}"
        yield f"cost of what was counted: ${sum(self.dollars.values()):.4f}"

    def _removal_lines(self) -> Iterator[str]:
        yield ""
        if self.removal is None:
            yield f"kept; remove it with: python -m smoke --remove {self.stack}"
            return
        yield f"removed: {', '.join(self.removal.removed) or 'nothing'}"
        if self.emulated:
            if not self.removal.finished:
                yield "the removal was broken off; the emulated AWS is gone with this program, so nothing is left"
            yield from (f"LEFT: {left.name}: {left.why}" for left in self.removal.leftovers)
            return
        if not self.removal.finished:
            yield f"the removal was broken off; go on with: python -m smoke --remove {self.stack}"
        for left in self.removal.leftovers:
            yield f"LEFT: {left.name}: {left.why}"
            yield f"      remove it with: {left.command}"
