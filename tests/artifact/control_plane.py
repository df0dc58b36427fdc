"""Simulates EventBridge Scheduler, Lambda's Invoke, SSM and Glue's StartJobRun over HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from tests.artifact.execution import FunctionFailed
from tests.artifact.functions import Functions
from tests.artifact.http_service import JSON, HttpService, Request, Response
from tests.artifact.moved_clock import MovedClock
from tests.artifact.schedules import Schedules

_INVOKE = "/2015-03-31/functions/"


class ControlPlane:
    """One endpoint for all simulated services, distinguished by the request.

    Attributes:
        parameters: SSM's parameters.
        job_runs: Each run of a Glue job that was asked for. None is started.
    """

    def __init__(self, functions: Functions, schedules: Schedules, clock: MovedClock) -> None:
        self._functions, self._schedules = functions, schedules
        self.parameters: dict[str, str] = {}
        self.job_runs: list[dict[str, Any]] = []
        self._service = HttpService(self._answer, clock)
        self.url = self._service.url

    def close(self) -> None:
        """Stops answering."""
        self._service.close()

    def _answer(self, request: Request) -> Response:
        if request.path.startswith("/schedules"):
            return self._schedules.answer(request)
        if request.path.startswith(_INVOKE):
            return self._invoke(request)
        asked = json.loads(request.body or b"{}")
        match request.headers.get("x-amz-target"):
            case "AmazonSSM.GetParameter":
                return self._parameter(asked["Name"])
            case "AWSGlue.StartJobRun":
                self.job_runs.append(asked)
                return _json({"JobRunId": f"jr_{len(self.job_runs)}"})
        return _json({"__type": "UnknownOperationException", "message": f"{request.method} {request.path}"}, 400)

    def _invoke(self, request: Request) -> Response:
        name = unquote(request.path.removeprefix(_INVOKE).partition("/")[0]).rpartition(":")[2]
        if name not in self._functions.specs:
            error = json.dumps({"Message": f"Function not found: {name}"}).encode()
            return Response(status=404, headers={**JSON, "x-amzn-ErrorType": "ResourceNotFoundException"}, body=error)
        event = json.loads(request.body or b"{}")
        if request.headers.get("x-amz-invocation-type") == "Event":
            self._functions.call_later(name, event)
            return Response(status=202)
        try:
            return _json(self._functions.call(name, event))
        except FunctionFailed as error:
            body = json.dumps({"errorMessage": str(error)}).encode()
            return Response(headers={**JSON, "X-Amz-Function-Error": "Unhandled"}, body=body)

    def _parameter(self, name: str) -> Response:
        if name not in self.parameters:
            return _json({"__type": "ParameterNotFound", "message": name}, 400)
        return _json({"Parameter": {"Name": name, "Type": "String", "Value": self.parameters[name], "Version": 1}})


def _json(document: Any, status: int = 200) -> Response:
    return Response(status=status, headers=JSON, body=json.dumps(document).encode())
