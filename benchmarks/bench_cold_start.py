"""Measures the CPU time of functions' cold starts, beside bare floors.

    python -m benchmarks cold_start

The functions' archive is made as it is deployed, from PyPI, but for this machine; the functions' Python runs it. Each
figure is the CPU time (user and system) inside of a new process with nothing else on its path, less the time that
Python itself needs: other programs move CPU time less than wall time. No request is made.

A start is the import of a handler, with all that its module does. Lambda does this once an environment, and gives it a
whole core then, whatever the function's memory (AWS, "Understanding the Lambda execution environment lifecycle").
A module without bytecode is compiled at each start, as on Lambda: a function cannot write to its folder. The archive
has bytecode if uv finds the functions' Python.

The floors are packages alone: boto3 with the four clients that every function makes, and Powertools' logger; numpy; and
pyarrow.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks.rounds import Rounds, interleaved, spread_figures
from tidewheel.bundling.functions import fill
from tidewheel.bundling.pinned_packages import LAMBDA, Machine
from tidewheel.model.settings import ServiceSettings

PROCESSES = 15
TOP = 8

MEASURED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF)
exec(sys.argv[2])
after = resource.getrusage(resource.RUSAGE_SELF)
print((after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000)
"""
CLIENTS = "import boto3\nfor name in ('s3', 'dynamodb', 'sqs', 'scheduler'): boto3.client(name)"
LOGGER = "from aws_lambda_powertools import Logger\nLogger(service='x')"
FLOORS = {
    "boto3": "import boto3",
    "boto3_and_clients": CLIENTS,
    "boto3_clients_and_powertools": f"{CLIENTS}\n{LOGGER}",
    "numpy": "import numpy",
    "pyarrow": "import pyarrow, pyarrow.compute, pyarrow.parquet",
}

_IMPORT_LINE = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \| +(\S+)$", re.MULTILINE)
_OWNERS = {
    "botocore": "boto3",
    "s3transfer": "boto3",
    "urllib3": "boto3",
    "jmespath": "boto3",
    "dateutil": "boto3",
    "six": "boto3",
    "aws_lambda_powertools": "Powertools",
    "typing_extensions": "Powertools",
    "functions": "clients, made",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The Python on which functions are started, and their archive's content.

    Attributes:
        executable: the Python.
        folder: has the archive's content.
    """

    executable: str
    folder: Path

    def run(self, program: str, *arguments: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
        """Runs a program as Lambda runs a function, with the archive and variables only, and without writing bytecode.

        Returns:
            What it wrote to stdout and to stderr.

        Raises:
            subprocess.CalledProcessError: it failed; what it wrote is on standard error.
        """
        command = [self.executable, "-B", "-I", "-S", *options, "-c", program, str(self.folder), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=_variables(self.folder), capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        done.check_returncode()
        return done.stdout, done.stderr

    def cpu_ms(self, code: str) -> float:
        """Returns the CPU milliseconds of some code in a new process."""
        return float(self.run(MEASURED, code)[0])


def benchmark(*, quick: bool) -> dict[str, object]:
    """Fills a folder with the archive's content and starts everything in turns."""
    with tempfile.TemporaryDirectory(prefix="tidewheel-cold-start-") as name:
        executable, machine = _python()
        start = Start(executable=executable, folder=Path(name))
        fill(start.folder, machine)
        actions = _actions(start)
        # The least is 9: a median of fewer says little of processes.
        rounds = interleaved(9 if quick else PROCESSES, _told, actions)
        return {
            "python": machine.python,
            "architecture": machine.architecture,
            "processes": len(rounds.times_ms["dispatch_init"]),
            **_figures(rounds),
            "dispatch_profile": _profile(start, "import functions.dispatch.handler"),
        }


def _actions(start: Start) -> Mapping[str, Callable[[], object]]:
    codes = {f"{name}_floor": code for name, code in FLOORS.items()}
    handlers = sorted(path.parent.name for path in (start.folder / "functions").glob("*/handler.py"))
    codes |= {f"{name}_init": f"import functions.{name}.handler" for name in handlers}
    return {name: partial(start.cpu_ms, code) for name, code in codes.items()}


def _told(action: Callable[[], object]) -> float:
    """Returns the time that a process measured."""
    return cast(float, action())


def _figures(rounds: Rounds) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, times in rounds.times_ms.items():
        found |= spread_figures(f"{name}_ms", list(times))
    floor = "boto3_clients_and_powertools_floor"
    return found | rounds.ratio("dispatch_init_ratio", floor, "dispatch_init")


def _profile(start: Start, code: str) -> dict[str, float]:
    """Returns the milliseconds of each package's own modules in one traced start, the largest first."""
    _, told = start.run(MEASURED, code, options=("-X", "importtime"))
    spent: Counter[str] = Counter()
    for own_us, module in _IMPORT_LINE.findall(told):
        package = module.partition(".")[0]
        # This Python's list may lack private modules of the other's.
        standard = package in sys.stdlib_module_names or package.startswith("_")
        spent["Python's own library" if standard else _OWNERS.get(package, package)] += int(own_us)
    shown = {package: round(own_us / 1000, 1) for package, own_us in spent.most_common(TOP)}
    return shown | {"others": round(sum(spent.values()) / 1000 - sum(shown.values()), 1)}


def _python() -> tuple[str, Machine]:
    """Returns the functions' Python on this machine, and the machine.

    Raises:
        RuntimeError: this machine has none.
    """
    named = f"python{LAMBDA.python}"
    places = sorted(Path.home().glob(f".pyenv/versions/{LAMBDA.python}.*/bin/{named}"))
    candidates = [sys.executable, *filter(None, [shutil.which(named)]), *map(str, places)]
    found = next((path for path in candidates if _runs(path)), None)
    if found is None:
        raise RuntimeError(f"The functions run on Python {LAMBDA.python}, which this machine lacks: install it.")
    return found, Machine(python=LAMBDA.python, architecture=platform.machine())


def _runs(executable: str) -> bool:
    """Returns whether an executable is the functions' Python. A name on the path may be a shim without a version."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == LAMBDA.python


def _variables(home: Path) -> dict[str, str]:
    """Returns a function's variables, for a service that does not exist."""
    values = {"max_skew_ms": "100", "send_threads": "8", "topic_queues": "{}"}
    arn = "arn:aws:sqs:eu-central-1:1:q"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{LAMBDA.python}",
        "AWS_LAMBDA_FUNCTION_NAME": "tidewheel",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "LAMBDA_TASK_ROOT": "/var/task",
        **{f"TIDEWHEEL_{each.name.upper()}": values.get(each.name, arn) for each in fields(ServiceSettings)},
    }
