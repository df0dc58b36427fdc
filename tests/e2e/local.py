"""Runs scenarios on the local stack, with emulated AWS, IAM enforced and virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.cloud import Take
from tests.infra.variants import template_of
from tidewheel.clock import Clock
from tidewheel.errors import SqsError

if TYPE_CHECKING:
    import boto3

    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.local import LocalTidewheel

_STEP_S = 1.0
SKEW = {"TIDEWHEEL_MAX_SKEW_MS": "100"}
"""As deployed. The local runtime alone has one clock and would leave no room for skew."""


class LocalCloud:
    """The port `Cloud` on the local runtime. Time advances by a second at a time, only in `sleep`."""

    def __init__(self, stack_name: str, environment: str) -> None:
        self.stack_name = stack_name
        self._environment = environment
        self._stack: LocalTidewheel | None = None
        self._takes: list[tuple[str, Take]] = []

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
        from tests.iam.stack import EnforcedTidewheel  # a run on an account need not wait for the emulator

        template = template_of(self._environment)
        stack = EnforcedTidewheel(stack_name=self.stack_name, template=template, environment=SKEW)
        self._stack = stack.open()

    def client(self) -> Tidewheel:
        """Returns a client of the stack."""
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

    def close(self) -> None:
        """Closes the local stack."""
        if self._stack is not None:
            self._stack.close()
