"""The code of the functions and of the Glue jobs.

The functions have one bundle with the package, its dependencies and all handlers:

    pyarrow/ boto3/ ...                from PyPI, as pinned in requirements.lock, for Lambda's machine
    tidewheel/                         src/tidewheel
    functions/<name>/handler.py        the handlers

One bundle for all functions: they share everything but 60 lines each, and it is built and sent once.
pip fetches wheels for arm64 wherever it runs, so no Docker is needed.

The jobs have the package's wheel; Glue installs their other packages itself, as `glue_modules` pins them.
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
from aws_cdk import AssetHashType, BundlingOptions, BundlingOutput, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_s3_assets import Asset
from constructs import Construct
from packaging.markers import Marker

ROOT = Path(__file__).resolve().parents[3]

PACKAGES = (
    "aws-lambda-powertools",
    "aws-xray-sdk",
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
    "wrapt",
)
"""What `tidewheel[lambda]` needs, and what that needs (a test compares it with the packages' metadata)."""

PIP_OPTIONS = (
    "--no-deps",
    "--require-hashes",
    "--no-compile",
    # pip would ask the Python that it runs on; the lock file was resolved for the functions' too.
    "--ignore-requires-python",
    "--disable-pip-version-check",
    "--quiet",
    "--only-binary=:all:",
    "--platform=manylinux_2_28_aarch64",
    "--platform=manylinux2014_aarch64",
    "--python-version=3.13",
    "--implementation=cp",
)

NO_DOCKER = DockerImage.from_registry("docker-is-not-used")
"""CDK demands an image, and would fall back to it; our local bundling never lets it."""

UNUSED = ("pyarrow/include", "pyarrow/tests", "bin")
"""Left out of the bundle: Lambda limits it to 250 MB unpacked."""


GLUE_PACKAGES = ("pyarrow", "pyroaring")
"""What the package needs in a Glue job, boto3 apart, which Glue has."""


TARGET = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux"}
"""The functions' Python, as markers ask for it."""


class BundleFailed(Exception):
    """The functions' or the jobs' code could not be bundled: the message of pip or hatchling stands above."""


def service_code() -> lambda_.Code:
    """Return the bundle. CDK builds it only for stacks in its context `aws:cdk:bundling-stacks`."""
    return lambda_.Code.from_asset(
        str(ROOT),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(
            image=NO_DOCKER,
            local=LocalBundle(),
        ),
    )


def package_asset(scope: Construct, id_: str) -> Asset:
    """Return the package's wheel as an asset, named `.zip`: built only for stacks that are bundled.

    A wheel is a zip archive. pip would refuse the name that an asset gets (its hash), and Spark puts archives on
    the import path by their ending: `.zip`, `.egg` or `.jar`, not `.whl`.
    """
    return Asset(
        scope,
        id_,
        path=str(ROOT),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(image=NO_DOCKER, local=LocalWheel(), output_type=BundlingOutput.SINGLE_FILE),
    )


def glue_modules() -> str:
    """Return `--additional-python-modules` of a Glue job: name==version, as in the lock file.

    Raises:
        BundleFailed: A package is not in the lock file.
    """
    pinned = locked(GLUE_PACKAGES, (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    return ",".join(re.findall(r"^(\S+==[^\s;]+)", pinned, re.MULTILINE))


@jsii.implements(ILocalBundling)
class LocalWheel:
    """Builds the wheel on this machine."""

    # As in LocalBundle.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Write the wheel, as a zip archive, to a folder.

        Raises:
            BundleFailed: hatchling could not build it.
        """
        write_wheel(Path(output_dir))
        return True


def write_wheel(target: Path) -> None:
    """Write the package's wheel to a folder as `tidewheel.zip`; the same source gives the same bytes.

    Raises:
        BundleFailed: hatchling could not build it.
    """
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        # stdout belongs to jsii's conversation with node.
        done = subprocess.run(build, cwd=ROOT, stdout=sys.stderr, check=False)
        if done.returncode:
            raise BundleFailed(BundleFailed.__doc__)
        [wheel] = Path(folder).glob("*.whl")
        shutil.copyfile(wheel, target / "tidewheel.zip")


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
    """Return the entries of these packages in a lock file for the functions' Python, with their hashes.

    Markers are left out: pip would ask them of the Python that it runs on, whatever it installs for.

    Raises:
        BundleFailed: A package is not in the lock file.
    """
    found = re.finditer(
        r"^(?P<name>[a-z0-9][\w.-]*)(?P<pin>==\S+)(?: ; (?P<marker>[^\\]*))?(?P<hashes> \\\n(?:    --hash=.*\n)*)",
        lock,
        re.MULTILINE,
    )
    entries = {
        match["name"]: f"{match['name']}{match['pin']}{match['hashes']}"
        for match in found
        if match["marker"] is None or Marker(match["marker"].strip()).evaluate(TARGET)
    }
    missing = sorted(set(packages) - set(entries))
    if missing:
        raise BundleFailed(f"requirements.lock does not pin {', '.join(missing)}: make it anew.")
    return "".join(entries[name].rstrip(" \\\n") + "\n" for name in packages)
