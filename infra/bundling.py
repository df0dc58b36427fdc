"""The code of the functions: one bundle with the package, its dependencies and all handlers.

    pyarrow/ boto3/ ...                from PyPI, as pinned in requirements.lock, for Lambda's machine
    tidewheel/                         src/tidewheel
    functions/<name>/handler.py        the handlers

One bundle for all functions: they share everything but 60 lines each, and it is built and sent once.
pip fetches wheels for arm64 wherever it runs, so no Docker is needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = (
    "aws-lambda-powertools",
    "aws-xray-sdk",
    "boto3",
    "botocore",
    "jmespath",
    "pyarrow",
    "pyroaring",
    "python-dateutil",
    "s3transfer",
    "six",
    "typing-extensions",
    "urllib3",
    "wrapt",
)
"""What `tidewheel[lambda]` needs, and what that needs (a test compares it with the packages' metadata)."""

PIP_OPTIONS = (
    "--no-deps",
    "--require-hashes",
    "--no-compile",
    "--disable-pip-version-check",
    "--quiet",
    "--only-binary=:all:",
    "--platform=manylinux_2_28_aarch64",
    "--platform=manylinux2014_aarch64",
    "--python-version=3.13",
    "--implementation=cp",
)

UNUSED = ("pyarrow/include", "pyarrow/tests", "bin")
"""Left out of the bundle: Lambda limits it to 250 MB unpacked."""


class BundleFailed(Exception):
    """The functions could not be bundled: pip's own message stands above."""


def service_code() -> lambda_.Code:
    """Return the bundle. CDK builds it only for stacks in its context `aws:cdk:bundling-stacks`."""
    return lambda_.Code.from_asset(
        str(ROOT),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(
            # CDK demands an image, and would fall back to it; `LocalBundle` never lets it.
            image=DockerImage.from_registry("docker-is-not-used"),
            local=LocalBundle(),
        ),
    )


@jsii.implements(ILocalBundling)
class LocalBundle:
    """Builds the bundle on this machine."""

    # jsii passes the options by keyword only because it finds one of them named here.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Write the bundle to a folder.

        Raises:
            BundleFailed: pip could not install a package.
        """
        write_bundle(Path(output_dir))
        return True


def write_bundle(target: Path) -> None:
    """Write packages, `tidewheel` and the handlers to a folder.

    Raises:
        BundleFailed: pip could not install a package.
    """
    install(target)
    for unused in UNUSED:
        shutil.rmtree(target / unused, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "src" / "tidewheel", target / "tidewheel", ignore=skip)
    shutil.copytree(ROOT / "functions", target / "functions", ignore=skip)


def install(target: Path) -> None:
    """Install the pinned packages for Lambda's machine into a folder.

    Raises:
        BundleFailed: pip failed.
    """
    pinned = locked(PACKAGES, (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(pinned, encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "install", *PIP_OPTIONS]
        # stdout belongs to jsii's conversation with node.
        done = subprocess.run(
            [*pip, f"--target={target}", f"--requirement={requirements}"], stdout=sys.stderr, check=False
        )
    if done.returncode:
        raise BundleFailed(BundleFailed.__doc__)


def locked(packages: Iterable[str], lock: str) -> str:
    """Return the entries of these packages in a lock file, with their hashes.

    Raises:
        BundleFailed: A package is not in the lock file.
    """
    entries = {
        match["name"]: match[0]
        for match in re.finditer(r"^(?P<name>[a-z0-9][\w.-]*)==.*\n(?:    --hash=.*\n)*", lock, re.MULTILINE)
    }
    missing = sorted(set(packages) - set(entries))
    if missing:
        raise BundleFailed(f"requirements.lock does not pin {', '.join(missing)}: make it anew.")
    return "".join(entries[name].rstrip(" \\\n") + "\n" for name in packages)
