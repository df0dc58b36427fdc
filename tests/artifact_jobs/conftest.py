"""Fixtures of the jobs' tests, with a Python like Glue's, simulated AWS in a process, and a deployment."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.artifact_jobs.deployment import Deployment, deploy
from tests.artifact_jobs.glue import Glue, make_python
from tests.infra.resolved import PSEUDO
from tests.interpreter import python_of
from tidewheel.bundling.pinned_packages import GLUE
from tidewheel.spark.java import find_java, make_java_home


@pytest.fixture(scope="session")
def glues_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python 3.13 with Glue's packages."""
    return make_python(python_of(GLUE), tmp_path_factory.mktemp("glue") / "python")


@pytest.fixture(scope="session")
def endpoint_url() -> Iterator[str]:
    """AWS's address."""
    command = [sys.executable, "-m", "tests.artifact_jobs.aws"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """A developer's credentials."""
    return boto3.Session(
        aws_access_key_id="developer", aws_secret_access_key="secret", region_name=PSEUDO["AWS::Region"]
    )


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory, session: boto3.Session, endpoint_url: str) -> Deployment:
    """The deployed service."""
    return deploy(tmp_path_factory.mktemp("assembly"), session, endpoint_url)


@pytest.fixture(scope="session")
def glue(
    glues_python: Path,
    deployment: Deployment,
    session: boto3.Session,
    endpoint_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Glue:
    """Glue in the account of the deployment."""
    return Glue(
        folder=tmp_path_factory.mktemp("runs"),
        python=glues_python,
        java_home=make_java_home(find_java(), tmp_path_factory.mktemp("java")),
        endpoint_url=endpoint_url,
        s3=session.client("s3", endpoint_url=endpoint_url),
    )


@pytest.fixture
def seen(endpoint_url: str) -> Any:
    """A function for reading the requests made with a role's credentials."""

    def ask() -> Any:

        with urllib.request.urlopen(f"{endpoint_url}/seen", timeout=20) as answer:
            return json.load(answer)

    return ask
