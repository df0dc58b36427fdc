"""Fetches MiniStack from PyPI, pinned, into an environment of its own, and runs it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.contract.aws_resources import REGION
from tests.independent.fetch import CACHE, PARTS, run, unfinished_folder
from tests.independent.servers import free_port, server, wait
from tests.interpreter import python_of
from tidewheel.bundling.pinned_packages import X86, uv

ACCOUNT = "000000000000"


def fetch_ministack() -> Path:
    """Returns the Python of an environment with MiniStack, whose functions run in the same Python."""
    pins = PARTS / "ministack.txt"
    folder = CACHE / f"ministack-{hashlib.sha256(pins.read_bytes()).hexdigest()[:8]}"
    if not folder.is_dir():
        # An environment cannot be moved: its folder is the last name, and the mark of a finished fetch is elsewhere.
        unfinished = unfinished_folder(folder)
        python = unfinished / "bin" / "python"
        run([uv(), "--quiet", "venv", "--relocatable", "--clear", "--python", python_of(X86), unfinished])
        run([uv(), "--quiet", "pip", "install", "--require-hashes", "--python", python, "-r", pins])
        unfinished.rename(folder)
    return folder / "bin" / "python"


@contextmanager
def ministack(folder: Path) -> Iterator[Mapping[str, str]]:
    """Runs MiniStack within the block. Yields the environment variables for the AWS SDK.

    Args:
        folder: for the log and the objects; the caller deletes it.
    """
    port, log = free_port(), folder / "ministack.log"
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    variables = {
        **credentials,
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_REGION": REGION,
        "LAMBDA_EXECUTOR": "local",
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
    }
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), fetch_ministack()]
    with server([*command, PARTS / "ministack_server.py"], log) as process:
        wait("MiniStack", process, port, log)
        yield {**credentials, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


if __name__ == "__main__":
    print(fetch_ministack(), file=sys.stderr)
