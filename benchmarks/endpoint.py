"""Runs an AWS endpoint, as a process that answers every request with fixed bytes.

It serves as the floor's other end: what a benchmark measures against it is the client's own work. SQS and DynamoDB
requests get the answer that was set for their X-Amz-Target; S3 GETs get the object that was set; PUTs are swallowed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config

_HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nETag: "0"\r\nContent-Length: %d\r\n\r\n'
_PARTIAL = (
    b'HTTP/1.1 206 Partial Content\r\nContent-Type: binary/octet-stream\r\nETag: "0"\r\nContent-Length: %d\r\n\r\n'
)


class _Connection(asyncio.Protocol):
    def __init__(self, answers: dict[str, bytes], objects: dict[str, bytes]) -> None:
        self._answers = answers
        self._objects = objects
        self._buffer = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            total = end + 4 + int(headers.get("content-length", 0))
            if headers.get("expect") == "100-continue" and len(self._buffer) == end + 4:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            if len(self._buffer) < total:
                return
            del self._buffer[:total]
            method, path, _ = lines[0].split(" ", 2)
            self._transport.write(self._answer(method, path, headers))

    def _answer(self, method: str, path: str, headers: dict[str, str]) -> bytes:
        target = headers.get("x-amz-target", "").rpartition(".")[2]
        if target:
            body = self._answers.get(target, b"{}")
        elif method == "GET":
            body = self._objects[path.split("?")[0].split("/", 2)[2]]
            if "range" in headers:
                first, last = headers["range"].removeprefix("bytes=").split("-")
                body = body[int(first) : int(last) + 1]
                return _PARTIAL % len(body) + body
        else:
            body = b""
        return _HEAD % len(body) + body


def _serve(pipe: Any, answers: dict[str, bytes], objects: dict[str, bytes]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(answers, objects), "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def endpoint(answers: dict[str, bytes] | None = None, objects: dict[str, bytes] | None = None) -> Iterator[str]:
    """Runs the endpoint and yields the URL.

    Args:
        answers: operation name -> JSON body; `{}` for others.
        objects: S3 key -> bytes.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(theirs, answers or {}, objects or {}), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def client(service: str, url: str, config: Config | None = None) -> Any:
    """Returns a boto3 client of the endpoint, with boto3's own options or these."""
    make: Any = boto3.client
    return make(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        config=config,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
