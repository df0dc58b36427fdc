"""The SDK as a Lambda layer, for a team's own functions: made without Docker, as the service's bundles are.

    python/tidewheel/                  the modules that the client imports, in the end
    python/pyroaring... cronsim/ ...   from PyPI, as pinned in requirements.lock, for Lambda's machine

boto3 is Lambda's own: a layer's would take its place, for everything else in the function too. `get` and `peek` read
ledgers and need pyarrow, which is too large for this: a function that calls them brings `tidewheel[read]` itself.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, BundlingOutput, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from tidewheel.cdk.archive import files_of, fingerprint, write_archive
from tidewheel.cdk.bundling import NO_DOCKER
from tidewheel.cdk.pinned_packages import LAMBDA, Machine, install, pinned
from tidewheel.cdk.reach import reach
from tidewheel.shipped import PACKAGE

PACKAGES = ("cronsim", "pyroaring", "tzdata")
"""What the client needs beside boto3."""

UNUSED = ("bin", ".lock", "**/__pycache__", "**/tests")


class SdkLayer(lambda_.LayerVersion):
    """A layer with the client: `from tidewheel import Tidewheel`, `parse_received`.

    For functions with Python 3.13 on arm64: its one compiled package is for these.
    """

    def __init__(self, scope: Construct, id_: str) -> None:
        """Make the layer. CDK bundles it only for stacks in its context `aws:cdk:bundling-stacks`."""
        code = lambda_.Code.from_asset(
            str(PACKAGE),
            asset_hash=fingerprint(own_files(), pinned(PACKAGES), Path(__file__).read_text(encoding="utf-8")),
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=BundlingOptions(image=NO_DOCKER, local=LocalLayer(), output_type=BundlingOutput.ARCHIVED),
        )
        super().__init__(
            scope,
            id_,
            code=code,
            description="Tidewheel: the client",
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[lambda_.Architecture.ARM_64],
        )


@jsii.implements(ILocalBundling)
class LocalLayer:
    """Makes the layer on this machine."""

    # jsii passes the options by keyword only because it finds one of them named here.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Write the layer to a folder as `sdk.zip`.

        Raises:
            BundleFailed: A package could not be installed.
        """
        with tempfile.TemporaryDirectory() as name:
            fill(Path(name))
            write_archive(files_of(Path(name)), Path(output_dir) / "sdk.zip")
        return True


def own_files() -> dict[str, Path]:
    """Return the client's modules by their names in the layer."""
    client = sorted((PACKAGE / "sdk").glob("*.py"))
    files = {*client, *reach(client).modules.values()}
    return {f"python/{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}": path for path in sorted(files)}


def fill(folder: Path, machine: Machine = LAMBDA) -> None:
    """Put the layer's content into an empty folder.

    Raises:
        BundleFailed: A package could not be installed.
    """
    packages = folder / "python"
    install(pinned(PACKAGES, machine), packages, machine)
    for pattern in UNUSED:
        for path in sorted(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, path in own_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
