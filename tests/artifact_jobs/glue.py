"""Simulates AWS Glue on one machine, where jobs run as described in the template and archives.

The run sees no source tree and no environment of the tests': an empty folder, a Python 3.13 with what Glue has, Spark
of `pyspark`, and what it downloads from S3. What is not Glue's: one machine, `local[2]`, and paths instead of `s3://`
for what Spark itself reads and writes, since Glue's file system for S3 is not to be had.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zipfile import ZipFile

import pyspark

from tests.conftest import REPOSITORY
from tests.spark.conftest import QUICK_COMPILER
from tidewheel.bundling.pinned_packages import GLUE, index_for_uv, pinned, uv

GLUE_HAS = ("boto3", "botocore", "jmespath", "numpy", "pandas", "python-dateutil", "s3transfer", "six", "urllib3")
"""What Glue 6.0 has of what the jobs import, beside pyspark and py4j, and what these packages need in turn."""

CONSUMED = ("--extra-py-files", "--additional-python-modules", "--python-modules-installer-option")
"""Arguments that Glue itself acts on, before the script runs."""

SPARK_HOME = Path(pyspark.__file__).parent
TIMEOUT_S = 540


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a job.

    Attributes:
        status: The script's exit code.
        output: Its standard output, which Glue puts into the log group `.../output`.
        errors: Its standard error.
        seconds: From the start of `spark-submit` to its end.
    """

    status: int
    output: str
    errors: str
    seconds: float

    @property
    def messages(self) -> list[str]:
        """The messages logged by the job."""
        return [json.loads(line)["message"] for line in self.output.splitlines() if line.startswith("{")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Glue:
    """Glue in an account.

    Attributes:
        folder: Where each run has a folder of its own.
        python: Python 3.13 with what Glue has.
        java_home: A Java that Spark runs on.
        endpoint_url: Where AWS is.
        s3: A client of S3 there, of the account's.
    """

    folder: Path
    python: Path
    java_home: Path
    endpoint_url: str
    s3: Any

    def run(self, job: Mapping[str, Any], master: str = "local[2]", conf: Sequence[str] = (), **arguments: str) -> Run:
        """Runs a job until completion.

        Args:
            job: Its properties in the template, all references resolved.
            master: Where Spark runs.
            conf: More settings of Spark.
            **arguments: Those of the run, which go over the job's own.
        """
        name = job["Name"]
        home = self.folder / f"{name}-{len(list(self.folder.iterdir()))}"
        home.mkdir()
        named = {**job["DefaultArguments"], **{f"--{each.replace('_', '-')}": arguments[each] for each in arguments}}
        script = self._download(job["Command"]["ScriptLocation"], home)
        package = self._download(named["--extra-py-files"], home)
        python = self._installed(named, home)
        passed = {each: value for each, value in named.items() if each not in CONSUMED}
        command = [SPARK_HOME / "bin" / "spark-submit", "--master", master, "--name", name]
        command += [f"--conf={each}" for each in (*self._settings(home), *conf)]
        command += ["--py-files", package, script, "--JOB_NAME", name, "--JOB_RUN_ID", f"jr_{home.name}"]
        command += [text for pair in passed.items() for text in pair]
        started = time.perf_counter()
        done = subprocess.run(
            list(map(str, command)),
            cwd=home,
            env=self._environment(python),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        seconds = time.perf_counter() - started
        return Run(status=done.returncode, output=done.stdout, errors=done.stderr, seconds=seconds)

    def _installed(self, named: Mapping[str, str], home: Path) -> Path:
        """Installs additional modules as Glue does, once per archive. Returns the Python with the modules."""
        archive = self._download(named["--additional-python-modules"], home)
        assert archive.name.endswith(".gluewheels.zip"), "Glue knows an archive of wheels by the end of its name"
        environment = self.folder / f"python-{archive.name.partition('.')[0]}"
        python = environment / "bin" / "python"
        if environment.exists():
            return python
        shutil.copytree(self.python.parent.parent, environment, symlinks=True)
        ZipFile(archive).extractall(home)
        options = named["--python-modules-installer-option"].split()
        wheels = home / "wheels"
        pip(python, "install", *options, f"--find-links={wheels}", f"--requirement={wheels / 'requirements.txt'}")
        return python

    def _download(self, url: str, home: Path) -> Path:
        parts = urlsplit(url)
        target = home / Path(parts.path).name
        self.s3.download_file(parts.netloc, parts.path.lstrip("/"), str(target))
        return target

    def _settings(self, home: Path) -> list[str]:
        return [
            "spark.driver.host=127.0.0.1",
            "spark.driver.bindAddress=127.0.0.1",
            "spark.driver.memory=1g",
            "spark.ui.enabled=false",
            f"spark.driver.extraJavaOptions={QUICK_COMPILER}",
            f"spark.executor.extraJavaOptions={QUICK_COMPILER}",
            f"spark.local.dir={home}",
            f"spark.sql.warehouse.dir={home / 'warehouse'}",
        ]

    def _environment(self, python: Path) -> dict[str, str]:
        """Returns a run's variables, with a role's credentials from the container's endpoint and no Region."""
        return {
            "PATH": "/usr/bin:/bin",
            "JAVA_HOME": str(self.java_home),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{self.endpoint_url}/credentials",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def make_python(executable: str, folder: Path) -> Path:
    """Makes an environment with Glue's packages. Returns the Python."""
    subprocess.run([executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    requirements = folder / "glue-has.txt"
    requirements.write_text(pinned(GLUE_HAS, GLUE, (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")))
    # pip would compile all of pandas and numpy, of which a job imports a part.
    install = [uv(), "pip", "install", "--quiet", f"--python={python}", "--no-deps", "--require-hashes"]
    subprocess.run([*install, "-r", str(requirements)], env={**os.environ, **index_for_uv()}, check=True)
    return python


def pip(python: Path, *arguments: str) -> None:
    """Runs pip for another Python."""
    command = [sys.executable, "-m", "pip", f"--python={python}", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.returncode == 0, done.stderr
