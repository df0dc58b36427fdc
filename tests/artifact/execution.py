"""Simulates a Lambda execution environment as a process with the runtime interface client and a runtime API."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Event
from typing import Any

from tests.artifact.http_service import JSON, HttpService, Request, Response
from tests.artifact.moved_clock import MovedClock
from tests.artifact.template import REGION, FunctionSpec
from tests.conftest import REPOSITORY

API = "/2018-06-01/runtime"
INIT_PATIENCE_S = 60
"""Lambda allows 10 s, and starts again. A machine that is busy with other tests may take longer."""
LAUNCH = Path(__file__).parent / "inside" / "launch.py"


class FunctionFailed(Exception):
    """A function failed at a call or at start. The message gives Lambda's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The interpreter and the folders of a function.

    Attributes:
        python: The interpreter.
        runtime: The folder of the runtime interface client.
        archive: The folder of the unpacked archive.
        logs: The folder that logs go to.
    """

    python: Path
    runtime: Path
    archive: Path
    logs: Path


@dataclass(frozen=True, slots=True)
class _Answer:
    ok: bool
    body: bytes


class Execution:
    """One environment of a function, from start to end. Handles a single call at a time."""

    def __init__(
        self, spec: FunctionSpec, place: Place, clock: MovedClock, endpoints: Mapping[str, str], number: int
    ) -> None:
        self.spec, self.place = spec, place
        self._clock = clock
        self._events: Queue[tuple[str, bytes, int] | None] = Queue()
        self._answers: Queue[_Answer] = Queue()
        self._ready = Event()
        self._api = HttpService(self._serve)
        self.log = place.logs / f"{spec.folder}-{number}.log"
        self.peak_mb = 0.0
        began = time.monotonic()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=place.archive,
                env=self._variables(endpoints),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_for_start(began)
        except FunctionFailed:
            self.stop()
            raise

    def call(self, event: Any) -> Any:
        """Calls the function and returns the answer.

        Raises:
            FunctionFailed: It raised, died, ran longer than its time-out or took more memory than it has. After
                anything but an error of its own, the environment is over: see `over`.
        """
        began = time.monotonic()
        deadline_ms = self._clock.now_ms() + self.spec.timeout_s * 1000
        request_id = str(uuid.uuid4())
        self._events.put((request_id, json.dumps(event).encode(), deadline_ms))
        answer = self._wait_for_answer(began + self.spec.timeout_s)
        self._measure()
        if self.peak_mb >= self.spec.memory_mb:
            self.stop()
            raise FunctionFailed(
                f"{self.spec.name}: {self.peak_mb:.0f} MiB resident, and {self.spec.memory_mb} are configured"
            )
        if not answer.ok:
            raise FunctionFailed(f"{self.spec.name}: {answer.body.decode(errors='replace')}")
        return json.loads(answer.body)

    @property
    def over(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ends the process. Harmless when called twice."""
        if not self.over:
            self._measure()
            self._process.kill()
        self._process.wait()
        self._events.put(None)
        self._api.close()

    def _wait_for_start(self, began: float) -> None:
        while not self._ready.wait(0.01):
            if not self._answers.empty():
                failed = self._answers.get()
                raise FunctionFailed(f"{self.spec.name} did not start: {failed.body.decode(errors='replace')}")
            if self.over:
                raise FunctionFailed(f"{self.spec.name} ended when it started: {self._last_words()}")
            if time.monotonic() - began > INIT_PATIENCE_S:
                raise FunctionFailed(f"{self.spec.name} did not start within {INIT_PATIENCE_S} s")

    def _wait_for_answer(self, until: float) -> _Answer:
        while True:
            try:
                return self._answers.get(timeout=0.5)
            except Empty:
                pass
            if self.over:
                self.stop()
                raise FunctionFailed(f"{self.spec.name} ended in the middle of a call: {self._last_words()}")
            if time.monotonic() > until:
                self.stop()
                raise FunctionFailed(f"{self.spec.name}: task timed out after {self.spec.timeout_s} s")

    def _last_words(self) -> str:
        return f"exit code {self._process.returncode}; {self.log.read_text(errors='replace')[-2000:]}"

    def _measure(self) -> None:
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak_mb = max(self.peak_mb, int(line.split()[1]) / 1024)

    def _command(self) -> list[str]:
        launch = self.place.runtime / "launch.py"
        path = f"{self.place.archive}:{self.place.runtime}"
        options = ["-I", "-S", "-B"]  # no variables, no installed packages; a function's folder is read-only
        arguments = [str(self._clock.file), path, str(REPOSITORY), "awslambdaric", self.spec.handler]
        return [str(self.place.python), *options, str(launch), *arguments]

    def _variables(self, endpoints: Mapping[str, str]) -> dict[str, str]:
        """Returns the runtime variables defined in Lambda's developer guide, and the function's own."""
        return {
            "_HANDLER": self.spec.handler,
            "_X_AMZN_TRACE_ID": _TRACE,
            "AWS_ACCESS_KEY_ID": "ASIATIDEWHEELTIDEWHE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "token",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "AWS_LAMBDA_FUNCTION_NAME": self.spec.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.spec.memory_mb),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{self.spec.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": self.log.stem,
            "AWS_LAMBDA_RUNTIME_API": self._api.address,
            "LAMBDA_TASK_ROOT": str(self.place.archive),
            "LAMBDA_RUNTIME_DIR": str(self.place.runtime),
            "LANG": "en_US.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TZ": ":UTC",
            **{f"AWS_ENDPOINT_URL_{name}": url for name, url in endpoints.items()},
            **self.spec.environment,
        }

    def _serve(self, request: Request) -> Response:
        """Answers the runtime interface client."""
        if request.path == f"{API}/invocation/next":
            self._ready.set()
            given = self._events.get()
            if given is None:
                return Response(status=500)
            request_id, body, deadline_ms = given
            headers = {
                "Lambda-Runtime-Aws-Request-Id": request_id,
                "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": self.spec.arn,
                "Lambda-Runtime-Trace-Id": _TRACE,
            }
            return Response(headers={**JSON, **headers}, body=body)
        if request.path.startswith(f"{API}/invocation/") and request.path.endswith(("/response", "/error")):
            self._answers.put(_Answer(request.path.endswith("/response"), request.body))
            return Response(status=202)
        if request.path == f"{API}/init/error":
            self._answers.put(_Answer(False, request.body))
            return Response(status=202)
        return Response(status=404)


_TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0"
