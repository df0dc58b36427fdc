"""The functions load only modules in their archive."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import fields

import pytest

from tests.conftest import REPOSITORY
from tidewheel.model.settings import ServiceSettings

PROGRAM = """
import importlib, json, sys

for name in sys.argv[1:]:
    importlib.import_module(f"functions.{name}.handler")
print(json.dumps(sorted(sys.modules)))
"""
PATIENCE_S = 120
ROWS = ("numpy", "pyarrow")
"""What rows are read and written with."""
NEVER = (
    "aws_cdk",
    "aws_xray_sdk",
    "moto",
    "pyspark",
    "rich",
    "tidewheel.cdk",
    "tidewheel.cli",
    "tidewheel.local",
    "tidewheel.memory",
    "tidewheel.spark",
    "typer",
)


def loaded_by(*functions: str) -> set[str]:
    """Imports handlers in a new process. Returns all loaded modules."""
    values = {"max_skew_ms": "100", "send_threads": "8", "topic_queues": "{}"}
    variables = {
        f"TIDEWHEEL_{field.name.upper()}": values.get(field.name, "arn:aws:sqs:eu-central-1:1:q")
        for field in fields(ServiceSettings)
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *functions],
        cwd=REPOSITORY,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(REPOSITORY / "src"),
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_no_function_loads_a_package_that_the_archive_does_not_have() -> None:
    loaded = loaded_by("compact", "declare", "deliver", "dispatch", "ingest", "sweep")
    assert set(ROWS) <= loaded and loaded & set(NEVER) == set()


def test_the_service_in_memory_needs_nothing_of_botocore_but_its_exceptions() -> None:
    program = "import sys, tidewheel.memory; print(*(each for each in sys.modules if each.startswith('boto')))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert "botocore.exceptions" in done.stdout
    assert not {"boto3", "botocore.client", "botocore.session"} & set(done.stdout.split())


@pytest.mark.parametrize("name", [*ROWS, *NEVER])
def test_what_must_not_be_loaded_exists_under_this_name(name: str) -> None:
    """The absence of an unknown name would prove nothing."""
    assert importlib.util.find_spec(name) is not None


def test_each_file_of_the_storage_can_be_imported_first() -> None:
    """A circular import would show only in an archive whose job imports another file first."""
    names = sorted(
        f"tidewheel.storage.{each.stem}" for each in (REPOSITORY / "src" / "tidewheel" / "storage").glob("*.py")
    )
    again = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    for each in [each for each in sys.modules if each.startswith('tidewheel.storage')]:\n"
        "        del sys.modules[each]\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
    )
    subprocess.run([sys.executable, "-c", again], check=True)


def test_neither_a_function_nor_the_client_loads_opentelemetry() -> None:
    assert "opentelemetry" not in loaded_by("compact", "declare", "deliver", "dispatch", "ingest", "sweep")
    program = "import sys, tidewheel.client.consumer, tidewheel.client.buffered; print('opentelemetry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "False\n"
