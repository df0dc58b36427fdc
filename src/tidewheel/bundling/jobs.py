"""Bundles the code of the Glue jobs as files that the deployment uploads.

    <hash>.py                  a script of `glue_jobs`
    <hash>.zip                 the parts of this package that jobs need: `--extra-py-files`
    <hash>.gluewheels.zip      the packages that Glue lacks, as wheels: `--additional-python-modules`

Glue installs the wheels when a run starts. With `--no-index` pip asks no package index. So a job can run in a subnet
without internet access, and uses the tested versions. Glue 5.0 and later know such an archive by the end of its name:
https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html

    wheels/requirements.txt    names and versions
    wheels/*.whl
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tidewheel.bundling.archive import files_of, fingerprint, write_archive
from tidewheel.bundling.functions import makers
from tidewheel.bundling.pinned_packages import GLUE, pinned, run_uv
from tidewheel.errors import BundleFailed
from tidewheel.shipped import PACKAGE, PUBLIC_NAMES

GLUE_PACKAGES = ("cronsim", "msgspec", "pyarrow", "pyroaring", "tzdata")
"""The packages that this package needs in a job. Glue already has boto3, numpy, pandas, py4j and pyspark."""

JOB_FOLDERS = ("aws", "client", "flows", "jobs", "ledger", "model", "spark", "storage")
"""The folders of this package that jobs import from, beside the modules in the root folder."""

WHEELS_SUFFIX = ".gluewheels.zip"
"""The suffix by which Glue recognizes an archive of wheels."""

PIP_VERSION = "26.0.1"
"""The version of pip that uv runs: uv itself cannot download wheels."""

NO_INDEX = "--no-index"
"""The option that keeps pip from asking a package index."""


def package_hash() -> str:
    """Returns the hash of the archive of this package."""
    return fingerprint(job_files(), *makers())


def wheels_hash() -> str:
    """Returns the hash of the archive of wheels, which needs no wheels, since the lock file has their hashes."""
    return fingerprint({}, pinned(GLUE_PACKAGES, GLUE), Path(__file__).read_text(encoding="utf-8"), *makers())


def job_files() -> dict[str, Path]:
    """Returns the files of this package for the jobs, by their names in the archive."""
    inside = (path for folder in JOB_FOLDERS for path in (PACKAGE / folder).rglob("*.py"))
    found = [*PACKAGE.glob("*.py"), PACKAGE / PUBLIC_NAMES, *inside]
    return {path.relative_to(PACKAGE.parent).as_posix(): path for path in found}


def write_package(target: Path) -> None:
    """Writes the files of this package for the jobs to a folder, as `tidewheel.zip`."""
    write_archive(job_files(), target / "tidewheel.zip")


def write_wheels(target: Path) -> None:
    """Writes the wheels that Glue installs to a folder, as `tidewheel.gluewheels.zip`.

    Raises:
        BundleFailed: uv is missing, or pip failed with a message on stderr.
    """
    locked = pinned(GLUE_PACKAGES, GLUE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _download(locked, folder)
        versions = re.findall(r"^[a-z0-9][^\s;]*", locked, flags=re.MULTILINE)
        # Without the hashes: they were checked here, and Glue's own options for pip may conflict with hashes.
        (folder / "requirements.txt").write_text("".join(f"{each}\n" for each in versions), encoding="utf-8")
        files = {f"wheels/{name}": path for name, path in files_of(folder).items()}
        write_archive(files, target / f"tidewheel{WHEELS_SUFFIX}")


def _download(requirements: str, target: Path) -> None:
    pip = ["tool", "run", "--quiet", f"--python={sys.executable}", f"pip=={PIP_VERSION}", "download"]
    platforms = [f"--platform={name}_{GLUE.architecture}" for name in ("manylinux_2_28", "manylinux2014")]
    python = ["--implementation=cp", f"--python-version={GLUE.python}", *platforms]
    if not run_uv(requirements, *pip, "--disable-pip-version-check", *python, f"--dest={target}"):
        raise BundleFailed("pip could not download the wheels of the Glue jobs: it says why above.")
