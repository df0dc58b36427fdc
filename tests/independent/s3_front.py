"""A proxy for versitygw that lets a service use simulated time.

versitygw refuses signatures that are older than 15 minutes, as S3 does, and its time cannot be moved: Go asks the
machine, past libfaketime. So each request is signed anew with the machine's time. The time of an object is the time of
its file: after each write the file gets the moved time, since the orphan sweep compares the two.
"""

from __future__ import annotations

import contextlib
import http.client
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.artifact.http_service import HttpService, Request, Response
from tests.artifact.moved_clock import MovedClock
from tests.artifact.template import REGION
from tests.contract.aws_resources import ACCESS_KEY, SECRET_KEY

_SIGNED_ANEW = ("authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "host")
_HOP = ("connection", "content-length", "transfer-encoding", "keep-alive", "accept-encoding", "expect")
_WRITES = ("PUT", "POST")


class S3Front:
    """Signs requests again, and sets the time of written objects.

    Args:
        s3_url: versitygw's.
        objects: its folder.
        clock: the service's.
    """

    def __init__(self, s3_url: str, objects: Path, clock: MovedClock) -> None:
        self._backend, self._objects, self._clock = s3_url, objects, clock
        self._service = HttpService(self._answer, clock)
        self.url = self._service.url

    def close(self) -> None:
        """Stops answering."""
        self._service.close()

    def _answer(self, request: Request) -> Response:
        response = self._forward(request)
        if request.method in _WRITES and response.status == 200:
            self._date(request.path)
        return response

    def _forward(self, request: Request) -> Response:
        kept = {name: value for name, value in request.headers.items() if name not in (*_SIGNED_ANEW, *_HOP)}
        signed = AWSRequest(method=request.method, url=self._backend + request.path, headers=kept, data=request.body)
        S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION).add_auth(signed)
        connection = http.client.HTTPConnection(urlsplit(self._backend).netloc, timeout=60)
        with contextlib.closing(connection):
            connection.request(request.method, request.path, request.body, dict(signed.headers.items()))
            answer = connection.getresponse()
            headers = {
                name: value for name, value in answer.getheaders() if name.lower() not in (*_HOP, "date", "server")
            }
            return Response(status=answer.status, headers=headers, body=answer.read())

    def _date(self, path: str) -> None:
        """Gives an object's file the simulated time, unless the request has no key or the upload no file yet."""
        file = self._objects / unquote(urlsplit(path).path).lstrip("/")
        with contextlib.suppress(FileNotFoundError):
            os.utime(file, (self._clock.now_ms() / 1000,) * 2)
