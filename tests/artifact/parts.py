"""Builds the deployed parts once per run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.artifact import archive
from tests.artifact.cloud import Parts
from tests.artifact.execution import LAUNCH
from tests.infra.variants import template_of


def fill_parts(folder: Path, python: Path, functions: Path, wheel: Path) -> None:
    """Makes everything from the lock file, the functions' archive and the wheel."""
    # Hard links cost little.
    shutil.copytree(functions, folder / "functions", copy_function=os.link)
    runtime, sdk = folder / "runtime", folder / "sdk"
    for each in (runtime, sdk):
        each.mkdir()
        # The processes may open nothing of the repository.
        shutil.copyfile(LAUNCH, each / "launch.py")
    shutil.copyfile(LAUNCH.with_name("sdk_process.py"), sdk / "sdk_process.py")
    archive.install_runtime(runtime)
    archive.install_sdk(sdk, wheel)
    # As in Lambda no process writes bytecode. The tests start more than a hundred, and each would compile every module.
    subprocess.run([python, "-I", "-m", "compileall", "-qq", folder], check=True)


def parts_in(folder: Path, python: Path) -> Parts:
    """Returns the parts in a folder, with the template of the CDK app."""
    return Parts(
        python=python,
        runtime=folder / "runtime",
        sdk=folder / "sdk",
        template=template_of("development"),
        archive=folder / "functions",
    )
