"""Local clouds that go wrong in one way each, and a play that takes a minute of virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from smoke.cloud import Cloud, DeployFailed
from smoke.local_cloud import LocalCloud
from smoke.rebuilding import RebuildOn
from smoke.record import Record
from smoke.skew import Skew
from smoke.stage import Stage
from smoke.verdict import LEDGER, Check

STACK = "tidewheel-smoke-test"


class HalfDeployed(LocalCloud):
    """The deployment breaks off when some of the stack is there."""

    def deploy(self) -> None:
        super().deploy()
        raise DeployFailed("cdk deploy ended with 1")


class Interrupting(LocalCloud):
    """Somebody presses Ctrl-C while the trial waits."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        raise KeyboardInterrupt


class Losing(LocalCloud):
    """One message is taken from the queue by somebody else."""

    def client(self) -> Any:
        client = super().client()
        receive = client.receive
        client.receive = lambda *names, **options: [  # type: ignore[method-assign]
            message for message in receive(*names, **options) if message.body != "short 1"
        ]
        return client


def refuse(cloud: LocalCloud, operation: str, code: str = "AccessDenied") -> None:
    """Makes every later call of "service.Operation" fail."""
    service, _, name = operation.partition(".")

    def deny(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": f"not {operation}"}}, name)

    cloud.session.events.register_first(f"before-call.{service}.{name}", deny)


def short_play(
    cloud: Cloud, record: Record, checks: list[Check], *, rebuild_on: RebuildOn, say: Callable[[str], None]
) -> None:
    """Sends two messages and waits for them."""
    stage = Stage(
        cloud=cloud,
        tw=cloud.client(),
        sqs=cloud.session.client("sqs"),
        record=record,
        began_ms=cloud.clock.now_ms(),
        say=say,
        checks=checks,
    )
    record.skew = Skew(offset_ms=0, uncertainty_ms=0)
    stage.topic("short")
    stage.subscribe("short", "reader")
    for i in range(2):
        stage.send("short", f"short {i}", readers=("reader",), group=LEDGER, delay=20 + i)
    stage.until(lambda: not record.outstanding(), within_s=60)
