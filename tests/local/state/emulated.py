"""An emulator with a state, without functions, and all that it holds as plain data."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

from tidewheel.clock import ManualClock, MovedClock
from tidewheel.local import deployment
from tidewheel.local.emulator import REGION, Emulator
from tidewheel.local.emulator.queues import EmulatedQueue
from tidewheel.local.state import State

STACK = "tidewheel"
START_MS = 1_800_000_000_000


class Emulated:
    """An open emulator with the packaged stack, and its state in a folder.

    Each time, the stack is deployed at the same time, so that all that is deployed is equal.
    """

    latest: ClassVar[Emulated | None] = None

    def __init__(self, folder: Path, now_ms: int = START_MS, template: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.clock = ManualClock(START_MS)
        self.moved = MovedClock()
        self.state = State(folder, STACK, self.moved)
        self.emulator = Emulator(self.clock, virtual=True)
        self.emulator.open()
        Emulated.latest = self
        try:
            self.state.open()
            deployed = deployment.read(self.emulator.deploy(STACK, template or deployment.template_of(None)))
            self.clock.set_ms(now_ms)
            self.had_state = self.state.restore(self.emulator, deployed.table_name)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.emulator.close()
        self.state.close()

    def killed(self, copy: Path) -> Emulated:
        """Opens a copy of the files as they are now, as after a kill. This emulator is closed."""
        shutil.copytree(self.folder, copy)
        self.close()
        return Emulated(copy, self.clock.now_ms())


def everything(emulator: Emulator) -> dict[str, Any]:
    """Returns all that the folder keeps."""
    found: dict[str, Any] = {}
    for name, bucket in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.items():
        for key, each in bucket.keys.items():
            found[f"object {name} {key}"] = each.value, dict(each.metadata), each.last_modified
    for name in dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables:
        client = emulator.table(name)
        assert client is not None
        found |= {f"item {item['pk']} {item['sk']}": item for item in client.items()}
    for name, queue in sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.items():
        assert isinstance(queue, EmulatedQueue)
        found[f"queue {name}"] = queue.memory.attributes, queue.memory._redrive, queue.tags
        for message in queue.memory.everything:
            found[f"message {name} {message.id}"] = asdict(message)
    return found


def differences(left: Any, right: Any, path: str = "") -> list[str]:
    """Returns a line for each part that differs."""
    if left == right:
        return []
    if isinstance(left, dict) and isinstance(right, dict):
        names = left.keys() | right.keys()
        return [line for name in names for line in differences(left.get(name), right.get(name), f"{path}/{name}")]
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        return [
            line for i, both in enumerate(zip(left, right, strict=True)) for line in differences(*both, f"{path}/{i}")
        ]
    return [f"{path}: {str(left)[:200]} -> {str(right)[:200]}"]
