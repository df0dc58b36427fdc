"""The SDK layer, built from PyPI. The client works from the layer, beside Lambda's boto3."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.interpreter import functions_machine, python_of
from tidewheel.bundling.pinned_packages import LAMBDA, X86, install, pinned
from tidewheel.cdk.sdk_layer import fill, write_layer

pytestmark = pytest.mark.usefixtures("package_index")

BOTO3 = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
"""boto3 with all that it needs, which Lambda's runtime has."""

CLIENT = """
import sys
sys.path += sys.argv[1:]
from tidewheel import *
import tidewheel
assert tidewheel.__file__.startswith(sys.argv[1]), tidewheel.__file__
client = Tidewheel("service")
assert parse_received and Message(body="x", delay="1h")
import pyroaring, zoneinfo
zoneinfo.reset_tzpath(())
zoneinfo.ZoneInfo("Europe/Zurich")
print(tidewheel.__version__, list(pyroaring.BitMap([1, 2])))
"""


def test_the_client_works_from_the_layer_and_lambdas_boto3_alone(tmp_path: Path) -> None:
    machine = functions_machine()
    python = python_of(machine)
    fill(tmp_path, machine)
    boto3 = tmp_path / "boto3"
    install(pinned(BOTO3, machine), boto3, machine)
    done = subprocess.run(
        [python, "-I", "-S", "-c", CLIENT, str(tmp_path / "python"), str(boto3)],
        env={"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == (f"{version('tidewheel')} [1, 2]\n", 0), done.stderr


def test_a_layer_has_the_packages_of_its_architecture(tmp_path: Path) -> None:
    for machine in (LAMBDA, X86):
        write_layer(tmp_path, machine)
        compiled = [name for name in ZipFile(tmp_path / "sdk.zip").namelist() if re.search(r"\.so(\.\d+)*$", name)]
        assert compiled == [f"python/pyroaring.cpython-313-{machine.architecture}-linux-gnu.so"]
