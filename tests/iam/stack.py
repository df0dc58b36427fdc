"""Opens local stacks in which functions and jobs have the rights of their own roles only."""

from __future__ import annotations

from functools import partial
from typing import Any

import botocore.session

from tests.iam.access import Access, Denial
from tidewheel.local import LocalTidewheel
from tidewheel.local.event_source import EventSource
from tidewheel.local.handlers import Handler, MappingSpec

_POLLING = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
"""The rights that Lambda requires of a function's role when it makes an event source mapping (developer guide)."""


class EnforcedTidewheel(LocalTidewheel):
    """A local stack that enforces IAM, by the policies of its template and by queues' own policies."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._access = Access(self.clock)
        self._endpoints: dict[str, str] = {}
        self._emulator.require = self._require

    @property
    def denials(self) -> list[Denial]:
        """All calls of functions and jobs that their roles do not allow, oldest first."""
        return self._access.denials

    def _function_session(self, role_arn: str | None) -> botocore.session.Session:
        return self._emulator.wire.core_session(self.requests.observe, self._guard(role_arn))

    def _job_endpoint(self, role_arn: str | None) -> str:
        """An access key could not carry the role: Spark's workers, and pyarrow in them, make their own clients."""
        if role_arn is None:
            return super()._job_endpoint(role_arn)
        if role_arn not in self._endpoints:
            self._endpoints[role_arn] = self._emulator.wire.guarded_endpoint(self._guard(role_arn))
        return self._endpoints[role_arn]

    def _source(self, spec: MappingSpec, handler: Handler) -> EventSource:
        self._require(handler.spec.role_arn, spec.queue_arn, *_POLLING)
        return super()._source(spec, handler)

    def _guard(self, role_arn: str | None) -> Any:
        return None if role_arn is None else partial(self._access.answer, role_arn)

    def _require(self, role_arn: str | None, resource: str, *actions: str) -> None:
        if role_arn is not None:
            with self._emulator.lock:
                self._access.require(role_arn, resource, *actions)
