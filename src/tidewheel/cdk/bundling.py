"""The code of the functions, as an asset.

All functions have one archive:

    pyarrow/ boto3/ ...                from PyPI, as pinned in requirements.lock, for Lambda's machine; unchanged
    tidewheel/                         this package
    functions/<name>/handler.py        the handlers

LEFT_OUT names the files that stay outside; a file that is in the archive is as its project wrote it. uv or pip fetches
wheels for arm64 wherever it runs, so no Docker is needed. `job_code.py` has the code of the Glue jobs.

The asset's hash is made of the pinned packages, the own modules and the code that bundles. So the hash is known without
bundling and equal on all machines, any other change deploys nothing, and an archive in `cdk.out` is not made again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from aws_cdk import AssetHashType, BundlingOutput
from aws_cdk import aws_lambda as lambda_

from tidewheel.cdk import archive, pinned_packages
from tidewheel.cdk.archive import bundled_by, files_of, fingerprint, write_archive
from tidewheel.cdk.pinned_packages import LAMBDA, BundleFailed, Machine, install, pinned
from tidewheel.shipped import FUNCTIONS, PACKAGE, PUBLIC_NAMES, shipped

MB = 1_000_000

LIMIT_BYTES = 220 * MB
"""The most that the functions' archive may have unpacked: a package that grew is found before Lambda refuses it."""

LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024
"""The most that a function may have unpacked, its layers included (Lambda quotas, "Deployment package size")."""

PACKAGES = (
    "aws-lambda-powertools",
    "boto3",
    "botocore",
    "cronsim",
    "jmespath",
    "numpy",
    "pyarrow",
    "pyroaring",
    "python-dateutil",
    "s3transfer",
    "six",
    "typing-extensions",
    "tzdata",
    "urllib3",
)
"""All packages that `tidewheel[lambda]` needs, directly or not."""

LEFT_OUT = {
    ".lock": "uv's, while it installs",
    "bin/*": "command lines, made by the installer; they name the Python that ran it",
    "*.dist-info/INSTALLER": "the installer's",
    "*.dist-info/RECORD": "the installer's; it lists the files that are left out, too",
    "*.dist-info/REQUESTED": "the installer's",
    "numpy/*tests/*": "tests: 8 MB",
    "pyarrow/tests/*": "tests: 3 MB",
    "pyarrow/include/*": "C++ headers: 6 MB",
    "pyarrow/*flight*": "Arrow Flight, a protocol over gRPC: 33 MB",
    "pyarrow/*_s3*": "Arrow's own client of S3: 17 MB; the functions use botocore",
    "tidewheel/cdk/*": "the constructs",
    "tidewheel/cli/*": "the command line",
    "tidewheel/cost/*": "the calculation of bills",
    "tidewheel/local/*": "the local runtime",
    "tidewheel/memory/*": "the metadata in memory, for tests",
    "tidewheel/spark/*": "the Glue jobs",
}
"""Files that are left out: a pattern of their names in the archive, where `*` matches `/` too, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSize:
    """How large the functions' archive is.

    Attributes:
        unpacked_bytes: As a function has it.
        zipped_bytes: As it is uploaded.
    """

    unpacked_bytes: int
    zipped_bytes: int


def service_code() -> lambda_.Code:
    """Return the code of all functions. CDK bundles only for stacks in its context `aws:cdk:bundling-stacks`."""
    return lambda_.Code.from_asset(
        str(PACKAGE),
        asset_hash=functions_hash(),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=bundled_by(write_bundle, BundlingOutput.ARCHIVED),
    )


def handler_of(function: str) -> str:
    """Return a function's handler, as its configuration names it.

    Raises:
        BundleFailed: The archive has no such handler.
    """
    file = f"functions/{function}/handler.py"
    if file not in _handlers():
        raise BundleFailed(f"functions.zip has no {file}, which the function {function!r} is configured with.")
    return f"functions.{function}.handler.handler"


def functions_hash() -> str:
    """Return the hash of the functions' asset."""
    return fingerprint(own_files(), pinned(PACKAGES), *makers())


def fill(folder: Path, machine: Machine = LAMBDA) -> None:
    """Put the content of the functions' archive into an empty folder.

    Raises:
        BundleFailed: A package could not be installed.
    """
    install_files(folder, pinned(PACKAGES, machine), own_files(), machine)


def install_files(folder: Path, requirements: str, own: Mapping[str, Path], machine: Machine) -> None:
    """Install packages into an empty folder, less LEFT_OUT, and copy files of our own to it.

    Raises:
        BundleFailed: A package could not be installed.
    """
    install(requirements, folder, machine)
    for name, path in files_of(folder).items():
        if _left_out(name):
            path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    for name, path in own.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)


def write_bundle(target: Path, machine: Machine = LAMBDA) -> BundleSize:
    """Write the functions' archive to a folder as `functions.zip`, and its size to stderr.

    Raises:
        BundleFailed: As `fill`; or the archive is larger than it may be.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, machine)
        files = files_of(folder)
        unpacked = sum(path.stat().st_size for path in files.values())
        if unpacked > LIMIT_BYTES:
            raise BundleFailed(
                f"functions.zip has {unpacked / MB:.1f} MB unpacked, more than its limit of {LIMIT_BYTES / MB:.0f} MB "
                f"(Lambda's own is {LAMBDA_LIMIT_BYTES / MB:.0f} MB): see which package grew, and LEFT_OUT in "
                "`tidewheel/cdk/bundling.py`."
            )
        zipped = target / "functions.zip"
        write_archive(files, zipped)
    size = BundleSize(unpacked_bytes=unpacked, zipped_bytes=zipped.stat().st_size)
    # stdout belongs to jsii's conversation with node.
    print(
        f"functions.zip for {machine.architecture}: {size.unpacked_bytes / MB:.1f} MB unpacked of Lambda's "
        f"{LAMBDA_LIMIT_BYTES / MB:.0f} MB, {size.zipped_bytes / MB:.1f} MB zipped.",
        file=sys.stderr,
    )
    return size


def own_files() -> dict[str, Path]:
    """Return the handlers and the modules of this package, by their names in the functions' archive."""
    return {**_handlers(), **own_modules()}


def own_modules() -> dict[str, Path]:
    """Return the modules of this package that are deployed, by their names in an archive."""
    # The wheel keeps handlers and jobs in folders of the package that begin with "_".
    found = (path.relative_to(PACKAGE) for path in [*PACKAGE.rglob("*.py"), PACKAGE / PUBLIC_NAMES])
    names = (path.as_posix() for path in found if not any(part.startswith("_") for part in path.parts[:-1]))
    modules = {f"{PACKAGE.name}/{name}": PACKAGE / name for name in names}
    return {name: path for name, path in modules.items() if not _left_out(name)}


def _handlers() -> dict[str, Path]:
    found = shipped(FUNCTIONS).glob("*/handler.py")
    return {f"functions/{path.parent.name}/handler.py": path for path in found}


def _left_out(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def makers() -> list[str]:
    """Return the source of the modules that decide on an archive's bytes, beside what goes into it."""
    return [
        Path(module).read_text(encoding="utf-8") for module in (__file__, archive.__file__, pinned_packages.__file__)
    ]
