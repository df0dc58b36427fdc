"""Fetches MiniStack from PyPI, pinned, into an environment of its own, and runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from tests.contract.aws_resources import REGION
from tests.independent.fetch import CACHE, PARTS, run, unfinished_folder
from tests.independent.servers import free_port, server, wait
from tests.interpreter import python_of
from tidewheel.bundling.pinned_packages import X86, uv

EVERYTHING = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'


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
def ministack(folder: Path, *, guarded: bool = False) -> Iterator[Mapping[str, str]]:
    """Runs MiniStack within the block. Yields the environment variables for the AWS SDK.

    Args:
        folder: for the log and the objects; the caller deletes it.
        guarded: whether signatures and policies are checked, behind TLS. The credentials are then those of a user.
    """
    port, log = free_port(), folder / "ministack.log"
    known = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
    if guarded:  # MiniStack makes the certificate
        known["AWS_CA_BUNDLE"] = str(folder / "ministack-tls" / "server.crt")
    variables = {
        **known,
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_REGION": REGION,
        "LAMBDA_EXECUTOR": "local",
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
        **({"AUTH": "true", "USE_SSL": "1"} if guarded else {}),
    }
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), fetch_ministack()]
    with server([*command, PARTS / "ministack_server.py"], log) as process:
        wait("MiniStack", process, port, log)
        known["AWS_ENDPOINT_URL"] = f"http{'s' * guarded}://127.0.0.1:{port}"
        yield {**known, **user(known, "operator", EVERYTHING)} if guarded else known


def user(known: Mapping[str, str], name: str, policy: str) -> dict[str, str]:
    """Creates a user with a policy. Returns the variables of its key.

    MiniStack checks no signature and no policy of its first key, which is the root user's.
    """
    where: Any = {"verify": known["AWS_CA_BUNDLE"], "endpoint_url": known["AWS_ENDPOINT_URL"]}
    iam = boto3.Session("test", "test", region_name=REGION).client("iam", **where)
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
