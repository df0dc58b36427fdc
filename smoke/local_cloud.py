"""The rehearsal: the emulated AWS of the local runtime, in virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smoke.cloud import DeployFailed, Take, Usage
from tidewheel.clock import Clock
from tidewheel.local import LocalTidewheel
from tidewheel.local.synthesized import PACKAGED

if TYPE_CHECKING:
    import boto3

    from tidewheel.sdk.client import Tidewheel

_STEP_S = 1.0
_HASTENED_S = 1


class LocalCloud:
    """The port `Cloud` on the local runtime: time moves when somebody sleeps, by a second at a time."""

    def __init__(self, stack_name: str) -> None:
        self.stack_name = stack_name
        # The packaged template is that of `development`.
        self.has_alarms = False
        # moto has no windows to change while it runs, so the bulk queue's is short from the beginning.
        self._stack = LocalTidewheel(
            stack_name=stack_name, template=_hastened(), environment={"TIDEWHEEL_MAX_SKEW_MS": "100"}
        )
        self._takes: list[Take] = []

    @property
    def session(self) -> boto3.Session:
        """A session on the emulated AWS."""
        return self._stack.session

    @property
    def clock(self) -> Clock:
        """The virtual clock."""
        return self._stack.clock

    def deploy(self) -> None:
        """Opens the local stack."""
        try:
            self._stack.open()
        except RuntimeError as error:
            raise DeployFailed(str(error)) from error

    def client(self) -> Tidewheel:
        """Returns a client whose requests are counted."""
        return self._stack.client()

    def listen(self, take: Take) -> None:
        """Calls it after every second of virtual time."""
        self._takes.append(take)

    def deafen(self) -> None:
        """Calls nobody any more."""
        self._takes.clear()

    def sleep(self, seconds: float) -> None:
        """Moves virtual time, and lets every listener take what came."""
        while True:
            step_s = min(_STEP_S, seconds)
            self._stack.advance(seconds=step_s)
            for take in list(self._takes):
                take(0)
            seconds -= step_s
            if seconds <= 0:
                return

    def hasten_bulk(self) -> None:
        """Is done already."""

    def rebuild_on_glue(self, topic: str, *, dry_run: bool) -> None:
        """Runs the job on local Spark."""
        self._stack.run_job("rebuild_index", topic=topic, dry_run=dry_run, replace=not dry_run)

    def usage(self, since_ms: int) -> Usage:  # noqa: ARG002 - all of it is the trial's
        """Returns what was counted; how long functions take, an emulator cannot say."""
        failed: dict[str, int] = {}
        for failure in self._stack.failures:
            failed[failure.function] = failed.get(failure.function, 0) + 1
        return Usage(
            units=dict(self._stack.requests.units),
            invocations=self._stack.invocations,
            errors=failed,
            unknown=("function time",),
        )

    def close(self) -> None:
        """Closes the local stack."""
        self._stack.close()


def _hastened() -> dict[str, Any]:
    """Returns the packaged template with a short window of the bulk queue."""
    template: dict[str, Any] = json.loads(PACKAGED.read_text(encoding="utf-8"))
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if properties.get("MaximumBatchingWindowInSeconds"):
            properties["MaximumBatchingWindowInSeconds"] = _HASTENED_S
    return template
