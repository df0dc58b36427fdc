"""Runs the three servers on 127.0.0.1, and stops them however this process ends."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.contract.aws_resources import ACCESS_KEY, REGION, SECRET_KEY
from tests.independent.fetch import PARTS, Parts

START_S = 120
STOP_S = 15
# The pipe closes when this process ends, even by SIGKILL: then `cat` ends, and the server is stopped.
_GUARD = 'exec 3<&0; "$@" 3<&- & server=$!; (cat <&3 >/dev/null; kill $server) & wait $server'


@contextmanager
def running(
    parts: Parts, folder: Path, *, region: str = REGION, clock: Path | None = None
) -> Iterator[Mapping[str, str]]:
    """Runs the servers within the block. Yields the environment variables for the AWS SDK.

    Args:
        folder: for logs, for objects in its folder `objects`, and for their old versions; the caller deletes it.
        region: what the parts say that they are in.
        clock: a file by which ElasticMQ's time is moved (tests/artifact/moved_clock.py); None: the machine's time.
    """
    ports = {name: free_port() for name in ("dynamodb", "sqs", "s3")}
    objects, versions = folder / "objects", folder / "versions"
    objects.mkdir()
    versions.mkdir()
    libraries = f"-Djava.library.path={parts.dynamodb_local}"
    commands: dict[str, list[str | Path]] = {
        "dynamodb": [*_java(parts.dynamodb_local, "DynamoDbLocal.java", libraries), str(ports["dynamodb"])],
        "sqs": [*_java(parts.elasticmq, "ElasticMq.java"), str(ports["sqs"]), region, *([clock] if clock else [])],
        "s3": _versitygw(parts.versitygw, ports["s3"], region, objects, versions),
    }
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(server(command, folder / f"{name}.log")) for name, command in commands.items()
        }
        for name, process in started.items():
            wait(name, process, ports[name], folder / f"{name}.log")
        endpoints = {f"AWS_ENDPOINT_URL_{name.upper()}": f"http://127.0.0.1:{port}" for name, port in ports.items()}
        yield {
            **endpoints,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": region,
        }


def _java(jars: Path, program: str, *options: str) -> list[str | Path]:
    return ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", *options, "-cp", f"{jars}/*", PARTS / program]


def _versitygw(program: Path, port: int, region: str, objects: Path, versions: Path) -> list[str | Path]:
    keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", region]
    return [program, *keys, "--port", f"127.0.0.1:{port}", "--quiet", "posix", "--versioning-dir", versions, objects]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(command: Sequence[str | Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        # A session of its own: Ctrl-C is for this process, which then stops the servers.
        server = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert server.stdin is not None
    try:
        yield server
    finally:
        server.stdin.close()
        server.wait(timeout=STOP_S)


def wait(name: str, server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if server.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the server for {name} did not start; its log ends:\n{log.read_text(errors='replace')[-2000:]}")
