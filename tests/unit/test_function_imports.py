"""Functions, the SDK and the command line load only what they need."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import fields

import pytest

from tests.conftest import REPOSITORY
from tidewheel.model.settings import ServiceSettings

FUNCTIONS = ", ".join(
    f"functions.{name}.handler" for name in ("compact", "declare", "deliver", "dispatch", "ingest", "sweep")
)
ROWS = ("numpy", "pyarrow")
"""What rows are read and written with."""
NEVER = (
    "aws_cdk", "aws_xray_sdk", "moto", "opentelemetry", "pyspark", "rich", "tidewheel.cdk", "tidewheel.cli",
    "tidewheel.local", "tidewheel.memory", "tidewheel.spark", "typer",
)  # fmt: skip
"""What no function's archive has."""
ADAPTERS = """pkgutil, importlib, tidewheel.aws, tidewheel.memory
for package in (tidewheel.aws, tidewheel.memory):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")"""
HELP = """tidewheel.cli.main
try: tidewheel.cli.main.app(["--help"])
except SystemExit: pass"""
LIGHT = {
    "the package": ("tidewheel", ("boto3", "botocore", "pyarrow", "typer")),
    "the service in memory": ("tidewheel.memory", ("boto3", "botocore.client", "botocore.session")),
    "the client": ("tidewheel.client.worker.consumer, tidewheel.client.buffered", ("opentelemetry",)),
    "the adapters": (ADAPTERS, (*ROWS, "aws_lambda_powertools", "aws_cdk", "moto", "pyspark")),
    "dispatch and the sweep": ("functions.dispatch.handler, functions.sweep.handler", ROWS),
    "--help": (HELP, ("boto3", "moto", "pyarrow", "matplotlib")),
}
"""Name -> what is imported, and what is not loaded by this."""


def python(program: str) -> str:
    """Runs a program in a process of its own with a function's environment. Returns the output."""
    values = {"max_skew_ms": "100", "send_threads": "8", "topic_queues": "{}"}
    variables = {
        f"TIDEWHEEL_{field.name.upper()}": values.get(field.name, "arn:aws:sqs:eu-central-1:1:q")
        for field in fields(ServiceSettings)
    }
    here = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(REPOSITORY / "src")}
    aws = {"AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**here, **aws, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(imports: str) -> set[str]:
    """Returns all modules loaded by imports."""
    return set(python(f"import sys, {imports}\nprint(*sys.modules)").split())


def test_no_function_loads_a_package_that_the_archive_does_not_have() -> None:
    loaded = loaded_by(FUNCTIONS)
    assert set(ROWS) <= loaded and loaded & set(NEVER) == set()


@pytest.mark.parametrize("name", LIGHT)
def test_what_starts_often_loads_little(name: str) -> None:
    imports, heavy = LIGHT[name]
    assert loaded_by(imports) & set(heavy) == set()


def test_the_sdk_needs_boto3_and_pyroaring_only() -> None:
    blocked = ["pyarrow", "aws_lambda_powertools", "numpy", "moto", "typer", "rich", "aws_cdk", "matplotlib"]
    python(
        f"import sys\nfor name in {blocked}: sys.modules[name] = None\n"
        "import tidewheel\n"
        "for name in tidewheel.__all__: getattr(tidewheel, name)\n"
        "import tidewheel.storage.storage, tidewheel.aws.s3_objects"
    )


@pytest.mark.parametrize("name", sorted({*ROWS, *NEVER, *(each for _, heavy in LIGHT.values() for each in heavy)}))
def test_what_must_not_be_loaded_exists_under_this_name(name: str) -> None:
    """The absence of an unknown name would prove nothing."""
    assert importlib.util.find_spec(name) is not None


def test_each_file_of_the_storage_can_be_imported_first() -> None:
    """A circular import would show only in an archive whose job imports another file first."""
    names = sorted(
        f"tidewheel.storage.{each.stem}" for each in (REPOSITORY / "src" / "tidewheel" / "storage").glob("*.py")
    )
    python(
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    for each in [each for each in sys.modules if each.startswith('tidewheel.storage')]:\n"
        "        del sys.modules[each]\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
    )
