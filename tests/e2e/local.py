"""Runs scenarios on the local stack, with emulated AWS, IAM enforced and virtual time."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.e2e.cloud import Take, Usage
from tidewheel.clock import Clock
from tidewheel.errors import SqsError
from tidewheel.model.prices import ASSUMED_GLUE_RUN_DPU_HOURS

if TYPE_CHECKING:
    import boto3

    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.local import LocalTidewheel

_STEP_S = 1.0
SKEW = {"TIDEWHEEL_MAX_SKEW_MS": "100"}
"""As deployed. The local runtime alone has one clock and would leave no room for skew."""


class Throttled(Exception):
    """The function may not run now."""


class LocalCloud:
    """The port `Cloud` on the local runtime. Time advances by a second at a time, only in `sleep`."""

    def __init__(self, stack_name: str, environment: str) -> None:
        self.stack_name = stack_name
        self._environment = environment
        self._stack: LocalTidewheel | None = None
        self._takes: list[tuple[str, Take]] = []
        self._files = ExitStack()

    @property
    def stack(self) -> LocalTidewheel:
        """The local stack."""
        assert self._stack is not None, "deploy first"
        return self._stack

    @property
    def session(self) -> boto3.Session:
        """A session on the emulated AWS."""
        return self.stack.session

    @property
    def clock(self) -> Clock:
        """The virtual clock."""
        return self.stack.clock

    def deploy(self) -> None:
        """Opens a local stack with the same template as an account."""
        from tidewheel.local import LocalTidewheel  # a run on an account need not wait for the emulator

        template = _template(self._environment)
        stack = LocalTidewheel(stack_name=self.stack_name, template=template, environment=SKEW, enforce_iam=True)
        self._stack = stack.open()

    def client(self) -> Tidewheel:
        """Returns a client whose requests are counted."""
        return self.stack.client()

    def listen(self, url: str, take: Take) -> None:
        """Calls `take` after every second of virtual time in which the queue has a message."""
        self._takes.append((url, take))

    def deafen(self) -> None:
        """Calls nobody any more."""
        self._takes.clear()

    def sleep(self, seconds: float) -> None:
        """Moves virtual time."""
        while seconds > 0:
            step_s = min(_STEP_S, seconds)
            self.stack.advance(seconds=step_s)
            for url, take in list(self._takes):
                if self._has_message(url):
                    take(0)
            seconds -= step_s

    def _has_message(self, url: str) -> bool:
        try:
            ready_ms = self.stack.queue(url).next_ready_ms()
        except SqsError:
            return True  # `take` meets that, too
        return ready_ms is not None and ready_ms <= self.clock.now_ms()

    def hastened_bulk(self) -> AbstractContextManager[None]:
        """Does nothing, since a running local runtime cannot change a window. `_template` shortens the window."""
        return nullcontext()

    @contextmanager
    def throttled(self, function: str) -> Iterator[None]:
        """Fails every invocation of a function before the handler begins."""
        [handler] = [each for each in self.stack._handlers if each.spec.folder == function]
        with patch.object(handler, "invoke", side_effect=Throttled("Rate exceeded")):
            yield

    def file(self, name: str, text: str) -> str:
        """Writes a file on this machine, since local Spark reads only paths."""
        path = Path(self._files.enter_context(tempfile.TemporaryDirectory())) / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_job(self, job: str, **arguments: str) -> None:
        """Runs the job on local Spark."""
        self.stack.run_job(job, **arguments)

    def usage(self) -> Usage:
        """Returns the local runtime's counts. An emulator cannot know the duration of functions."""
        units = Counter({name: float(count) for name, count in self.stack.requests.units.items()})
        return Usage(
            dpu_hours=units.pop("glue.run", 0) * ASSUMED_GLUE_RUN_DPU_HOURS,
            units=units,
            invocations=self.stack.invocations,
            errors=Counter(failure.function for failure in self.stack.failures),
        )

    def close(self) -> None:
        """Closes the local stack."""
        self._files.close()
        if self._stack is not None:
            self._stack.close()


@cache
def _synthesized(environment: str) -> dict[str, Any]:
    from infra.environments import environment_named
    from infra.local_template import synthesize

    return synthesize(environment_named(environment))


def _template(environment: str) -> dict[str, Any]:
    """Returns the template of an environment with a short window of the bulk queue."""
    template = deepcopy(_synthesized(environment))
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if properties.get("MaximumBatchingWindowInSeconds"):
            properties["MaximumBatchingWindowInSeconds"] = 1
    return template
