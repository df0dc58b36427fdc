"""The SDK's client in a process with only the wheel and its dependencies."""

from __future__ import annotations

import pickle
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.artifact.moved_clock import MovedClock
from tests.artifact.template import REGION
from tests.conftest import REPOSITORY

_LENGTH = struct.Struct("=I")


class SdkFailed(Exception):
    """A call of the client raised.

    Attributes:
        kind: The name of the error's class.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class SdkProcess:
    """A `Tidewheel` client in another process, with the same methods, arguments and answers."""

    def __init__(
        self, python: Path, packages: Path, clock: MovedClock, endpoints: Mapping[str, str], stack: str, log: Path
    ) -> None:
        self._log = log.open("wb")
        command = [str(python), "-I", "-S", "-B", str(packages / "launch.py"), str(clock.file), str(packages)]
        self._process = subprocess.Popen(
            [*command, str(REPOSITORY), "sdk_process", stack],
            cwd=packages,
            env={
                "PATH": "/usr/bin:/bin",
                "AWS_REGION": REGION,
                "AWS_DEFAULT_REGION": REGION,
                "AWS_ACCESS_KEY_ID": "AKIATIDEWHEELCLIENT0",
                "AWS_SECRET_ACCESS_KEY": "secret",
                **{f"AWS_ENDPOINT_URL_{name}": url for name, url in endpoints.items()},
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments, **keywords: self._call(method, arguments, keywords)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _call(self, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        source, target = self._process.stdout, self._process.stdin
        assert source is not None and target is not None
        data = pickle.dumps((method, arguments, keywords))
        try:
            target.write(_LENGTH.pack(len(data)) + data)
            target.flush()
            head = source.read(_LENGTH.size)
        except BrokenPipeError:
            head = b""
        if not head:
            raise SdkFailed("EOFError", f"the client ended: {Path(self._log.name).read_text()[-2000:]}")
        result, error = pickle.loads(source.read(*_LENGTH.unpack(head)))
        if error is not None:
            raise SdkFailed(*error)
        return result
